"""Actions on one task of a run: end it by its reference, cancel it, or skip it before its turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from orchestrator.db.ids import new_id
from orchestrator.errors import Invalid, NotFound
from orchestrator.services.secrets import Masker
from workflows import offloading, payloads
from workflows.engine.blueprint import Node
from workflows.engine.commands import ScheduleTask
from workflows.engine.human import misfits
from workflows.engine.state import TaskStatus
from workflows.managers.execution import LockedExecution
from workflows.managers.task import OpenTask, OutlineTask, TaskEnd
from workflows.models import Task
from workflows.services.control.acting import note, perform, refuse, require
from workflows.services.revisions import blueprint_for
from workflows.transitions import end_tasks, make_tasks, stop_children

_CONTAINERS = frozenset({"JOIN", "DO_WHILE"})
SETTLED_AT_ONCE = frozenset(
    {"SWITCH", "DECISION", "FORK_JOIN", "JOIN", "DO_WHILE", "SET_VARIABLE", "TERMINATE", "NOOP", "BUSINESS_RULE",
     "START_WORKFLOW"}
)  # fmt: skip
"""Tasks that wait for nobody: there is nothing to skip."""
_REPORTED = frozenset(
    {"IN_PROGRESS", "COMPLETED", "COMPLETED_WITH_ERRORS", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "CANCELED"}
)


def complete_task(
    namespace: str,
    workflow_id: UUID,
    ref: str,
    status: str,
    output: dict[str, Any] | None = None,
    *,
    actor: str,
    reason: str | None = None,
    worker_id: str | None = None,
    iteration: str | None = None,
    task_id: UUID | None = None,
    first: Callable[[], object] | None = None,
    then: Callable[[UUID | None], None] | None = None,
) -> UUID | None:
    """End the newest open task of a reference, or keep it open with more output; with `task_id`, that one or none.

    Returns its id, or None when none is open. The output is merged into what the task had, whoever holds its lease;
    status IN_PROGRESS only merges it. Raises Invalid for an answer that does not fit a HUMAN task's form. `first` is
    called under the run's lock before anything is written, `then` is told the id inside the transaction.
    """

    def body(run: LockedExecution) -> UUID | None:
        if first is not None:
            first()
        task = _open_task(run, ref, iteration, task_id)
        if task is None:
            return None
        masker = Masker(namespace)
        given = masker.value(output)
        merged = given
        if given or task.type == "HUMAN":
            (view,) = map(offloading.whole_task, Task.sql.read_tasks(run.id, [task.id]))
            merged = {**view.output, **(given or {})} if isinstance(view.output, dict) else given
            if task.type == "HUMAN" and TaskStatus(status).successful:
                _require_fit(view.input, merged)
        payloads.require("task output", merged, "output")
        if status == "IN_PROGRESS":
            Task.sql.update_open([{"workflow_id": run.id, "id": task.id, "state": None, "output": merged}])
            return task.id
        end_as_operator(run, task, status, merged, None if reason is None else masker.text(reason), worker_id)
        return task.id

    if status not in _REPORTED:
        raise Invalid(problems=[("status", f"expected one of {', '.join(sorted(_REPORTED))}, got {status!r}")])
    if output is not None and not isinstance(output, dict):
        raise Invalid(problems=[("output", f"expected an object, got {type(output).__name__}")])
    detail = {"ref": ref, "status": status}
    return perform("complete_task", namespace, workflow_id, actor, body, detail=detail, then=then)


def _require_fit(given: Any, answer: Any) -> None:
    problems = misfits(given, answer, "output")
    if problems:
        raise Invalid(problems=problems)


def cancel_task(
    namespace: str, workflow_id: UUID, ref: str, *, actor: str, reason: str | None = None, iteration: str | None = None
) -> UUID:
    """Cancel the newest open task of a reference: an optional one is passed over, any other ends the run TERMINATED."""

    def body(run: LockedExecution) -> UUID:
        require(run, "cancel_task")
        task = _open_task(run, ref, iteration)
        if task is None:
            refuse(run, "cancel_task", f"no task {ref} is open")
        end_as_operator(run, task, TaskStatus.CANCELED, None, reason or f"Canceled by {actor}.", None)
        return task.id

    return perform("cancel_task", namespace, workflow_id, actor, body, detail={"ref": ref, "reason": reason})


def _open_task(
    run: LockedExecution, ref: str, iteration: str | None, task_id: UUID | None = None
) -> OpenTask | None:
    found = [t for t in Task.sql.find_open(run.id, ref) if iteration is None or t.iteration == iteration]
    if task_id is not None:
        found = [t for t in found if t.id == task_id]
    if not found:
        return None
    if found[0].type in _CONTAINERS:
        refuse(run, "complete_task", f"{ref} is a {found[0].type}, which ends when the tasks inside it have ended")
    return found[0]


def end_as_operator(
    run: LockedExecution, task: OpenTask, status: str, output: Any, reason: str | None, worker_id: str | None
) -> None:
    """End the task as an operator; a child that ran for it has nobody to report to any more and is ended too."""
    ended = end_tasks([TaskEnd(task.id, run.id, status, output, reason, "OPERATOR", worker_id=worker_id)])
    why = f"The task {task.ref} of the parent workflow {run.id} was ended {status} by an operator."
    stop_children(run.namespace, ended, why)


def skip_task(
    namespace: str,
    workflow_id: UUID,
    ref: str,
    *,
    actor: str,
    input: dict[str, Any] | None = None,
    output: dict[str, Any] | None = None,
) -> UUID:
    """Let a task that has not started be passed over with this output, when its turn comes; returns its id.

    Inside a loop the present turn is meant. Raises NotFound for a reference that the definition does not have, and
    Invalid for tasks that never wait for anybody, such as a SWITCH.
    """

    payloads.require("task input", input, "taskInput")
    payloads.require("task output", output, "taskOutput")

    def body(run: LockedExecution) -> UUID:
        require(run, "skip_task")
        node = blueprint_for([run.revision_id])[run.revision_id].nodes.get(ref)
        if node is None:
            raise NotFound(f"Workflow {run.id} has no task with the reference {ref}", ref=ref)
        if node.type in SETTLED_AT_ONCE:
            raise Invalid(problems=[("taskReferenceName", f"{ref} is a {node.type}: skip the tasks inside it instead")])
        rows = Task.sql.outline(run.id)
        iteration = _present_turn(run, node, rows)
        if any(row.ref == ref and row.iteration == iteration for row in rows):
            refuse(run, "skip_task", f"{ref} has started already")
        task = skipped(node, iteration, input, output)
        make_tasks([(run.id, run.namespace, run.priority, task)])
        note(run.id, "task.skip_requested", actor, ref)
        return task.id

    return perform("skip_task", namespace, workflow_id, actor, body, detail={"ref": ref})


def skipped(node: Node, iteration: str, input: Any, output: Any) -> ScheduleTask:
    """Born consumed, so that no pass goes past it yet: `unskip` frees it when its own insert is absorbed."""
    return ScheduleTask(
        new_id(), node.ref, iteration, 0, node.name, node.type, TaskStatus.SKIPPED, input or {}, output or {},
        reason="Skipped by an operator.", cause="OPERATOR", state={"awaits_turn": True}, consumed=True,
    )  # fmt: skip


def _present_turn(run: LockedExecution, node: Node, rows: list[OutlineTask]) -> str:
    iteration = ""
    for loop in node.loops:
        row = next((r for r in rows if r.ref == loop and r.iteration == iteration and not r.ended), None)
        if row is None or not row.state:
            refuse(run, "skip_task", f"{node.ref} stands in the loop {loop}, which is not running")
        turn = str(row.state["iteration"])
        iteration = f"{iteration}.{turn}" if iteration else turn
    return iteration
