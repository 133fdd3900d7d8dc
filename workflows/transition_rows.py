"""What the transitions write: rows of tasks, events of the history, effects for the outbox. Nothing here is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from orchestrator.db.ids import new_id
from outbox.managers import NewOutboxEvent
from workflows import masking, payloads
from workflows.engine import compensation, state_changes
from workflows.engine.commands import Effect, EndRun, Inbox, ScheduleTask
from workflows.engine.masked_fields import carrying
from workflows.engine.proof import failure_workflow
from workflows.engine.state import TaskStatus, WorkflowStatus
from workflows.managers.execution import LockedExecution, RunEnd
from workflows.managers.history import NewEvent
from workflows.managers.message import TakenMessage
from workflows.managers.task import EndedTask, StartedTask, TaskEnd
from workflows.offloading import whole_if_kept
from workflows.wire import iso

MESSAGE_FRAME = 200
"""More than a message's own fields take around its payload."""
_ENDED_EVENT = {
    TaskStatus.COMPLETED: "task.completed",
    TaskStatus.COMPLETED_WITH_ERRORS: "task.completed",
    TaskStatus.FAILED: "task.failed",
    TaskStatus.FAILED_WITH_TERMINAL_ERROR: "task.failed",
    TaskStatus.TIMED_OUT: "task.timed_out",
    TaskStatus.CANCELED: "task.canceled",
    TaskStatus.SKIPPED: "task.skipped",
}

_REPORTED = {
    WorkflowStatus.COMPLETED: TaskStatus.COMPLETED,
    WorkflowStatus.FAILED: TaskStatus.FAILED,
    WorkflowStatus.TIMED_OUT: TaskStatus.TIMED_OUT,
    WorkflowStatus.TERMINATED: TaskStatus.CANCELED,
}


def task_row(workflow_id: UUID, namespace: str, priority: int, task: ScheduleTask) -> dict[str, Any]:
    """A task's own row."""
    row = {
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
    if task.listeners:
        row["listeners"] = task.listeners
    return row


def queue_row(
    workflow_id: UUID, namespace: str, priority: int, task: ScheduleTask, *, held: bool
) -> dict[str, Any]:
    """The row of a task that waits for a worker, or is `held` until its run lets it through."""
    return {
        "id": task.id,
        "workflow_id": workflow_id,
        "namespace": namespace,
        "queue": task.queue,
        "name": task.name,
        "priority": task.priority or priority,
        "held": held,
        "delay_seconds": task.delay_seconds,
        "response_seconds": task.response_seconds,
        "timeout_seconds": task.timeout_seconds,
    }


def inbox_row(workflow_id: UUID, namespace: str, task: ScheduleTask, inbox: Inbox) -> dict[str, Any]:
    """The row of a task that waits for a person."""
    return {
        "id": task.id,
        "workflow_id": workflow_id,
        "namespace": namespace,
        "workflow_name": inbox.workflow_name,
        "ref": task.ref,
        "iteration": task.iteration,
        "name": task.name,
        "assignee": inbox.assignee,
        "candidate_users": inbox.users,
        "candidate_groups": inbox.groups,
        "due_at": inbox.due,
    }


def made_events(workflow_id: UUID, task: ScheduleTask) -> list[NewEvent]:
    """What the history says of a task that was made; one that was settled at once has ended too."""
    data = {"type": task.type, "name": task.name, "iteration": task.iteration, "attempt": task.attempt}
    events = [NewEvent(workflow_id, "task.scheduled", data, task.id, task.ref)]
    status = TaskStatus(task.status)
    if status.terminal:
        ended = {"status": status, "iteration": task.iteration, "attempt": task.attempt, "reason": task.reason}
        events.append(NewEvent(workflow_id, _ENDED_EVENT[status], ended, task.id, task.ref))
    return events


def ended_event(task: EndedTask, end: TaskEnd | None) -> NewEvent:
    """What the history says of a task that ended; without `end` it was cancelled with its run."""
    data: dict[str, Any] = {"status": task.status, "iteration": task.iteration, "attempt": task.attempt}
    if end and end.reason:
        data["reason"] = end.reason[:500]
    if end and end.worker_id:
        data["worker_id"] = end.worker_id
    return NewEvent(task.workflow_id, _ENDED_EVENT[TaskStatus(task.status)], data, task.id, task.ref)


def told(task: EndedTask, end: TaskEnd | None = None) -> list[NewOutboxEvent]:
    """What a task tells of its end."""
    name, reason = state_changes.end_of(task.status), end.reason if end else None
    return _published(task.namespace, state_changes.effects(task.id, name, task.listeners or {}, task.status, reason))


def told_of_start(namespace: str, task: StartedTask) -> list[NewOutboxEvent]:
    """What a task tells when a worker has it for the first time."""
    if not task.listeners or task.poll_count > 1:
        return []
    return _published(namespace, state_changes.effects(task.id, "onStart", task.listeners, TaskStatus.IN_PROGRESS))


def told_of_status(
    run: LockedExecution, status: str, reason: str | None, output: Any, event: str
) -> NewOutboxEvent:
    """What a run tells when its status changes."""
    about = {
        "workflowInstanceId": str(run.id),
        "workflowType": run.name,
        "workflowVersion": run.version,
        "correlationId": run.correlation_id,
        "parentWorkflowId": str(run.parent_workflow_id) if run.parent_workflow_id else None,
        "status": str(status),
        "reasonForIncompletion": reason,
        "output": output,
    }
    message = {"event": event, "message_id": str(new_id()), "payload": about}
    return NewOutboxEvent(run.namespace, "event.published", carrying(message, masking.names(run.revision_id)))


def _published(namespace: str, effects: Iterable[Effect]) -> list[NewOutboxEvent]:
    return [NewOutboxEvent(namespace, effect.topic, effect.payload) for effect in effects]


def cascade(run: LockedExecution, end: RunEnd, task: EndedTask) -> NewOutboxEvent:
    """Stops the child of a task that was cancelled with its run."""
    # A parent that failed undoes what it completed; so does a child that was under way.
    compensate = end.status in (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT)
    return stop(run.namespace, task, f"The parent workflow {run.id} ended {end.status}.", compensate)


def stop(namespace: str, task: EndedTask, reason: str, compensate: bool = False) -> NewOutboxEvent:
    """Stops the child of a task, or sees to it that it never starts."""
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


def report(run: LockedExecution, end: RunEnd) -> TaskEnd | None:
    """How the end of a child ends its parent's task; None for a run without a parent."""
    if run.parent_workflow_id is None or run.parent_task_id is None:
        return None
    status = _REPORTED[WorkflowStatus(end.status)]
    reason = None
    if status != TaskStatus.COMPLETED:
        reason = f"Sub-workflow {run.name} ({run.id}) ended {end.status}: {end.reason or 'no reason given'}"
    output = {"subWorkflowId": str(run.id), **(end.output if isinstance(end.output, dict) else {"result": end.output})}
    wrong = payloads.excess("task output", output)
    if wrong:
        status, output = TaskStatus.FAILED_WITH_TERMINAL_ERROR, {"subWorkflowId": str(run.id)}
        reason = f"{wrong}; {reason}" if reason else wrong
    return TaskEnd(run.parent_task_id, run.parent_workflow_id, status, output, reason, cause="SUB_WORKFLOW")


def failure(run: LockedExecution, end: RunEnd) -> NewOutboxEvent:
    """Starts the failure workflow of a run."""
    payload = {
        "workflow_id": end.failure_workflow_id,
        "failed_workflow_id": run.id,
        "name": end.failure_workflow_name,
        "version": end.failure_workflow_version,
        "reason": end.reason,
        "status": end.status,
        "input": whole_if_kept(run.input),
        "correlation_id": run.correlation_id,
        "task_to_domain": run.task_to_domain,
        "failed_refs": list(end.failed_refs),
    }
    return NewOutboxEvent(run.namespace, "workflow.start_failure", carrying(payload, masking.names(run.revision_id)))


def failure_of(definition: dict[str, Any], run: LockedExecution) -> dict[str, Any] | None:
    """The failure workflow that a definition names for a run; its input is read only where there may be one."""
    if not definition.get("failureWorkflow"):
        return None
    return failure_workflow(definition, whole_if_kept(run.input))


def marker(end: RunEnd) -> ScheduleTask:
    """The operator row of a run that undoes its tasks before it ends."""
    failure = {"name": end.failure_workflow_name, "version": end.failure_workflow_version}
    wanted = EndRun(
        WorkflowStatus(end.status), end.output, end.reason, end.failed_refs,
        failure if end.failure_workflow_name else None,
    )  # fmt: skip
    return compensation.marker(new_id(), wanted)


def messages_output(workflow_id: UUID, taken: Sequence[TakenMessage]) -> dict[str, Any]:
    """The output of a task that pulls messages."""
    found = [
        {"id": message.id, "workflowId": workflow_id, "payload": message.payload, "receivedAt": iso(message.received_at)}
        for message in taken
    ]
    return {"messages": found, "count": len(found)}
