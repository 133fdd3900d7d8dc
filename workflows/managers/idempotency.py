"""Verbs of idempotency keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from orchestrator.db import sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("workflows", "idempotency.sql")


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """The run a key belongs to; status None when that run is gone."""

    workflow_id: UUID
    request_hash: str
    status: str | None


class IdempotencyManager(VerbManager):
    """Keys of starts. Lock order: level 1. Scope "user" is for callers; every other scope is the engine's. [INV-6b, INV-6c]"""

    @requires_transaction
    def claim(self, namespace: str, scope: str, key: str, workflow_id: UUID, request_hash: str) -> bool:
        """Reserve a key for a run, waiting for a live winner; False when it is somebody else's. [INV-6b]"""
        return bool(
            _SQL.claim.rows(
                id=new_id(),
                namespace=namespace,
                scope=scope,
                key=key,
                workflow_id=workflow_id,
                request_hash=request_hash,
            )
        )

    def find(self, namespace: str, scope: str, key: str) -> KeyOwner | None:
        """Who owns a key; call it in the statement after a lost claim. [INV-6b]"""
        row = _SQL.find.row(namespace=namespace, scope=scope, key=key)
        return KeyOwner(*row) if row else None

    def owners(self, namespace: str, scope: str, keys: Sequence[str]) -> dict[str, KeyOwner]:
        """Who owns each of the keys that are taken."""
        rows = _SQL.owners.rows(namespace=namespace, scope=scope, keys=list(keys))
        return {row[0]: KeyOwner(*row[1:]) for row in rows}

    @requires_transaction
    def take_over(
        self, namespace: str, scope: str, key: str, workflow_id: UUID, request_hash: str, owner: UUID
    ) -> bool:
        """Take a key from the finished owner that was seen. [INV-6b]"""
        return bool(
            _SQL.take_over.rows(
                namespace=namespace,
                scope=scope,
                key=key,
                workflow_id=workflow_id,
                request_hash=request_hash,
                owner=owner,
            )
        )

    @requires_transaction
    def prune(self, floor: UUID, *, batch: int) -> int:
        """Delete keys older than the id `floor` whose runs are gone."""
        return _SQL.prune.execute(floor=floor, batch=batch)

    @requires_transaction
    def set_lock_timeout(self, milliseconds: int) -> None:
        """Bound the waits of this transaction (0: unbounded)."""
        _SQL.set_lock_timeout.rows(milliseconds=str(milliseconds))
