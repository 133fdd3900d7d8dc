"""Records the lock levels that the statements of each transaction name, and refuses those out of order. [INV-12]

A transaction that holds a gate excludes every other change of its runs, so below the gates only the levels above
level 4 are free to come in any order; without a gate (lease, renew, defer, reclaim) levels only rise.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.db.locks import Level
from orchestrator.db.sql import Statements, engine_connection, load

ROOT = Path(__file__).resolve().parents[1]
APPS = ("orchestrator", "workflows", "dispatch", "outbox")
FILES = sorted((app, path.name) for app in APPS for path in (ROOT / app / "sql").glob("*.sql"))
_LEVEL = re.compile(r"^-- lock: (\w+)$", re.M)


def levels() -> dict[str, Level]:
    """Statement name -> the level it names, of those that may wait for a lock."""
    found = {}
    for app, file in FILES:
        statements: Statements = load(app, file)
        for statement in statements.statements.values():
            match = _LEVEL.search(statement.text)
            if match and "SKIP LOCKED" not in statement.text:
                found[statement.name] = Level[match.group(1)]
    return found


_QUEUE = "workflows.decide_queue."
GATES = frozenset(_QUEUE + verb for verb in ("claim", "claim_these", "claim_waiting", "enqueue"))


@dataclass
class Transaction:
    """What one transaction has taken so far."""

    block: object | None = None
    highest: int = 0
    gates: set[Any] = field(default_factory=set)
    unnamed_gates: bool = False
    locked: bool = False
    statements: list[str] = field(default_factory=list)


class LockOrderRecorder:
    """An observer of statements; `violations` lists what was out of order."""

    def __init__(self) -> None:
        self.levels = levels()
        self.violations: list[str] = []
        self._transactions: dict[int, Transaction] = {}

    def __call__(self, name: str, params: dict[str, Any]) -> None:
        blocks = engine_connection().atomic_blocks
        block = blocks[0] if blocks else None
        thread = threading.get_ident()
        current = self._transactions.get(thread)
        if current is None or block is None or current.block is not block:
            current = self._transactions[thread] = Transaction(block)
        current.statements.append(name)
        level = self.levels.get(name)
        if level is not None and self._out_of_order(name, params, level, current):
            self.violations.append(f"{name} ({level.name}) after {' > '.join(current.statements[:-1])}")
        if name in GATES:
            current.gates |= _ids(params)
            current.unnamed_gates = current.unnamed_gates or name == _QUEUE + "claim"
        current.locked = current.locked or name == "workflows.execution.lock"
        current.highest = max(current.highest, level or 0)

    def _out_of_order(self, name: str, params: dict[str, Any], level: Level, current: Transaction) -> bool:
        gated = bool(current.gates) or current.unnamed_gates
        if level > Level.EXECUTION:
            return level < current.highest and not gated
        if level == Level.EXECUTION and current.locked:
            return False  # rows that this transaction holds: nothing is waited for
        if level == Level.GATE and gated:
            return not current.unnamed_gates and not _ids(params) <= current.gates and current.highest > Level.GATE
        return current.highest > Level.EXECUTION or level < current.highest


def _ids(params: dict[str, Any]) -> set[Any]:
    """The runs a gate statement names."""
    return set(params.get("ids") or ()) | ({params["id"]} if "id" in params else set())
