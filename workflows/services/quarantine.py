"""What was put aside after too many failures: runs and timers, listed, counted and released. [INV-13]

Dead letters of the outbox are the relay's to list and replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from orchestrator.db.hints import TIMER, hint
from orchestrator.errors import NotFound
from workflows.managers.execution import LockedExecution
from workflows.models import DecideQueue, Execution, Timer
from workflows.services.control.acting import note, perform

MOST = 1000
"""Rows that a list shows."""


@dataclass(frozen=True, slots=True)
class PutAside:
    """A run whose passes failed, or a timer (`kind`) whose firings did."""

    id: UUID
    workflow_id: UUID
    kind: str
    attempts: int
    error: str | None
    since: datetime


def runs(namespace: str) -> list[PutAside]:
    """Quarantined runs of a namespace, oldest request first; a nudge releases one."""
    rows = list(DecideQueue.objects.filter(quarantined=True).order_by("enqueued_at")[:MOST])
    ours = _ours(namespace, [row.workflow_id for row in rows])
    return [
        PutAside(row.workflow_id, row.workflow_id, "RUN", row.attempts, row.last_error, row.enqueued_at)
        for row in rows
        if row.workflow_id in ours
    ]


def timers(namespace: str) -> list[PutAside]:
    """Quarantined timers of a namespace, in the order they were due."""
    rows = Timer.objects.filter(namespace=namespace, quarantined=True).order_by("due_at")[:MOST]
    return [PutAside(row.id, row.workflow_id, row.kind, row.attempts, row.last_error, row.due_at) for row in rows]


def release_timer(namespace: str, timer_id: UUID, *, actor: str) -> None:
    """Let a quarantined timer fire now; raises NotFound when there is none of this id."""
    found = Timer.objects.filter(id=timer_id, namespace=namespace, quarantined=True).first()
    if found is None:
        raise NotFound(f"There is no quarantined timer {timer_id}", timer_id=timer_id)

    def body(run: LockedExecution) -> None:
        if not Timer.sql.release(timer_id):
            raise NotFound(f"There is no quarantined timer {timer_id}", timer_id=timer_id)
        note(run.id, "timer.released", actor, kind=found.kind)
        hint(TIMER)

    perform("release_timer", namespace, found.workflow_id, actor, body, detail={"timer_id": str(timer_id)})


def _ours(namespace: str, ids: list[UUID]) -> set[UUID]:
    return set(Execution.objects.filter(namespace=namespace, id__in=ids).values_list("id", flat=True))
