"""Verbs of definitions and revisions."""

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

_SQL = sql.load("workflows", "definition.sql")
_TASK_SQL = sql.load("workflows", "task_definition.sql")
_REVISION_SQL = sql.load("workflows", "revision.sql")


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """A workflow definition as it was registered."""

    name: str
    version: int
    definition: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    created_by: str | None


@dataclass(frozen=True, slots=True)
class StoredTaskDefinition:
    """A task definition as it was registered."""

    name: str
    definition: dict[str, Any]
    created_at: datetime
    updated_at: datetime


def _definition(row: tuple[Any, ...]) -> StoredDefinition:
    return StoredDefinition(row[0], row[1], json.loads(row[2]), *row[3:])


class DefinitionManager(VerbManager):
    """Workflow definitions by (namespace, name, version)."""

    @requires_transaction
    def upsert(
        self, namespace: str, name: str, version: int, definition: dict[str, Any], created_by: str | None
    ) -> None:
        """Register or replace a version; running runs keep their revision."""
        _SQL.upsert.send(
            id=new_id(),
            namespace=namespace,
            name=name,
            version=version,
            definition=json.dumps(definition),
            created_by=created_by,
        )

    @requires_transaction
    def insert(
        self, namespace: str, name: str, version: int, definition: dict[str, Any], created_by: str | None
    ) -> bool:
        """Register a version; False when it exists."""
        return (
            _SQL.insert.execute(
                id=new_id(), namespace=namespace, name=name, version=version, definition=json.dumps(definition),
                created_by=created_by,
            )
            == 1
        )  # fmt: skip

    @requires_transaction
    def delete(self, namespace: str, name: str, version: int) -> bool:
        """Unregister a version."""
        return _SQL.delete.execute(namespace=namespace, name=name, version=version) == 1

    def get(self, namespace: str, name: str, version: int | None = None) -> StoredDefinition | None:
        """One version, or the latest."""
        row = _SQL.get.row(namespace=namespace, name=name, version=version)
        return _definition(row) if row else None

    @requires_transaction
    def stamp(
        self, namespace: str, name: str, version: int | None, tasks: Sequence[str], revision_id: UUID | None = None
    ) -> tuple[Any, ...] | None:
        """A value that changes when a definition, or a task definition among `tasks`, does; None without a definition.

        A revision given with it is held until the transaction ends; one that is gone gives None.
        """
        return _SQL.stamp.row(
            namespace=namespace, name=name, version=version, tasks=list(tasks), revision_id=revision_id
        )

    def find(self, namespace: str, name: str | None = None) -> list[StoredDefinition]:
        """All versions of one name, or of every name."""
        return [_definition(row) for row in _SQL.find.rows(namespace=namespace, name=name)]

    def find_latest(self, namespace: str, text: str, start: int, size: int | None) -> list[StoredDefinition]:
        """A page of the latest versions of the names that hold a text, by name; without a size all from `start` on."""
        return [
            _definition(row) for row in _SQL.find_latest.rows(namespace=namespace, text=text, start=start, size=size)
        ]

    def count_names(self, namespace: str, text: str) -> int:
        """How many names hold a text."""
        return int(_SQL.count_names.rows(namespace=namespace, text=text)[0][0])

    def find_versions(self, namespace: str) -> list[tuple[str, int, datetime, datetime]]:
        """(name, version, created at, updated at) of every version, by name and version."""
        return [(row[0], row[1], row[2], row[3]) for row in _SQL.find_versions.rows(namespace=namespace)]

    def find_mentioning(self, namespace: str, text: str) -> list[StoredDefinition]:
        """All versions whose words contain a text."""
        return [_definition(row) for row in _SQL.find_mentioning.rows(namespace=namespace, text=text)]


class TaskDefinitionManager(VerbManager):
    """Task definitions by (namespace, name)."""

    @requires_transaction
    def upsert(self, namespace: str, name: str, definition: dict[str, Any]) -> None:
        """Register or replace a task definition; running runs keep what they started with."""
        _TASK_SQL.upsert.send(id=new_id(), namespace=namespace, name=name, definition=json.dumps(definition))

    @requires_transaction
    def update(  # type: ignore[override]
        self, namespace: str, name: str, definition: dict[str, Any]
    ) -> bool:
        """Replace a task definition; False when there is none of that name."""
        return _TASK_SQL.update.execute(namespace=namespace, name=name, definition=json.dumps(definition)) == 1

    @requires_transaction
    def delete(self, namespace: str, name: str) -> bool:
        """Unregister a task definition."""
        return _TASK_SQL.delete.execute(namespace=namespace, name=name) == 1

    def find(self, namespace: str, names: Sequence[str] | None = None) -> list[StoredTaskDefinition]:
        """Task definitions of the given names, or all."""
        rows = _TASK_SQL.find.rows(namespace=namespace, names=None if names is None else list(names))
        return [StoredTaskDefinition(row[0], json.loads(row[1]), *row[2:]) for row in rows]

    def limited(self) -> list[tuple[str, str, dict[str, Any]]]:
        """(namespace, name, definition) of those that limit how their tasks are handed out."""
        return [(row[0], row[1], json.loads(row[2])) for row in _TASK_SQL.limited.rows()]

    def stamp(self) -> tuple[Any, ...] | None:
        """A value that changes when any task definition does."""
        return _TASK_SQL.stamp.row()


class RevisionManager(VerbManager):
    """Revisions: definition and task definitions, frozen together."""

    @requires_transaction
    def find(self, digest: str) -> UUID | None:
        """The id of a committed revision of that content, held until the transaction ends."""
        row = _REVISION_SQL.find.row(digest=digest)
        return row[0] if row else None

    @requires_transaction
    def insert(self, digest: str, definition: dict[str, Any], task_definitions: dict[str, Any]) -> UUID:
        """Store a revision; two of the same content are harmless."""
        revision_id = new_id()
        _REVISION_SQL.insert.send(
            id=revision_id,
            digest=digest,
            definition=json.dumps(definition),
            task_definitions=json.dumps(task_definitions),
        )
        return revision_id

    def masked(self, ids: Sequence[UUID]) -> list[tuple[UUID, Any]]:
        """(id, `maskedFields`) of revisions."""
        return [(row[0], json.loads(row[1])) for row in _REVISION_SQL.masked.rows(ids=list(ids))]

    def read(self, ids: Sequence[UUID]) -> list[tuple[UUID, dict[str, Any], dict[str, Any]]]:
        """(id, definition, task definitions) of revisions."""
        return [(row[0], json.loads(row[1]), json.loads(row[2])) for row in _REVISION_SQL.read.rows(ids=list(ids))]

    def peek_unused(self, before: datetime, *, batch: int) -> list[UUID]:
        """Revisions from before a moment that neither a version of a definition nor a run names."""
        return [row[0] for row in _REVISION_SQL.peek_unused.rows(before=before, batch=batch)]

    @requires_transaction
    def lock_free(self, ids: Sequence[UUID]) -> list[UUID]:
        """Lock those of the revisions that no start holds."""
        return [row[0] for row in _REVISION_SQL.lock_free.rows(ids=list(ids))]

    @requires_transaction
    def delete_unused(self, ids: Sequence[UUID]) -> int:
        """Delete those of the locked revisions that no run names; returns how many."""
        return _REVISION_SQL.delete_unused.execute(ids=list(ids))
