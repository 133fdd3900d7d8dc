"""Verbs of what limits the handing out of tasks: semaphores, their permits, and rate buckets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dispatch.managers import Key
from orchestrator.db import json, sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("dispatch", "semaphore.sql")
_PERMIT_SQL = sql.load("dispatch", "permit.sql")
_BUCKET_SQL = sql.load("dispatch", "rate_bucket.sql")


@dataclass(frozen=True, slots=True)
class StoredSemaphore:
    """A semaphore and how many of its permits are taken."""

    name: str
    permits: int
    description: str | None
    created_at: datetime
    updated_at: datetime
    taken: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A ready task of a queue that is polled in vain for a semaphore."""

    namespace: str
    name: str
    id: UUID
    priority: int


@dataclass(frozen=True, slots=True)
class Waiter:
    """A queue that is polled in vain for a semaphore, and how many tasks are ready there, counted up to a hundred."""

    semaphore: str
    queue: str
    name: str
    asked_at: datetime
    ready: int


@dataclass(frozen=True, slots=True)
class NewPermit:
    """What a task takes of a semaphore, for as long as its lease stands."""

    namespace: str
    semaphore: str
    task_id: UUID
    workflow_id: UUID
    lease_token: UUID
    permits: int


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds permits, until when its lease stands."""

    semaphore: str
    permits: int
    task_id: UUID
    workflow_id: UUID
    acquired_at: datetime
    queue: str | None
    worker_id: str | None
    lease_expires_at: datetime | None


class SemaphoreManager(VerbManager):
    """Named permits. Lock order: level 8, rows by (namespace, name)."""

    @requires_transaction
    def put(self, namespace: str, name: str, permits: int, description: str | None) -> None:
        """Create a semaphore or change how many permits it has; those that are taken stay taken."""
        _SQL.put.send(id=new_id(), namespace=namespace, name=name, permits=permits, description=description)

    @requires_transaction
    def lock(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Lock semaphores in name order; returns their permits. [INV-9, INV-12]"""
        rows = _SQL.lock.rows(namespaces=[key[0] for key in keys], names=[key[1] for key in keys])
        return {(row[0], row[1]): row[2] for row in rows}

    @requires_transaction
    def delete(self, namespace: str, name: str) -> None:
        """Remove a semaphore, with the turns of the queues that waited for it."""
        _SQL.delete.send(namespace=namespace, name=name)

    def find(self, namespace: str, name: str | None = None) -> list[StoredSemaphore]:
        """One semaphore of that name, or all."""
        rows = _SQL.find.rows(namespace=namespace, name=name)
        return [StoredSemaphore(row[0], row[1], row[2], row[3], row[4], int(row[5])) for row in rows]

    def waiters(self, namespace: str, name: str | None, *, seconds: float) -> list[Waiter]:
        """Queues that were polled in vain for one semaphore, or for any, in the last `seconds`."""
        return [Waiter(*row) for row in _SQL.waiters.rows(namespace=namespace, name=name, seconds=seconds)]

    def free(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Permits that nobody holds, unlocked."""
        rows = _SQL.free.rows(namespaces=[key[0] for key in keys], names=[key[1] for key in keys])
        return {(row[0], row[1]): int(row[2]) for row in rows}

    @requires_transaction
    def wait(self, waits: Iterable[tuple[str, str, str, str]]) -> None:
        """Note (namespace, semaphore, queue, name) that are polled in vain."""
        rows = [
            {"id": new_id(), "namespace": namespace, "semaphore": semaphore, "queue": queue, "name": name}
            for namespace, semaphore, queue, name in sorted(set(waits))
        ]
        _SQL.wait.send(rows=json.dumps(rows))

    def ahead(self, keys: Sequence[Key], *, seconds: float, batch: int) -> list[Waiting]:
        """Ready tasks of queues that were polled in vain for these semaphores in the last `seconds`."""
        namespaces, names = [key[0] for key in keys], [key[1] for key in keys]
        rows = _SQL.ahead.rows(namespaces=namespaces, names=names, seconds=seconds, batch=batch)
        return [Waiting(*row) for row in rows]


class PermitManager(VerbManager):
    """Permits of tasks, which live as long as their leases. Lock order: level 8. [INV-7c]"""

    def taken(self, keys: Sequence[Key], *, excluding: Iterable[UUID]) -> dict[Key, int]:
        """(namespace, semaphore) -> permits held by other tasks than those."""
        namespaces, names = [key[0] for key in keys], [key[1] for key in keys]
        rows = _PERMIT_SQL.taken.rows(namespaces=namespaces, names=names, task_ids=list(excluding))
        return {(row[0], row[1]): int(row[2]) for row in rows}

    @requires_transaction
    def acquire(self, permits: Sequence[NewPermit]) -> None:
        """Hand permits to leases; the semaphores are locked and have room. [INV-7c]"""
        rows = [{"id": new_id(), **{f: getattr(p, f) for f in NewPermit.__slots__}} for p in permits]
        _PERMIT_SQL.acquire.send(rows=json.dumps(rows))

    @requires_transaction
    def release(self, task_ids: Iterable[UUID]) -> None:
        """Give back what tasks held whose leases end in this transaction. [INV-7c]"""
        _PERMIT_SQL.release.send(task_ids=list(task_ids))

    @requires_transaction
    def release_for_runs(self, workflow_ids: Iterable[UUID]) -> None:
        """Give back what the tasks of ending runs held. [INV-7c, INV-11]"""
        _PERMIT_SQL.release_for_runs.send(workflow_ids=list(workflow_ids))

    def holders(self, namespace: str, name: str | None = None) -> list[Holder]:
        """Who holds permits of one semaphore, or of all; oldest first."""
        return [Holder(*row) for row in _PERMIT_SQL.holders.rows(namespace=namespace, name=name)]


class RateBucketManager(VerbManager):
    """Tasks handed out in the present window of a rate limit, under the definition's advisory lock. [INV-9]"""

    def used(self, keys: Sequence[Key]) -> dict[Key, int]:
        """(namespace, name) -> tasks handed out in its window; absent when none is open."""
        rows = _BUCKET_SQL.used.rows(namespaces=[key[0] for key in keys], names=[key[1] for key in keys])
        return {(row[0], row[1]): row[2] for row in rows}

    @requires_transaction
    def charge(self, grants: Sequence[tuple[Key, int, float]]) -> None:
        """Count (key, tasks granted, seconds of a window). [INV-9]"""
        rows = [
            {"id": new_id(), "namespace": key[0], "name": key[1], "used": used, "seconds": seconds}
            for key, used, seconds in grants
        ]
        _BUCKET_SQL.charge.send(rows=json.dumps(rows))
