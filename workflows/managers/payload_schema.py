"""Verbs of registered JSON Schemas."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.db import json, sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("workflows", "payload_schema.sql")


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A version of a JSON Schema."""

    name: str
    version: int
    data: dict[str, Any]
    created_at: datetime
    created_by: str | None


def _schema(row: tuple[Any, ...]) -> StoredSchema:
    return StoredSchema(row[0], row[1], json.loads(row[2]), *row[3:])


class PayloadSchemaManager(VerbManager):
    """JSON Schemas by (namespace, name, version)."""

    @requires_transaction
    def insert(self, namespace: str, name: str, version: int, data: dict[str, Any], created_by: str | None) -> None:
        """Store a new version."""
        _SQL.insert.send(
            id=new_id(), namespace=namespace, name=name, version=version, data=json.dumps(data), created_by=created_by
        )

    def get(self, namespace: str, name: str, version: int | None = None) -> StoredSchema | None:
        """One version, or the latest."""
        row = _SQL.get.row(namespace=namespace, name=name, version=version)
        return _schema(row) if row else None

    def find(self, namespace: str) -> list[StoredSchema]:
        """All versions of every name."""
        return [_schema(row) for row in _SQL.find.rows(namespace=namespace)]

    @requires_transaction
    def delete(self, namespace: str, name: str, version: int | None = None) -> int:
        """Forget a version, or all; how many there were."""
        return _SQL.delete.execute(namespace=namespace, name=name, version=version)
