"""Removal of a run with everything that belongs to it."""

from __future__ import annotations

from uuid import UUID

from dispatch.models import QueuedTask
from workflows.managers.execution import LockedExecution
from workflows.models import DecideQueue, Execution, HistoryEvent, Task, TaskLog, Timer
from workflows.services.control.acting import OPEN, perform, require
from workflows.services.control.lifecycle import end_terminated


def remove(namespace: str, workflow_id: UUID, *, actor: str) -> None:
    """Delete an ended run, its tasks, logs and history. Its children and its idempotency key stay."""

    def body(run: LockedExecution) -> None:
        require(run, "remove")
        _delete(run)

    perform("remove", namespace, workflow_id, actor, body)


def terminate_remove(namespace: str, workflow_id: UUID, *, actor: str, reason: str | None = None) -> None:
    """Terminate a run that is open (children and parent learn of it), and delete it in the same transaction."""

    def body(run: LockedExecution) -> None:
        if run.status in OPEN:
            end_terminated(run, reason or f"Terminated and removed by {actor}.")
        _delete(run)

    perform("terminate_remove", namespace, workflow_id, actor, body, detail={"reason": reason}, with_parent=True)


def _delete(run: LockedExecution) -> None:
    """In lock order; the audit entry is what is left of the run."""
    Execution.sql.delete(run.id)
    QueuedTask.sql.delete_for_runs([run.id])
    Task.sql.delete(run.id)
    TaskLog.sql.delete(run.id)
    Timer.sql.delete_for_runs([run.id])
    HistoryEvent.sql.delete(run.id)
    DecideQueue.sql.discard([run.id])
