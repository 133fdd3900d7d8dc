"""The rows of a run as one pass knows them: what was read, and the drafts it adds."""

from __future__ import annotations

from collections.abc import Iterable

from workflows.engine.blueprint import OPERATORS, Blueprint, Node
from workflows.engine.rows import NeedRows, Row
from workflows.engine.state import State

ENDED_BY_PASSES = frozenset({"JOIN", "EXCLUSIVE_JOIN", "DO_WHILE", "COMPENSATION"})


class Book:
    """Rows by ref, in the order they came."""

    __slots__ = ("blueprint", "by_ref", "loaded", "order", "whole")

    def __init__(self, blueprint: Blueprint, state: State) -> None:
        self.blueprint = blueprint
        self.by_ref: dict[str, list[Row]] = {}
        self.order: list[Row] = []
        self.loaded = state.loaded
        self.whole = not state.workflow.has_any_task
        for view in state.tasks:
            self.add(Row.of(view))

    def add(self, row: Row) -> None:
        self.by_ref.setdefault(row.ref, []).append(row)
        self.order.append(row)

    def unconsumed(self) -> list[Row]:
        """Ended rows that no pass has consumed, in the order they ended."""
        found = [row for row in self.order if row.status.terminal and not row.consumed]
        if len(found) > 1:
            found.sort(key=_ended)
        return found

    def open_leaf(self) -> bool:
        """Whether anything is open that something other than a pass can end."""
        return any(not row.status.terminal and row.type not in ENDED_BY_PASSES for row in self.order)

    def any_open(self) -> bool:
        return any(not row.status.terminal for row in self.order)

    def open_row(self, ref: str, iteration: str) -> Row | None:
        """The open row of an operator at an iteration; open rows are always read."""
        for row in self.by_ref.get(ref, ()):
            if row.iteration == iteration and not row.status.terminal:
                return row
        return None

    def find(self, ref: str, node: Node | None, iteration: str) -> Row | None:
        """The row a reference means: newest visible iteration, ended attempts before pending ones, newest attempt.

        Raises NeedRows when it was not read.
        """
        rows = self.by_ref.get(ref, ())
        best: Row | None = None
        if len(rows) == 1 and not iteration and not rows[0].iteration:
            best = rows[0]
        elif rows:
            best = self._newest(rows, _common_loops(node, self.blueprint.nodes.get(ref)), iteration)
        if self.whole or ref in self.loaded:
            return best
        if best is not None and (best.view is None or best.status.terminal or _first_and_whole(best)):
            return best
        raise NeedRows([ref])

    def _newest(self, rows: Iterable[Row], common: int, iteration: str) -> Row | None:
        prefix = tuple(map(int, iteration.split(".")))[:common] if iteration else ()
        seen = [row for row in rows if row.path[:common] == prefix]
        return max(seen, key=lambda row: (row.path, row.status.terminal, row.attempt), default=None)

    def find_all(self, refs: Iterable[str], node: Node | None, iteration: str) -> dict[str, Row]:
        """The rows of several refs; asks at once for all that were not read."""
        found: dict[str, Row] = {}
        missing: set[str] = set()
        for ref in refs:
            try:
                row = self.find(ref, node, iteration)
            except NeedRows as need:
                missing |= need.refs
                continue
            if row is not None:
                found[ref] = row
        if missing:
            raise NeedRows(missing)
        return found


def _ended(row: Row) -> tuple[float, int]:
    moment = row.view.ended_at if row.view else None
    return (moment.timestamp() if moment else float("inf"), row.id.int)


def _common_loops(node: Node | None, target: Node | None) -> int:
    """How many enclosing loops two nodes share."""
    if node is None or target is None:
        return 0
    count = 0
    for ours, theirs in zip(node.loops, target.loops, strict=False):
        if ours != theirs:
            break
        count += 1
    return count


def _first_and_whole(row: Row) -> bool:
    """An operator's open row is read with its payload, and its first attempt hides no earlier one."""
    return (row.type in OPERATORS or row.type == "COMPENSATION") and row.attempt == 0
