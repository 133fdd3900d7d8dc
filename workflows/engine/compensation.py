"""The saga: a run that fails undoes its completed tasks by their `compensateWith`, newest finished first, one at a time.

A failing run is not ended: its open tasks are cancelled and one operator row, COMPENSATION, is made, which holds how the
run shall end. Passes of a run with that row open do nothing but undo; the run ends when nothing is left to be undone, or
when an undoing task has finally failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

from workflows.engine.blueprint import Blueprint, Node, undo_node
from workflows.engine.commands import EndRun, ScheduleTask
from workflows.engine.expressions import expressions
from workflows.engine.rows import NeedOriginal, Row
from workflows.engine.state import TaskStatus, TaskView, WorkflowStatus

if TYPE_CHECKING:
    from workflows.engine.decider import Pass

REF = "COMPENSATION"
"""Reference and type of the operator row; no task of a definition may have this reference."""
NEWEST = UUID(int=0)
"""Asks for the completed task that finished last, instead of the one before another."""
_SHOWN = 50


def marker(id: UUID, end: EndRun) -> ScheduleTask:
    """The operator row that makes a run undo its tasks and then end as it would have ended."""
    kept = {
        "status": end.status.value, "output": end.output, "reason": end.reason, "failedRefs": list(end.failed_refs),
        "failureWorkflow": end.failure_workflow,
    }  # fmt: skip
    return ScheduleTask(id, REF, "", 0, REF, REF, TaskStatus.IN_PROGRESS, kept, {}, state={"undone": []})


def go_on(pass_: Pass, row: Row) -> NoReturn:
    """The whole of a pass over a run that undoes its tasks."""
    for ended in pass_.book.unconsumed():
        ended.consumed = True
        pass_.consumed.append(ended)
        if undoes(ended) is not None:
            pass_.settle_ended(ended)
            pass_.work()
    while not any(undoes(task) is not None and not task.status.terminal for task in pass_.book.order):
        _undo_next(pass_, row)
    pass_.stop()


def _undo_next(pass_: Pass, row: Row) -> None:
    state = row.state or {}
    original = _before(pass_, UUID(state["after"]) if state.get("after") else NEWEST)
    if original is None:
        row.status, row.consumed = TaskStatus.COMPLETED, True
        _end(pass_, row, None)
    row.state, row.changed = {**state, "after": str(original.id)}, True
    node = pass_.node(original).undo
    if node is not None:
        pass_.start(node, original.iteration)
        pass_.work()


def _before(pass_: Pass, after: UUID) -> Row | None:
    """The completed task to undo next: the one that finished before `after`."""
    found = pass_.state.originals
    if after not in found:
        raise NeedOriginal(after)
    view = found[after]
    if view is None:
        return None
    return next((known for known in pass_.book.by_ref.get(view.ref, ()) if known.id == view.id), None) or _add(pass_, view)


def _add(pass_: Pass, view: TaskView) -> Row:
    row = Row.of(view)
    pass_.book.add(row)
    return row


def undone(pass_: Pass, node: Node) -> None:
    """An undoing task has ended well, or its failure does not matter."""
    row, last = pass_.open_row(REF, ""), pass_.book.by_ref[node.ref][-1]
    if row is not None and last.status == TaskStatus.COMPLETED:
        state = row.state or {}
        row.state, row.changed = {**state, "undone": [*state["undone"], node.block.key]}, True


def undoing_failed(pass_: Pass, node: Node, failed: Row) -> NoReturn:
    """An undoing task has finally failed: what is left stays as it is, and the run says both reasons."""
    row = pass_.open_row(REF, "")
    why = f"{failed.ref}, which undoes {node.block.key}, ended {failed.status}: {failed.reason or 'no reason given'}"
    if row is not None:
        row.status, row.consumed, row.reason, row.changed = TaskStatus.FAILED, True, why, True
        _end(pass_, row, why)
    pass_.end_run(WorkflowStatus.FAILED, None, why, (failed.ref,))


def _end(pass_: Pass, row: Row, failed: str | None) -> NoReturn:
    wanted, done = row.input, (row.state or {}).get("undone") or []
    row.changed, row.output = True, {"undone": done}
    parts = [wanted.get("reason") or f"The workflow ended {wanted['status']}"]
    if failed:
        parts.append(f"compensation failed: {failed}")
    if done:
        more = f" and {len(done) - _SHOWN} more" if len(done) > _SHOWN else ""
        parts.append("undone: " + ", ".join(done[:_SHOWN]) + more)
    pass_.end = EndRun(
        WorkflowStatus.FAILED if failed else WorkflowStatus(wanted["status"]),
        wanted.get("output"), "; ".join(parts), tuple(wanted.get("failedRefs") or ()), wanted.get("failureWorkflow"),
    )  # fmt: skip
    pass_.stop()


def undoes(row: Row) -> str | None:
    """The reference that a row's task undoes, or None for any other task."""
    return (row.state or {}).get("undoes")


def node_of(blueprint: Blueprint, row: Row) -> Node:
    """The node of an undoing row; one that belongs to a task made at run time carries its own definition."""
    known = blueprint.undo.get(row.ref)
    return known if known is not None and row.spec is None else undo_node(blueprint, row.spec or {}, undoes(row) or "")


def named(blueprint: Blueprint) -> list[str]:
    """The references that the values of undoing tasks name."""
    templates = [t for node in blueprint.undo.values() for t in (node.inputs, *node.extras.values())]
    return sorted({found.root for template in templates for found in expressions(template)})


def turns_around(iteration: str) -> list[str]:
    """A turn of a loop and those it stands in: `2.1` and `2`."""
    parts = iteration.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


def choose(tasks: Iterable[TaskView], refs: Iterable[str], after: UUID) -> TaskView | None:
    """What the database answers to `NeedOriginal`, for a run that is held in memory."""
    wanted = set(refs)
    done = [
        task
        for task in tasks
        if task.status == TaskStatus.COMPLETED and (task.ref in wanted or (task.spec or {}).get("compensateWith"))
    ]
    done.sort(key=lambda task: (task.ended_at.timestamp() if task.ended_at else 0.0, task.id.int))
    if after == NEWEST:
        return done[-1] if done else None
    place = next((index for index, task in enumerate(done) if task.id == after), 0)
    return done[place - 1] if place else None
