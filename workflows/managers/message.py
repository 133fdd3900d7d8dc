"""Verbs of the messages that runs wait for."""

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

_SQL = sql.load("workflows", "message.sql")


@dataclass(frozen=True, slots=True)
class TakenMessage:
    """A message that a task has taken."""

    id: UUID
    payload: Any
    received_at: datetime


class MessageManager(VerbManager):
    """Messages of runs that wait to be taken, oldest first. The caller holds the run's gate."""

    @requires_transaction
    def append(self, workflow_id: UUID, payload: dict[str, Any]) -> UUID:
        """Add a message behind the others; returns its id."""
        message_id = new_id()
        _SQL.append.send(workflow_id=workflow_id, id=message_id, payload=json.dumps(payload))
        return message_id

    def count_waiting(self, workflow_id: UUID) -> int:
        """How many wait."""
        row = _SQL.count_waiting.row(workflow_id=workflow_id)
        return row[0] if row else 0

    @requires_transaction
    def take(self, workflow_id: UUID, *, batch: int, size: int, extra: int) -> list[TakenMessage]:
        """Take the oldest, at least one if there is any: those whose payloads, with `extra` bytes each, fit into `size`."""
        rows = _SQL.take.rows(workflow_id=workflow_id, batch=batch, size=size, extra=extra)
        return [TakenMessage(row[1], json.loads(row[2]), row[3]) for row in sorted(rows, key=lambda row: row[0])]

    @requires_transaction
    def delete(self, workflow_ids: Sequence[UUID]) -> int:
        """Delete the messages of runs that are removed."""
        return _SQL.delete.execute(workflow_ids=list(workflow_ids))
