"""Wake-up hints, sent after the commit in one statement for each transaction.

NOTIFY inside a hot transaction serialises commits, so it is sent by itself afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from orchestrator.db import sql
from orchestrator.db.sql import engine_connection
from orchestrator.db.transactions import after_commit

_SQL = sql.load("orchestrator", "hints.sql")

DECIDE = "ostinato_decide"
QUEUE = "ostinato_queue"
OUTBOX = "ostinato_outbox"
TIMER = "ostinato_timer"
ADMISSION = "ostinato_admission"
HISTORY = "ostinato_history"
"""Its payload names runs, separated by commas; an empty one means any."""

_RUNS_IN_A_PAYLOAD = 150  # a payload holds 8,000 bytes


@dataclass(slots=True)
class _Pending:
    """The hints of one transaction."""

    block: object
    channels: set[str] = field(default_factory=set)
    runs: set[UUID] = field(default_factory=set)


_thread = threading.local()


def hint(*channels: str, history: Iterable[UUID] = ()) -> None:
    """Wake the listeners of `channels`, and the readers of these runs' history, after the commit."""
    blocks = engine_connection().atomic_blocks
    block = blocks[0] if blocks else object()
    pending: _Pending | None = getattr(_thread, "pending", None)
    if pending is None or pending.block is not block:
        pending = _thread.pending = _Pending(block)
        after_commit(lambda: _send(pending))
    pending.channels.update(channels)
    pending.runs.update(history)


def _send(pending: _Pending) -> None:
    _thread.pending = None
    runs = [str(workflow_id) for workflow_id in pending.runs]
    named = [",".join(runs[i : i + _RUNS_IN_A_PAYLOAD]) for i in range(0, len(runs), _RUNS_IN_A_PAYLOAD)]
    channels = [*sorted(pending.channels), *(HISTORY for _ in named)]
    if channels:
        notify(channels, [*("" for _ in pending.channels), *named])


def notify(channels: list[str], payloads: list[str]) -> None:
    """Send notifications now."""
    _SQL.notify.rows(channels=channels, payloads=payloads)
