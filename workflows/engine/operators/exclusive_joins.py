"""EXCLUSIVE_JOIN: the output of the first of several tasks that really ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workflows.engine.blueprint import Node
from workflows.engine.operators.start import Start
from workflows.engine.rows import Row
from workflows.engine.state import TaskStatus

if TYPE_CHECKING:
    from workflows.engine.decider import Pass


def exclusive_join(start: Start) -> None:
    """Take what ran; wait only for a task that is still running in a branch its fork's join did not wait for."""
    winner = _winner(start.pass_, start.node, start.iteration)
    if winner is not None and not winner.status.terminal:
        start.row(TaskStatus.IN_PROGRESS, input=_shown(start), state={"pending": [winner.ref]})
    else:
        start.settle(input=_shown(start), output=_output(winner))


def close_exclusive(pass_: Pass, join: Node, row: Row) -> None:
    """The task that was waited for has ended."""
    winner = _winner(pass_, join, row.iteration)
    if not pass_.put_out(join, row, _output(winner)):
        return
    row.status, row.consumed = TaskStatus.COMPLETED, True
    pass_.last = row
    if not pass_.put_off(row):
        pass_.finished(join, row.iteration)


def _winner(pass_: Pass, join: Node, iteration: str) -> Row | None:
    wanted = [ref for name in ("joinOn", "defaultExclusiveJoinTask") for ref in join.spec.get(name) or []]
    rows = pass_.book.find_all(wanted, join, iteration)
    for ref in wanted:
        row = rows.get(ref)
        if row is not None and row.status != TaskStatus.SKIPPED:
            return row
    return None


def _output(winner: Row | None) -> Any:
    return winner.output or {} if winner is not None else {}


def _shown(start: Start) -> dict[str, Any]:
    return {**start.inputs(), "joinOn": start.node.spec.get("joinOn") or []}
