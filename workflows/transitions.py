"""The three transitions every path shares: make tasks, end tasks, end runs. [INV-11]

The caller owns the transaction and holds the gate of every run that is named here (rule G).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any
from uuid import UUID

from dispatch.models import Permit, QueuedTask
from orchestrator.db.hints import ADMISSION, DECIDE, OUTBOX, QUEUE, hint
from orchestrator.db.ids import new_id
from orchestrator.db.sql import batch
from orchestrator.db.transactions import requires_transaction
from outbox.managers import NewOutboxEvent
from outbox.models import OutboxEvent
from workflows import listening, payloads
from workflows.engine import messages
from workflows.engine.commands import ScheduleTask
from workflows.engine.state import TaskStatus, WorkflowStatus
from workflows.managers.execution import LockedExecution, RunEnd
from workflows.managers.history import NewEvent
from workflows.managers.task import EndedTask, StartedTask, TaskEnd
from workflows.managers.timer import NewTimer
from workflows.models import Admission, DecideQueue, Execution, HistoryEvent, HumanTask, Message, Task, Timer
from workflows.transition_rows import (
    MESSAGE_FRAME,
    cascade,
    ended_event,
    failure,
    inbox_row,
    made_events,
    marker,
    messages_output,
    queue_row,
    report,
    stop,
    task_row,
    told,
    told_of_start,
    told_of_status,
)

Ending = tuple[LockedExecution, RunEnd]
"""A run under its lock, and how it ends."""
NewTask = tuple[UUID, str, int, ScheduleTask]
"""(run, namespace, run's priority, task)."""


@requires_transaction
def make_tasks(tasks: Sequence[NewTask], *, held: Container[UUID] = ()) -> set[UUID]:
    """Insert tasks with their queue and inbox rows, timers, effects and history; returns the runs that need one more pass:
    those with an absorbed insert, or with a task that found its messages waiting.

    What belongs to a task is written only if its row was really inserted. [INV-6a, INV-6d] Tasks of `held` runs stand on
    their queues until they are let through.
    """
    if not tasks:
        return set()
    inserted = Task.sql.insert([task_row(*task) for task in tasks])
    made = [task for task in tasks if task[3].id in inserted]
    waiting = [task for task in made if task[3].queue and task[3].status == TaskStatus.SCHEDULED]
    queued = [queue_row(*task, held=task[0] in held) for task in waiting]
    if queued:
        QueuedTask.sql.enqueue(queued)
        hint(QUEUE)
    _fill_inbox(made)
    timers = [
        NewTimer(namespace, timer.kind, workflow_id, timer.due, task_id=task.id)
        for workflow_id, namespace, _, task in made
        for timer in task.timers
    ]
    if timers:
        Timer.sql.insert(timers)
    HistoryEvent.sql.append([event for task in made for event in made_events(task[0], task[3])])
    effects = [
        NewOutboxEvent(namespace, effect.topic, effect.payload)
        for _, namespace, _, task in made
        for effect in task.effects
    ]
    _publish(effects)
    absorbed = [task for task in tasks if task[3].id not in inserted]
    if absorbed:
        Task.sql.unskip([(w, t.ref, t.iteration, t.attempt) for w, _, _, t in absorbed])
    pulling = {task[0] for task in made if task[3].type == messages.TYPE}
    return {task[0] for task in absorbed} | hand_out_messages(pulling)


@requires_transaction
def hand_out_messages(workflow_ids: Iterable[UUID]) -> set[UUID]:
    """End tasks that pull messages with those that wait, oldest first on both sides; returns the runs whose tasks ended.

    Whoever sends a message calls it, and whoever makes such a task; both hold the run's gate, so no message is missed and
    none is handed out twice. [INV-4]
    """
    waiting = Task.sql.find_pulling(sorted(workflow_ids)) if workflow_ids else []
    ends = []
    for workflow_id, task_id, given in waiting:
        taken = Message.sql.take(
            workflow_id, batch=messages.batch_size(given), size=payloads.limit("task output"), extra=MESSAGE_FRAME
        )
        if taken or not messages.is_blocking(given):
            ends.append(TaskEnd(task_id, workflow_id, TaskStatus.COMPLETED, messages_output(workflow_id, taken)))
    return {task.workflow_id for task in end_tasks(ends)}


def _fill_inbox(made: Sequence[NewTask]) -> None:
    rows = [
        inbox_row(workflow_id, namespace, task, task.inbox)
        for workflow_id, namespace, _, task in made
        if task.inbox and not task.status.terminal
    ]
    if rows:
        HumanTask.sql.insert(rows)


def _empty_inbox(ended: Sequence[EndedTask]) -> None:
    people = [(task.workflow_id, task.id) for task in ended if task.type == "HUMAN"]
    if people:
        HumanTask.sql.delete_for_tasks(people)


@requires_transaction
def end_tasks(ends: Sequence[TaskEnd]) -> list[EndedTask]:
    """End tasks that have not ended: queue rows, task rows, inbox rows, permits, timers, history, in lock order, a
    statement each (rule S). [INV-7c]"""
    if not ends:
        return []
    QueuedTask.sql.delete_for_tasks(end.id for end in ends)
    ended = Task.sql.end(ends)
    if not ended:
        return []
    reasons = {end.id: end for end in ends}
    with batch():
        _empty_inbox(ended)
        Permit.sql.release(task.id for task in ended)
        Timer.sql.delete_for_tasks([(task.workflow_id, task.id) for task in ended])
        HistoryEvent.sql.append([ended_event(task, reasons[task.id]) for task in ended])
    hint(history={task.workflow_id for task in ended})
    _publish([event for task in ended if task.listeners for event in told(task, reasons[task.id])])
    return ended


@requires_transaction
def restate_tasks(rows: Sequence[tuple[UUID, UUID, str, str | None]]) -> None:
    """Give ended (run, task, status, reason) the status their pass decided; those that had counted as completed tell."""
    _publish([event for task in Task.sql.restate(rows) if task.listeners for event in told(task)])


@requires_transaction
def tell_of_starts(started: Iterable[tuple[str, StartedTask]]) -> None:
    """Publish what (namespace, task) tell of their start, in the transaction that hands them out."""
    _publish([event for namespace, task in started if task.listeners for event in told_of_start(namespace, task)])


def _publish(events: Sequence[NewOutboxEvent]) -> None:
    if events:
        OutboxEvent.sql.publish(events)
        hint(OUTBOX)


@requires_transaction
def stop_children(namespace: str, ended: Sequence[EndedTask], reason: str) -> None:
    """Stop the children of tasks that were ended from outside: nobody waits for them any more."""
    _publish([stop(namespace, task, reason) for task in ended if task.sub_workflow_id])


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
    failures = [failure(run, end) for run, end in ending if end.failure_workflow_id]
    told = _told([(run, end.status, end.reason, end.output) for run, end in ending])
    _clear(ending, said, [*failures, *told], leaving=[run.id for run, _ in ending])
    _report_to_parents(ending)


@requires_transaction
def tell_of_status(run: LockedExecution, status: str, reason: str | None = None) -> None:
    """Tell the listener of a locked run, if it has one, that an operator gave it another status."""
    _publish(_told([(run, status, reason, None)]))


def _told(changes: Sequence[tuple[LockedExecution, str, str | None, Any]]) -> list[NewOutboxEvent]:
    """What is told of (run, status, reason, output): nothing of a run whose definition asks for nothing."""
    events = listening.events_of({run.revision_id for run, *_ in changes})
    return [told_of_status(*change, events[change[0].revision_id]) for change in changes if change[0].revision_id in events]


def _clear(
    ends: Sequence[Ending], events: list[NewEvent], effects: list[NewOutboxEvent], leaving: Sequence[UUID] = ()
) -> None:
    """Cancel whatever is open of runs: queue rows, tasks, inbox rows, permits, timers, and by the outbox children; a
    statement each (rule S). The runs that are `leaving` give back their places under limits."""
    ids = [run.id for run, _ in ends]
    QueuedTask.sql.delete_for_runs(ids)
    cancelled = Task.sql.cancel_open(ids, "The workflow ended.")
    _empty_inbox(cancelled)
    if leaving and Admission.sql.remove(leaving):
        hint(ADMISSION)
    Permit.sql.release_for_runs(ids)
    Timer.sql.delete_for_runs(ids)
    HistoryEvent.sql.append([*(ended_event(task, None) for task in cancelled), *events])
    runs = {run.id: (run, end) for run, end in ends}
    said = [event for task in cancelled if task.listeners for event in told(task)]
    _publish([*said, *(cascade(*runs[task.workflow_id], task) for task in cancelled if task.sub_workflow_id), *effects])
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
    said = [
        NewEvent(run.id, "workflow.compensating", {"status": end.status, "reason": end.reason}) for run, end in ends
    ]
    _clear(ends, said, [])
    make_tasks([(run.id, run.namespace, run.priority, marker(end)) for run, end in ends])
    DecideQueue.sql.enqueue([run.id for run, _ in ends])
    hint(DECIDE)


def _report_to_parents(ends: Sequence[Ending]) -> None:
    """A child's outcome ends its parent's task, in the child's own transaction. [INV-5]"""
    reports = [found for run, end in ends if (found := report(run, end)) is not None]
    if reports:
        Task.sql.lock(sorted((report.workflow_id, report.id) for report in reports))
        end_tasks(reports)


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
