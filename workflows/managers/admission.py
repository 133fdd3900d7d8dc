"""Verbs of admission: runs under a limit, and tenants' quotas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from orchestrator.db import sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("workflows", "admission.sql")


@dataclass(frozen=True, slots=True)
class NewAdmission:
    """A run under a limit: `key` and `most` of its definition's, `counted` against its tenant's quota."""

    workflow_id: UUID
    namespace: str
    name: str
    key: str | None
    most: int | None
    counted: bool
    admitted: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that wait in one line."""

    namespace: str
    name: str
    key: str | None


class AdmissionManager(VerbManager):
    """Runs under a limit. Counted under advisory locks; rows at level 7. [INV-9]"""

    @requires_transaction
    def insert(self, row: NewAdmission) -> None:
        """Count a run, or let it wait."""
        _SQL.insert.send(**{f: getattr(row, f) for f in NewAdmission.__slots__})

    def of_key(self, namespace: str, name: str, key: str) -> tuple[int, int]:
        """(admitted, waiting) runs of a key."""
        return _pair(_SQL.of_key.row(namespace=namespace, name=name, key=key))

    def of_tenant(self, namespace: str) -> tuple[int, int]:
        """(admitted, waiting) runs that count against the tenant's quota."""
        return _pair(_SQL.of_tenant.row(namespace=namespace))

    def peek_groups(self, *, batch: int) -> list[Group]:
        """Where runs wait, the longest-waiting first; unlocked."""
        return [Group(row[0], row[1], row[2]) for row in _SQL.peek_groups.rows(batch=batch)]

    def peek_line(self, group: Group, *, batch: int) -> list[tuple[UUID, int | None, bool]]:
        """(run, most, counted) of the next runs of a group, first in, first out."""
        rows = _SQL.peek_line.rows(namespace=group.namespace, name=group.name, key=group.key, batch=batch)
        return [(row[0], row[1], row[2]) for row in rows]

    @requires_transaction
    def admit(self, ids: Iterable[UUID]) -> None:
        """Count waiting runs as admitted."""
        _SQL.admit.send(ids=sorted(ids))

    @requires_transaction
    def remove(self, ids: Iterable[UUID]) -> list[UUID]:
        """Give back the places of runs that end; returns those that were under a limit. [INV-11]"""
        return [row[0] for row in _SQL.remove.rows(ids=sorted(ids))]


class QuotaManager(VerbManager):
    """Tenants' quotas."""

    @requires_transaction
    def put_quota(self, namespace: str, most: int | None) -> None:
        """Set how many runs a tenant may have at a time; None is no limit."""
        _SQL.put_quota.send(id=new_id(), namespace=namespace, most=most)

    @requires_transaction
    def count_running(self, namespace: str) -> None:
        """Count the tenant's runs that are under way against its quota."""
        _SQL.count_running.send(namespace=namespace)

    def quota(self, namespace: str) -> int | None:
        """How many runs a tenant may have at a time, now."""
        row = _SQL.quota.row(namespace=namespace)
        return row[0] if row else None

    def quotas(self) -> dict[str, int]:
        """Namespace -> runs at a time, of every tenant with a quota."""
        return {row[0]: row[1] for row in _SQL.quotas.rows()}


def _pair(row: tuple[int, int] | None) -> tuple[int, int]:
    return (row[0], row[1]) if row else (0, 0)
