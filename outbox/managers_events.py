"""Verbs of event handlers and of what they did."""

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

_SQL = sql.load("outbox", "event_handler.sql")
_EXECUTION = sql.load("outbox", "event_execution.sql")


@dataclass(frozen=True, slots=True)
class StoredHandler:
    """A registered handler."""

    name: str
    event: str
    active: bool
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True)
class NewEventExecution:
    """An action of a handler for a delivery, with its values filled in."""

    id: UUID
    namespace: str
    handler: str
    event: str
    message_id: str
    position: int
    action: str
    status: str
    detail: dict[str, Any]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class StoredEventExecution:
    """What an action came to."""

    id: UUID
    handler: str
    event: str
    message_id: str
    position: int
    action: str
    status: str
    detail: dict[str, Any]
    output: dict[str, Any] | None
    reason: str | None
    created_at: datetime
    ended_at: datetime | None


class EventHandlerManager(VerbManager):
    """Handlers by name and by event."""

    @requires_transaction
    def add(self, namespace: str, definition: dict[str, Any], created_by: str | None) -> bool:
        """Store a new handler; False when the name is taken."""
        rows = _SQL.add.rows(
            id=new_id(), namespace=namespace, name=definition["name"], event=definition["event"],
            active=bool(definition.get("active")), definition=json.dumps(definition), created_by=created_by,
        )  # fmt: skip
        return bool(rows)

    @requires_transaction
    def replace(self, namespace: str, definition: dict[str, Any]) -> bool:
        """Replace a handler; False when there is none of that name."""
        rows = _SQL.replace.rows(
            namespace=namespace, name=definition["name"], event=definition["event"], active=bool(definition.get("active")),
            definition=json.dumps(definition),
        )  # fmt: skip
        return bool(rows)

    @requires_transaction
    def remove(self, namespace: str, name: str) -> bool:
        """Forget a handler; False when there is none of that name."""
        return bool(_SQL.remove.rows(namespace=namespace, name=name))

    def find(self, namespace: str, event: str | None = None, *, active_only: bool = False) -> list[StoredHandler]:
        """Handlers of an event, or all, by name."""
        rows = _SQL.find.rows(namespace=namespace, event=event, active_only=active_only)
        return [StoredHandler(*json.decode(row, 3, 4)) for row in rows]


class EventExecutionManager(VerbManager):
    """What handlers did. Lock order: level 11."""

    @requires_transaction
    def record(self, executions: Sequence[NewEventExecution]) -> set[UUID]:
        """Store executions; returns the ids that are new: the others were stored by an earlier delivery. [INV-6d]"""
        return {row[0] for row in _EXECUTION.record.rows(rows=json.dumps(executions))}

    @requires_transaction
    def finish(self, execution_id: UUID, status: str, output: dict[str, Any] | None, reason: str | None) -> bool:
        """Say what an action came to; False when that was said before."""
        rows = _EXECUTION.finish.rows(
            id=execution_id, status=status, output=None if output is None else json.dumps(output), reason=reason
        )
        return bool(rows)

    @requires_transaction
    def replay(self, again: NewEventExecution, failed_at: datetime) -> bool:
        """Let an execution that failed then be this again; False when it is not in that state any more."""
        rows = _EXECUTION.replay.rows(
            id=again.id, namespace=again.namespace, action=again.action, status=again.status,
            detail=json.dumps(again.detail), reason=again.reason, failed_at=failed_at,
        )  # fmt: skip
        return bool(rows)

    def get(self, namespace: str, execution_id: UUID) -> StoredEventExecution | None:
        """One execution, or None when there is no such one in the namespace."""
        row = _EXECUTION.get.row(namespace=namespace, id=execution_id)
        return StoredEventExecution(*json.decode(row, 7, 9)) if row else None

    def find(
        self, namespace: str, *, event: str | None = None, handler: str | None = None, batch: int = 100
    ) -> list[StoredEventExecution]:
        """The newest executions of an event, of a handler, or all."""
        rows = _EXECUTION.find.rows(namespace=namespace, event=event, handler=handler, batch=batch)
        return [StoredEventExecution(*json.decode(row, 7, 9)) for row in rows]

    @requires_transaction
    def prune(self, *, seconds: float) -> int:
        """Delete executions that ended longer ago than that."""
        return _EXECUTION.prune.execute(seconds=seconds)
