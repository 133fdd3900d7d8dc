"""Removal of a run with everything that belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from dispatch.models import QueuedTask
from orchestrator.db.transactions import requires_transaction
from workflows.managers.execution import LockedExecution
from workflows.models import DecideQueue, Execution, HistoryEvent, Message, Offloaded, Task, TaskLog, Timer
from workflows.services.control.acting import OPEN, perform, require
from workflows.services.control.lifecycle import end_terminated


def remove(namespace: str, workflow_id: UUID, *, actor: str) -> None:
    """Delete an ended run, its tasks, logs, messages and history. Its children and its idempotency key stay."""

    def body(run: LockedExecution) -> None:
        require(run, "remove")
        erase([workflow_id])

    perform("remove", namespace, workflow_id, actor, body)


def terminate_remove(namespace: str, workflow_id: UUID, *, actor: str, reason: str | None = None) -> None:
    """Terminate a run that is open (children and parent learn of it), and delete it in the same transaction."""

    def body(run: LockedExecution) -> None:
        if run.status in OPEN:
            end_terminated(run, reason or f"Terminated and removed by {actor}.")
        erase([workflow_id])

    perform("terminate_remove", namespace, workflow_id, actor, body, detail={"reason": reason}, with_parent=True)


@requires_transaction
def erase(ids: Sequence[UUID]) -> int:
    """Delete ended runs with all that is theirs, in lock order; their gates and rows are held. Returns how many."""
    erased = Execution.sql.delete(ids)
    QueuedTask.sql.delete_for_runs(ids)
    Task.sql.delete_for_runs(ids)
    TaskLog.sql.delete(ids)
    Message.sql.delete(ids)
    Offloaded.sql.delete(ids)
    Timer.sql.delete_for_runs(ids)
    HistoryEvent.sql.delete(ids)
    DecideQueue.sql.discard(ids)
    return erased
