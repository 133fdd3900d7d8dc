"""Verbs of the audit trail, API keys, tags, secrets and environment variables."""

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

_SQL = sql.load("orchestrator", "audit.sql")
_KEY = sql.load("orchestrator", "api_key.sql")
_TAG = sql.load("orchestrator", "tag.sql")
_SECRET = sql.load("orchestrator", "secret.sql")
_ENVIRONMENT = sql.load("orchestrator", "environment.sql")


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An API key; `digests` are those of its secret and, in its time of grace, of the one before."""

    id: UUID
    namespace: str
    name: str
    permissions: list[str]
    queues: list[str]
    digests: list[str]
    state: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    is_stale: bool
    """Whether its last use was noted more than a minute ago."""
    retired: str | None = None
    """Digest of the secret before this one."""
    locked_seconds: float | None = None
    """How long it stays locked out, if it is."""


class AuditManager(VerbManager):
    """Who did what; append-only."""

    def record(
        self, *, namespace: str, actor: str, action: str, target: str, outcome: str, detail: dict[str, Any]
    ) -> None:
        """Record an action in its own transaction's scope, or a refusal by itself."""
        _SQL.record.execute(
            id=new_id(), namespace=namespace, actor=actor, action=action, target=target, outcome=outcome,
            detail=json.dumps(detail),
        )  # fmt: skip

    def prune(self, floor: UUID) -> int:
        """Delete entries older than the id `floor`."""
        return _SQL.prune.execute(floor=floor)


class ApiKeyManager(VerbManager):
    """Credentials of clients: digests in, never secrets."""

    def add(
        self, key_id: UUID, namespace: str, name: str, digest: str, permissions: Sequence[str], queues: Sequence[str],
        created_by: str, expires_seconds: int | None,
    ) -> None:  # fmt: skip
        """Store a key; without `expires_seconds` it lives until it is revoked."""
        _KEY.add.execute(
            id=key_id, namespace=namespace, name=name, digest=digest, permissions=list(permissions),
            queues=list(queues), created_by=created_by, expires_seconds=expires_seconds,
        )  # fmt: skip

    def find(self, key_id: UUID) -> StoredKey | None:
        """A key of any namespace, or None."""
        rows = _KEY.find.rows(id=key_id)
        return StoredKey(*rows[0]) if rows else None

    def find_all(self, namespace: str) -> list[StoredKey]:
        """The newest thousand keys of a namespace."""
        return [StoredKey(*row) for row in _KEY.find_all.rows(namespace=namespace)]

    def note_use(self, key_id: UUID) -> None:
        """A key was used now; written once a minute at most."""
        _KEY.note_use.execute(id=key_id)

    def rotate(self, namespace: str, key_id: UUID, digest: str, grace_seconds: float) -> bool:
        """Replace a key's secret, the old one staying valid for a while; False when there is no such live key."""
        return bool(_KEY.rotate.rows(namespace=namespace, id=key_id, digest=digest, grace_seconds=grace_seconds))

    def revoke(self, namespace: str, key_id: UUID) -> bool:
        """End a key; False when there is no such live one."""
        return bool(_KEY.revoke.rows(namespace=namespace, id=key_id))


@dataclass(frozen=True, slots=True)
class StoredTag:
    """A tag and the object it is on."""

    kind: str
    name: str
    key: str
    value: str


class TagManager(VerbManager):
    """Tags of named objects, as (key, value)."""

    @requires_transaction
    def add(self, namespace: str, kind: str, name: str, tags: Sequence[tuple[str, str]]) -> None:
        """Put tags on an object; those it has stay."""
        _TAG.add.execute(
            namespace=namespace, kind=kind, name=name, ids=[new_id() for _ in tags], keys=[key for key, _ in tags],
            values=[value for _, value in tags],
        )  # fmt: skip

    @requires_transaction
    def remove(self, namespace: str, kind: str, name: str, tags: Sequence[tuple[str, str]]) -> None:
        """Take tags off an object."""
        _TAG.remove.execute(
            namespace=namespace,
            kind=kind,
            name=name,
            keys=[key for key, _ in tags],
            values=[value for _, value in tags],
        )

    @requires_transaction
    def clear(self, namespace: str, kind: str, name: str) -> None:
        """Take all tags off an object."""
        _TAG.clear.execute(namespace=namespace, kind=kind, name=name)

    def find(self, namespace: str, kind: str | None, name: str | None) -> list[StoredTag]:
        """Tags by object, in order."""
        return [StoredTag(*row) for row in _TAG.find.rows(namespace=namespace, kind=kind, name=name)]


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A secret as it is sealed, with the value before it."""

    id: UUID
    namespace: str
    name: str
    key_name: str
    sealed: bytes
    previous_key_name: str | None
    previous: bytes | None


class SecretManager(VerbManager):
    """Sealed values: they are sealed and opened above this floor."""

    @requires_transaction
    def put(self, namespace: str, name: str, key_name: str, sealed: bytes, actor: str) -> None:
        """Create or replace a secret, keeping the value before."""
        _SECRET.put.execute(
            id=new_id(), namespace=namespace, name=name, key_name=key_name, sealed=sealed, actor=actor
        )

    @requires_transaction
    def delete(self, namespace: str, name: str) -> bool:
        """Forget a secret; False when there is none."""
        return _SECRET.delete.execute(namespace=namespace, name=name) == 1

    def find(self, namespace: str, names: Sequence[str] | None) -> list[StoredSecret]:
        """The named secrets, or all of a namespace."""
        rows = _SECRET.find.rows(namespace=namespace, names=None if names is None else list(names))
        return [StoredSecret(*row) for row in rows]

    def find_stale(self, key_name: str, *, batch: int) -> list[StoredSecret]:
        """Secrets of any namespace that another key than this sealed."""
        return [StoredSecret(*row) for row in _SECRET.find_stale.rows(key_name=key_name, batch=batch)]

    @requires_transaction
    def reseal(self, found: StoredSecret, key_name: str, sealed: bytes, previous: bytes | None) -> bool:
        """Replace how a secret is sealed, unless it has changed; False when it has."""
        return (
            _SECRET.reseal.execute(id=found.id, was=found.sealed, key_name=key_name, sealed=sealed, previous=previous) == 1
        )


class EnvironmentManager(VerbManager):
    """Plain values of a namespace."""

    @requires_transaction
    def put(self, namespace: str, name: str, value: str) -> None:
        """Create or replace a variable."""
        _ENVIRONMENT.put.execute(id=new_id(), namespace=namespace, name=name, value=value)

    @requires_transaction
    def delete(self, namespace: str, name: str) -> bool:
        """Forget a variable; False when there is none."""
        return _ENVIRONMENT.delete.execute(namespace=namespace, name=name) == 1

    def find(self, namespaces: Sequence[str]) -> list[tuple[str, str, str]]:
        """(namespace, name, value) of all variables of these namespaces."""
        return [(row[0], row[1], row[2]) for row in _ENVIRONMENT.find.rows(namespaces=list(namespaces))]
