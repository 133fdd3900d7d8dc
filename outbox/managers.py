"""Verbs of the outbox."""

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

_SQL = sql.load("outbox", "outbox.sql")


@dataclass(frozen=True, slots=True)
class NewOutboxEvent:
    """An effect to deliver; events of one `order_key` are delivered oldest first."""

    namespace: str
    topic: str
    payload: dict[str, Any]
    order_key: UUID | None = None
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event leased for delivery; `id` is stable over redeliveries."""

    id: UUID
    namespace: str
    topic: str
    payload: dict[str, Any]
    attempts: int
    lease_token: UUID
    created_at: datetime


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A dead letter that is gone; `execution_id` is the action of an event handler that it would have done."""

    id: UUID
    execution_id: UUID | None
    last_error: str | None


class OutboxManager(VerbManager):
    """Effects to deliver. Lock order: level 11."""

    @requires_transaction
    def publish(self, events: Sequence[NewOutboxEvent]) -> None:
        """Write effects with the change that caused them. [INV-5]"""
        rows = [
            {
                "id": e.id or new_id(),
                "namespace": e.namespace,
                "topic": e.topic,
                "order_key": e.order_key,
                "payload": e.payload,
            }
            for e in events
        ]
        _SQL.publish.send(rows=json.dumps(rows))

    @requires_transaction
    def claim(self, *, batch: int, lease_seconds: int) -> list[ClaimedEvent]:
        """Lease deliverable events, their attempt counted. [INV-5]"""
        rows = _SQL.claim.rows(batch=batch, lease_seconds=lease_seconds)
        events = [ClaimedEvent(r[0], r[1], r[2], json.loads(r[3]), r[4], r[5], r[6]) for r in rows]
        return sorted(events, key=lambda event: event.id)

    @requires_transaction
    def deliver(self, events: Sequence[ClaimedEvent]) -> int:
        """Settle delivered events the caller still holds. [INV-5]"""
        return _SQL.deliver.execute(ids=[e.id for e in events], tokens=[e.lease_token for e in events])

    @requires_transaction
    def fail(self, event: ClaimedEvent, error: str, *, delay_seconds: float, max_attempts: int) -> int:
        """Back an event off, or make it a dead letter. [INV-5, INV-13]"""
        return _SQL.fail.execute(
            id=event.id,
            token=event.lease_token,
            error=error[:2000],
            delay_seconds=delay_seconds,
            max_attempts=max_attempts,
        )

    @requires_transaction
    def replay(self, ids: Sequence[UUID] | None = None) -> int:
        """Make dead letters deliverable again: the named ones, or all."""
        return _SQL.replay.execute(ids=None if ids is None else list(ids))

    @requires_transaction
    def prune(self, *, seconds: float) -> int:
        """Delete events delivered longer ago than that."""
        return _SQL.prune.execute(seconds=seconds)

    @requires_transaction
    def prune_dead(self, ids: Sequence[UUID], before: datetime) -> list[GivenUp]:
        """Delete those of these events that are dead letters since before a moment."""
        return [GivenUp(*row) for row in _SQL.prune_dead.rows(ids=list(ids), before=before)]
