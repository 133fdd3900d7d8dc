"""Verbs of the history."""

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

_SQL = sql.load("workflows", "history.sql")


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append; the order of a batch is its order in each run."""

    workflow_id: UUID
    type: str
    data: dict[str, Any]
    task_id: UUID | None = None
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it was stored."""

    seq: int
    type: str
    task_id: UUID | None
    ref: str | None
    data: dict[str, Any]
    at: datetime


class HistoryManager(VerbManager):
    """The history of runs. Lock order: level 10; the caller holds the run's gate."""

    @requires_transaction
    def append(self, events: Sequence[NewEvent]) -> None:
        """Append events, gapless per run; the gates of the runs must be held. [INV-9]"""
        if events:
            rows = [
                {"id": new_id(), "workflow_id": e.workflow_id, "position": i, "type": e.type, "task_id": e.task_id,
                 "ref": e.ref, "data": e.data}
                for i, e in enumerate(events)
            ]  # fmt: skip
            _SQL.append.send(rows=json.dumps(rows))

    def read(self, workflow_id: UUID, *, after: int = 0, batch: int = 500) -> list[Event]:
        """Events with seq above `after`, in order."""
        rows = _SQL.read.rows(workflow_id=workflow_id, after=after, batch=batch)
        return [Event(r[0], r[1], r[2], r[3], json.loads(r[4]), r[5]) for r in rows]

    @requires_transaction
    def delete(self, workflow_ids: Sequence[UUID]) -> int:
        """Delete the history of runs that are removed."""
        return _SQL.delete.execute(workflow_ids=list(workflow_ids))
