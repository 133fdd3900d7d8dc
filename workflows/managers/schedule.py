"""Verbs of schedules and of the record of their firings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from orchestrator.db import json, sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("workflows", "schedule.sql")


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule; `definition` is what was saved, in Conductor's JSON."""

    id: UUID
    namespace: str
    name: str
    workflow_name: str
    definition: dict[str, Any]
    paused: bool
    paused_reason: str | None
    next_at: datetime | None
    created_at: datetime
    updated_at: datetime
    created_by: str | None
    last_workflow_id: UUID | None
    failures: int
    last_error: str | None


class ScheduleManager(VerbManager):
    """Schedules. Lock order: level 0, before everything a firing takes."""

    @requires_transaction
    def save(
        self, namespace: str, name: str, workflow_name: str, definition: dict[str, Any], *, paused: bool,
        next_at: datetime | None, created_by: str | None,
    ) -> None:  # fmt: skip
        """Create or replace a schedule."""
        _SQL.save.send(
            id=new_id(), namespace=namespace, name=name, workflow_name=workflow_name, definition=json.dumps(definition),
            paused=paused, next_at=next_at, created_by=created_by,
        )  # fmt: skip

    @requires_transaction
    def delete(self, namespace: str, name: str) -> bool:
        """Delete a schedule; its record stays until it is pruned."""
        return _SQL.delete.execute(namespace=namespace, name=name) == 1

    @requires_transaction
    def set_paused(self, namespace: str, name: str, paused: bool, reason: str | None, next_at: datetime | None) -> bool:
        """Pause or resume a schedule."""
        return _SQL.set_paused.execute(namespace=namespace, name=name, paused=paused, reason=reason, next_at=next_at) == 1

    def find(self, namespace: str, name: str | None = None, workflow_name: str | None = None) -> list[StoredSchedule]:
        """Schedules of a namespace, by name or by the workflow they start."""
        return [_schedule(row) for row in _SQL.find.rows(namespace=namespace, name=name, workflow_name=workflow_name)]

    @requires_transaction
    def claim(self, done: Sequence[UUID]) -> StoredSchedule | None:
        """Lock a due schedule that is not among `done`."""
        row = _SQL.claim.row(done=list(done))
        return _schedule(row) if row else None

    @requires_transaction
    def advance(self, schedule_id: UUID, next_at: datetime | None, workflow_id: UUID | None, error: str | None) -> None:
        """Move a schedule to its next moment."""
        _SQL.advance.send(id=schedule_id, next_at=next_at, workflow_id=workflow_id, error=error)


class ScheduleRunManager(VerbManager):
    """The record of firings."""

    @requires_transaction
    def record(
        self, schedule: StoredSchedule, scheduled_at: datetime, workflow_id: UUID | None, state: str, reason: str | None
    ) -> None:
        """Record a firing: EXECUTED, FAILED, or SKIPPED because of the overlap policy."""
        _SQL.record.send(
            id=new_id(), namespace=schedule.namespace, schedule_name=schedule.name, workflow_name=schedule.workflow_name,
            workflow_id=workflow_id, scheduled_at=scheduled_at, state=state, reason=reason,
        )  # fmt: skip

    @requires_transaction
    def prune(self, *, seconds: float) -> int:
        """Forget firings longer ago than that."""
        return _SQL.prune.execute(seconds=seconds)


def _schedule(row: tuple[Any, ...]) -> StoredSchedule:
    return StoredSchedule(*json.decode(row, 4, 5))
