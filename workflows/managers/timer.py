"""Verbs of timers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from orchestrator.db import json, sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("workflows", "timer.sql")


@dataclass(frozen=True, slots=True)
class NewTimer:
    """A deadline; `kind` is WAIT, DEADLINE, POLL, RESPONSE, TOTAL, TASK or WORKFLOW."""

    namespace: str
    kind: str
    workflow_id: UUID
    due_at: datetime
    task_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A timer seen without a lock; whoever fires it claims it first."""

    id: UUID
    kind: str
    workflow_id: UUID
    task_id: UUID | None
    due_at: datetime
    now: datetime


class TimerManager(VerbManager):
    """Deadlines. Lock order: level 9."""

    @requires_transaction
    def insert(self, timers: Sequence[NewTimer]) -> None:
        """Arm timers."""
        rows = [{"id": new_id(), **{f: getattr(t, f) for f in NewTimer.__slots__}} for t in timers]
        _SQL.insert.send(rows=json.dumps(rows))

    @requires_transaction
    def delete_for_tasks(self, tasks: Sequence[tuple[UUID, UUID]]) -> None:
        """Disarm every timer of (run, task) rows that ended. [INV-11]"""
        _SQL.delete_for_tasks.send(workflow_ids=[w for w, _ in tasks], ids=[t for _, t in tasks])

    @requires_transaction
    def delete_for_runs(self, workflow_ids: Sequence[UUID]) -> None:
        """Disarm every timer of runs that ended. [INV-11]"""
        _SQL.delete_for_runs.send(workflow_ids=list(workflow_ids))

    def peek_due(self, *, batch: int) -> list[DueTimer]:
        """Timers whose time has come, unlocked."""
        return [DueTimer(*row) for row in _SQL.peek_due.rows(batch=batch)]

    @requires_transaction
    def claim(self, timer_id: UUID) -> bool:
        """Take a due timer; False when it was disarmed, postponed or fired meanwhile."""
        return bool(_SQL.claim.rows(id=timer_id))

    @requires_transaction
    def record_failure(self, timer_id: UUID, error: str, *, max_attempts: int) -> None:
        """Back a failing timer off, by itself. [INV-13]"""
        _SQL.record_failure.send(id=timer_id, error=error[:2000], max_attempts=max_attempts)

    @requires_transaction
    def release(self, timer_id: UUID) -> bool:
        """Let a quarantined timer fire now; False when it is not quarantined."""
        return _SQL.release.execute(id=timer_id) == 1
