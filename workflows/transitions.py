"""The three transitions every path shares: make tasks, end tasks, end runs. [INV-11]

The caller owns the transaction and holds the gate of every run that is named here (rule G).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from dispatch.models import Permit, QueuedTask
from orchestrator.db.hints import ADMISSION, DECIDE, OUTBOX, QUEUE, hint
from orchestrator.db.ids import new_id
from orchestrator.db.sql import batch
from orchestrator.db.transactions import requires_transaction
from outbox.managers import NewOutboxEvent
from outbox.models import OutboxEvent
from workflows.engine import compensation
from workflows.engine.commands import EndRun, ScheduleTask
from workflows.engine.state import TaskStatus, WorkflowStatus
from workflows.managers.execution import LockedExecution, RunEnd
from workflows.managers.history import NewEvent
from workflows.managers.task import EndedTask, TaskEnd
from workflows.managers.timer import NewTimer
from workflows.models import Admission, DecideQueue, Execution, HistoryEvent, Task, Timer

Ending = tuple[LockedExecution, RunEnd]
"""A run under its lock, and how it ends."""
NewTask = tuple[UUID, str, int, ScheduleTask]
"""(run, namespace, run's priority, task)."""

_ENDED_EVENT = {
    TaskStatus.COMPLETED: "task.completed",
    TaskStatus.COMPLETED_WITH_ERRORS: "task.completed",
    TaskStatus.FAILED: "task.failed",
    TaskStatus.FAILED_WITH_TERMINAL_ERROR: "task.failed",
    TaskStatus.TIMED_OUT: "task.timed_out",
    TaskStatus.CANCELED: "task.canceled",
    TaskStatus.SKIPPED: "task.skipped",
}


@requires_transaction
def make_tasks(tasks: Sequence[NewTask]) -> set[UUID]:
    """Insert tasks with their queue rows, timers, effects and history; returns the runs with an absorbed insert.

    What belongs to a task is written only if its row was really inserted. [INV-6a, INV-6d]
    """
    if not tasks:
        return set()
    inserted = Task.sql.insert([_task_row(*task) for task in tasks])
    made = [task for task in tasks if task[3].id in inserted]
    queued = [_queue_row(*task) for task in made if task[3].queue and task[3].status == TaskStatus.SCHEDULED]
    if queued:
        QueuedTask.sql.enqueue(queued)
        hint(QUEUE)
    timers = [
        NewTimer(namespace, timer.kind, workflow_id, timer.due, task_id=task.id)
        for workflow_id, namespace, _, task in made
        for timer in task.timers
    ]
    if timers:
        Timer.sql.insert(timers)
    HistoryEvent.sql.append([event for task in made for event in _made_events(task[0], task[3])])
    effects = [
        NewOutboxEvent(namespace, effect.topic, effect.payload)
        for _, namespace, _, task in made
        for effect in task.effects
    ]
    if effects:
        OutboxEvent.sql.publish(effects)
        hint(OUTBOX)
    absorbed = [task for task in tasks if task[3].id not in inserted]
    if absorbed:
        Task.sql.unskip([(w, t.ref, t.iteration, t.attempt) for w, _, _, t in absorbed])
    return {task[0] for task in absorbed}


@requires_transaction
def end_tasks(ends: Sequence[TaskEnd]) -> list[EndedTask]:
    """End tasks that have not ended: queue rows, task rows, permits, timers, history, in lock order, a statement
    each (rule S). [INV-7c]"""
    if not ends:
        return []
    QueuedTask.sql.delete_for_tasks(end.id for end in ends)
    ended = Task.sql.end(ends)
    if not ended:
        return []
    reasons = {end.id: end for end in ends}
    with batch():
        Permit.sql.release(task.id for task in ended)
        Timer.sql.delete_for_tasks([(task.workflow_id, task.id) for task in ended])
        HistoryEvent.sql.append([_ended_event(task, reasons[task.id]) for task in ended])
    hint(history={task.workflow_id for task in ended})
    return ended


@requires_transaction
def stop_children(namespace: str, ended: Sequence[EndedTask], reason: str) -> None:
    """Stop the children of tasks that were ended from outside: nobody waits for them any more."""
    effects = [_stop(namespace, task, reason) for task in ended if task.sub_workflow_id]
    if effects:
        OutboxEvent.sql.publish(effects)
        hint(OUTBOX)


@requires_transaction
def end_runs(ends: Sequence[Ending]) -> None:
    """End runs, whatever the cause: their tasks, queue rows, timers, children, parent and failure workflow.

    Those that undo their tasks first go on instead, and end when that is done. The runs' rows are locked, and the gates
    of the parents of those that end are held too.
    """
    undoing = [item for item in ends if _has_something_to_undo(*item)]
    if undoing:
        _begin_undoing(undoing)
    ending = [item for item in ends if item not in undoing]
    if not ending:
        return
    Execution.sql.finish([end for _, end in ending])
    said = [
        NewEvent(run.id, f"workflow.{end.status.lower()}", {"status": end.status, "reason": end.reason})
        for run, end in ending
    ]
    failures = [_failure(run, end) for run, end in ending if end.failure_workflow_id]
    _clear(ending, said, failures, leaving=[run.id for run, _ in ending])
    _report_to_parents(ending)


def _clear(
    ends: Sequence[Ending], events: list[NewEvent], effects: list[NewOutboxEvent], leaving: Sequence[UUID] = ()
) -> None:
    """Cancel whatever is open of runs: queue rows, tasks, permits, timers, and by the outbox children; a statement each
    (rule S). The runs that are `leaving` give back their places under limits."""
    ids = [run.id for run, _ in ends]
    QueuedTask.sql.delete_for_runs(ids)
    cancelled = Task.sql.cancel_open(ids, "The workflow ended.")
    if leaving and Admission.sql.remove(leaving):
        hint(ADMISSION)
    Permit.sql.release_for_runs(ids)
    Timer.sql.delete_for_runs(ids)
    HistoryEvent.sql.append([*(_ended_event(task, None) for task in cancelled), *events])
    runs = {run.id: (run, end) for run, end in ends}
    effects = [*(_cascade(*runs[task.workflow_id], task) for task in cancelled if task.sub_workflow_id), *effects]
    if effects:
        OutboxEvent.sql.publish(effects)
        hint(OUTBOX)
    hint(history=ids)


def _has_something_to_undo(run: LockedExecution, end: RunEnd) -> bool:
    if end.undoable is None or run.admitted_at is None:
        return False
    return Task.sql.read_original(run.id, end.undoable, after=None) is not None


def _begin_undoing(ends: Sequence[Ending]) -> None:
    """Leave nothing open but the row that says how the run shall end; its next passes undo what was completed.

    A run that undoes its tasks already goes on with that, whatever else happens to it.
    """
    busy = Task.sql.undoing([run.id for run, _ in ends])
    ends = [(run, end) for run, end in ends if run.id not in busy]
    if not ends:
        return
    for run, _ in ends:
        if run.status == WorkflowStatus.PAUSED:
            Execution.sql.set_status(run.id, WorkflowStatus.RUNNING, expected=[WorkflowStatus.PAUSED])
    said = [NewEvent(run.id, "workflow.compensating", {"status": end.status, "reason": end.reason}) for run, end in ends]
    _clear(ends, said, [])
    make_tasks([(run.id, run.namespace, run.priority, _marker(end)) for run, end in ends])
    DecideQueue.sql.enqueue([run.id for run, _ in ends])
    hint(DECIDE)


def _marker(end: RunEnd) -> ScheduleTask:
    failure = {"name": end.failure_workflow_name, "version": end.failure_workflow_version}
    wanted = EndRun(
        WorkflowStatus(end.status), end.output, end.reason, end.failed_refs,
        failure if end.failure_workflow_name else None,
    )  # fmt: skip
    return compensation.marker(new_id(), wanted)


_REPORTED = {
    WorkflowStatus.COMPLETED: TaskStatus.COMPLETED,
    WorkflowStatus.FAILED: TaskStatus.FAILED,
    WorkflowStatus.TIMED_OUT: TaskStatus.TIMED_OUT,
    WorkflowStatus.TERMINATED: TaskStatus.CANCELED,
}


def _report_to_parents(ends: Sequence[Ending]) -> None:
    """A child's outcome ends its parent's task, in the child's own transaction. [INV-5]"""
    reports = []
    for run, end in ends:
        if run.parent_workflow_id is None or run.parent_task_id is None:
            continue
        status = _REPORTED[WorkflowStatus(end.status)]
        reason = None
        if status != TaskStatus.COMPLETED:
            reason = f"Sub-workflow {run.name} ({run.id}) ended {end.status}: {end.reason or 'no reason given'}"
        output = {
            "subWorkflowId": str(run.id),
            **(end.output if isinstance(end.output, dict) else {"result": end.output}),
        }
        reports.append(
            TaskEnd(run.parent_task_id, run.parent_workflow_id, status, output, reason, cause="SUB_WORKFLOW")
        )
    if reports:
        Task.sql.lock(sorted((report.workflow_id, report.id) for report in reports))
        end_tasks(reports)


def _task_row(workflow_id: UUID, namespace: str, priority: int, task: ScheduleTask) -> dict[str, Any]:
    return {
        "id": task.id,
        "workflow_id": workflow_id,
        "namespace": namespace,
        "ref": task.ref,
        "iteration": task.iteration,
        "attempt": task.attempt,
        "name": task.name,
        "type": task.type,
        "status": task.status,
        "consumed": task.consumed,
        "queue": task.queue,
        "domain": task.domain,
        "priority": task.priority or priority,
        "input": {} if task.input is None else task.input,
        "output": task.output,
        "state": task.state,
        "spec": task.spec,
        "reason": task.reason,
        "cause": task.cause,
        "response_seconds": task.response_seconds,
        "timeout_seconds": task.timeout_seconds,
        "retried_task_id": task.retried_task_id,
        "sub_workflow_id": task.sub_workflow_id,
        "first_scheduled_at": task.first_scheduled_at,
        "ended": TaskStatus(task.status).terminal,
    }


def _queue_row(workflow_id: UUID, namespace: str, priority: int, task: ScheduleTask) -> dict[str, Any]:
    return {
        "id": task.id,
        "workflow_id": workflow_id,
        "namespace": namespace,
        "queue": task.queue,
        "name": task.name,
        "priority": task.priority or priority,
        "delay_seconds": task.delay_seconds,
        "response_seconds": task.response_seconds,
        "timeout_seconds": task.timeout_seconds,
    }


def _made_events(workflow_id: UUID, task: ScheduleTask) -> list[NewEvent]:
    data = {"type": task.type, "name": task.name, "iteration": task.iteration, "attempt": task.attempt}
    events = [NewEvent(workflow_id, "task.scheduled", data, task.id, task.ref)]
    status = TaskStatus(task.status)
    if status.terminal:
        ended = {"status": status, "iteration": task.iteration, "attempt": task.attempt, "reason": task.reason}
        events.append(NewEvent(workflow_id, _ENDED_EVENT[status], ended, task.id, task.ref))
    return events


def _ended_event(task: EndedTask, end: TaskEnd | None) -> NewEvent:
    data: dict[str, Any] = {"status": task.status, "iteration": task.iteration, "attempt": task.attempt}
    if end and end.reason:
        data["reason"] = end.reason[:500]
    if end and end.worker_id:
        data["worker_id"] = end.worker_id
    return NewEvent(task.workflow_id, _ENDED_EVENT[TaskStatus(task.status)], data, task.id, task.ref)


def _cascade(run: LockedExecution, end: RunEnd, task: EndedTask) -> NewOutboxEvent:
    # A parent that failed undoes what it completed; so does a child that was under way.
    compensate = end.status in (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT)
    return _stop(run.namespace, task, f"The parent workflow {run.id} ended {end.status}.", compensate)


def _stop(namespace: str, task: EndedTask, reason: str, compensate: bool = False) -> NewOutboxEvent:
    payload = {
        "workflow_id": task.sub_workflow_id,
        "parent_workflow_id": task.workflow_id,
        "ref": task.ref,
        "iteration": task.iteration,
        "attempt": task.attempt,
        "reason": reason,
        "compensate": compensate,
    }
    return NewOutboxEvent(namespace, "workflow.terminate", payload)


def _failure(run: LockedExecution, end: RunEnd) -> NewOutboxEvent:
    payload = {
        "workflow_id": end.failure_workflow_id,
        "failed_workflow_id": run.id,
        "name": end.failure_workflow_name,
        "version": end.failure_workflow_version,
        "reason": end.reason,
        "status": end.status,
        "input": run.input,
        "correlation_id": run.correlation_id,
        "task_to_domain": run.task_to_domain,
        "failed_refs": list(end.failed_refs),
    }
    return NewOutboxEvent(run.namespace, "workflow.start_failure", payload)


def run_end(
    run: LockedExecution,
    status: str,
    *,
    output: Any = None,
    reason: str | None = None,
    failed_refs: tuple[str, ...] = (),
    variables: dict[str, Any] | None = None,
    failure_workflow: dict[str, Any] | None = None,
    root_ended: bool = False,
    undoable: tuple[str, ...] | None = None,
) -> Ending:
    """An element of `end_runs`; mints the failure workflow's id, so that the run can name it."""
    failure_id = new_id() if failure_workflow else None
    if failure_id is not None and isinstance(output, dict):
        output = {**output, "conductor.failure_workflow": str(failure_id)}
    end = RunEnd(
        run.id,
        status,
        output,
        reason,
        failed_refs,
        variables,
        failure_id,
        root_ended,
        failure_workflow_name=failure_workflow["name"] if failure_workflow else None,
        failure_workflow_version=failure_workflow.get("version") if failure_workflow else None,
        undoable=undoable,
    )
    return run, end
