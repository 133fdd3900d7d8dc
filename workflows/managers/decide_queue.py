"""Verbs of the decide queue: the gate of each run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from orchestrator.db import json, sql
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("workflows", "decide_queue.sql")


@dataclass(frozen=True, slots=True)
class DecideRequest:
    """A claimed request; `now` is the database's time of the pass."""

    workflow_id: UUID
    attempts: int
    enqueued_at: datetime
    next_attempt_at: datetime
    now: datetime


class DecideQueueManager(VerbManager):
    """Requests for a pass. Lock order: level 3, one sorted enqueue, then claims by SKIP LOCKED only."""

    @requires_transaction
    def enqueue(self, ids: Iterable[UUID]) -> None:
        """Ask for a pass of each run, and hold its gate until the commit. [INV-2, INV-12]"""
        _SQL.enqueue.send(ids=sorted(set(ids)))

    @requires_transaction
    def claim(self, *, batch: int) -> list[DecideRequest]:
        """Take up to `batch` requests, skipping those somebody holds. [INV-1]"""
        return [DecideRequest(*row) for row in _SQL.claim.rows(batch=batch)]

    @requires_transaction
    def claim_these(self, ids: Iterable[UUID]) -> list[DecideRequest]:
        """Take the requests of named runs, skipping those somebody holds. [INV-1]"""
        return [DecideRequest(*row) for row in _SQL.claim_these.rows(ids=sorted(ids))]

    @requires_transaction
    def claim_waiting(self, workflow_id: UUID) -> list[DecideRequest]:
        """Take one run's request, waiting for its holder; the transaction may hold nothing else. [INV-1]"""
        return [DecideRequest(*row) for row in _SQL.claim_waiting.rows(id=workflow_id)]

    def peek_overdue(self, *, seconds: float) -> UUID | None:
        """The oldest request that claims have passed over for longer than `seconds`."""
        row = _SQL.peek_overdue.row(seconds=seconds)
        return row[0] if row else None

    @requires_transaction
    def put_back(self, requests: Sequence[tuple[DecideRequest, UUID | None]]) -> None:
        """Restore claimed requests, with the parent each is to report to. [INV-3, INV-13]"""
        rows = [
            {
                "workflow_id": request.workflow_id,
                "attempts": request.attempts,
                "enqueued_at": request.enqueued_at,
                "next_attempt_at": request.next_attempt_at,
                "reports_to": parent,
            }
            for request, parent in requests
        ]
        _SQL.put_back.send(rows=json.dumps(rows))

    def peek_reports(self, *, batch: int) -> list[tuple[UUID, UUID]]:
        """(run, parent) of runs that end with their parent's gate held."""
        return [(row[0], row[1]) for row in _SQL.peek_reports.rows(batch=batch)]

    @requires_transaction
    def record_failure(self, workflow_id: UUID, error: str, *, max_attempts: int) -> None:
        """Back a failing run off, by itself. [INV-13]"""
        _SQL.record_failure.send(id=workflow_id, error=error[:2000], max_attempts=max_attempts)

    @requires_transaction
    def release(self, workflow_id: UUID) -> int:
        """Let a quarantined or backed-off run be decided again now."""
        return _SQL.release.execute(id=workflow_id)

    @requires_transaction
    def discard(self, ids: Iterable[UUID]) -> None:
        """Remove the requests of runs that are removed."""
        _SQL.discard.send(ids=sorted(ids))
