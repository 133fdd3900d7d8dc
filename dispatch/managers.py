"""Verbs of the task queues and of worker polls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from orchestrator.db import json, sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("dispatch", "task_queue.sql")
_POLL_SQL = sql.load("dispatch", "worker_poll.sql")
Key = tuple[str, str]
"""(namespace, name of a task definition)."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A queue row stamped for a worker."""

    id: UUID
    workflow_id: UUID
    namespace: str
    lease_token: UUID
    timeout_seconds: int
    priority: int
    name: str
    queue: str


@dataclass(frozen=True, slots=True)
class ExpiredLease:
    """A lease seen to have expired, unlocked."""

    id: UUID
    workflow_id: UUID
    lease_token: UUID
    redeliveries: int
    overdue: bool


class TaskQueueManager(VerbManager):
    """Leases on queued tasks. Lock order: level 5, before the task row."""

    @requires_transaction
    def enqueue(self, rows: Sequence[dict[str, Any]]) -> None:
        """Put tasks on their queues."""
        _SQL.enqueue.send(rows=json.dumps(rows))

    @requires_transaction
    def lease(
        self,
        namespace: str,
        queue: str,
        *,
        batch: int,
        worker_id: str,
        lease_seconds: int,
        renewed: bool,
        closed: Sequence[str] = (),
    ) -> list[Lease]:
        """Lease up to `batch` ready tasks of one queue, highest priority first, then oldest. [INV-7a]

        A holder that is `renewed` has the task for `lease_seconds`, another one for its response time if it has one.
        Tasks of `closed` definitions are left where they are.
        """
        rows = _SQL.lease.rows(
            namespace=namespace,
            queue=queue,
            batch=batch,
            worker_id=worker_id,
            lease_seconds=lease_seconds,
            renewed=renewed,
            closed=list(closed),
        )
        return _sorted(rows)

    @requires_transaction
    def lease_shared(
        self,
        queues: Sequence[str],
        *,
        batch: int,
        worker_id: str,
        lease_seconds: int,
        renewed: bool,
        closed: Sequence[Key] = (),
    ) -> list[Lease]:
        """Lease ready tasks of shared queues, of every namespace, `closed` (namespace, name) left out. [INV-7a]"""
        rows = _SQL.lease_shared.rows(
            queues=list(queues),
            batch=batch,
            worker_id=worker_id,
            lease_seconds=lease_seconds,
            renewed=renewed,
            closed_namespaces=[key[0] for key in closed],
            closed_names=[key[1] for key in closed],
        )
        return _sorted(rows)

    def peek_lanes(self, queues: Sequence[str], *, after: Mapping[str, str], batch: int) -> list[tuple[str, str]]:
        """(queue, namespace) where tasks wait, in turns by queue, of namespaces behind `after`'s; unlocked."""
        afters = [after.get(queue, "") for queue in queues]
        return [(row[0], row[1]) for row in _SQL.peek_lanes.rows(queues=list(queues), afters=afters, batch=batch)]

    @requires_transaction
    def lease_lanes(
        self,
        lanes: Sequence[tuple[str, str]],
        *,
        share: int,
        batch: int,
        worker_id: str,
        lease_seconds: int,
        renewed: bool,
        closed: Sequence[Key] = (),
    ) -> list[Lease]:
        """Lease up to `share` tasks of each (queue, namespace), `batch` in all. [INV-7a]"""
        rows = _SQL.lease_lanes.rows(
            queues=[lane[0] for lane in lanes],
            namespaces=[lane[1] for lane in lanes],
            share=share,
            batch=batch,
            worker_id=worker_id,
            lease_seconds=lease_seconds,
            renewed=renewed,
            closed_namespaces=[key[0] for key in closed],
            closed_names=[key[1] for key in closed],
        )
        return _sorted(rows)

    @requires_transaction
    def lease_named(
        self, namespace: str, queue: str, name: str, *, room: int, worker_id: str, lease_seconds: int, renewed: bool
    ) -> list[Lease]:
        """Lease up to `room` tasks of a definition with a limit, under its advisory lock. [INV-7a, INV-9]"""
        rows = _SQL.lease_named.rows(
            namespace=namespace,
            queue=queue,
            name=name,
            room=room,
            worker_id=worker_id,
            lease_seconds=lease_seconds,
            renewed=renewed,
        )
        return _sorted(rows)

    def in_flight(self, keys: Sequence[Key]) -> dict[Key, int]:
        """(namespace, task definition) -> leased tasks."""
        rows = _SQL.in_flight.rows(namespaces=[key[0] for key in keys], names=[key[1] for key in keys])
        return {(row[0], row[1]): row[2] for row in rows}

    def ready_named(self, queues: Sequence[str], keys: Sequence[Key]) -> list[tuple[str, str, str]]:
        """(queue, namespace, name) of these queues and definitions where a task is ready."""
        namespaces, names = [key[0] for key in keys], [key[1] for key in keys]
        rows = _SQL.ready_named.rows(queues=list(queues), namespaces=namespaces, names=names)
        return [(row[0], row[1], row[2]) for row in rows]

    @requires_transaction
    def give_back(self, ids: Iterable[UUID]) -> None:
        """Undo leases of this transaction. [INV-7c]"""
        _SQL.give_back.send(ids=list(ids))

    @requires_transaction
    def let_through(self, caps: Sequence[tuple[UUID, int]]) -> None:
        """Let held tasks of (run, cap) through as far as there is room; their gates are held."""
        _SQL.let_through.send(workflow_ids=[run for run, _ in caps], caps=[cap for _, cap in caps])

    @requires_transaction
    def drop(self, ids: Iterable[UUID]) -> None:
        """Delete leased rows whose task cannot be handed out. [INV-7a]"""
        _SQL.drop.send(ids=list(ids))

    @requires_transaction
    def renew(
        self, leases: Sequence[tuple[UUID, UUID]], *, lease_seconds: int, renewed: bool
    ) -> list[tuple[UUID, UUID]]:
        """Extend (task, token) leases and their response deadlines; returns (task, run) of those still held. [INV-7a]"""
        rows = _SQL.renew.rows(
            ids=[x[0] for x in leases], tokens=[x[1] for x in leases], lease_seconds=lease_seconds, renewed=renewed
        )
        return [(row[0], row[1]) for row in rows]

    @requires_transaction
    def acknowledge(self, leases: Sequence[tuple[UUID, UUID]]) -> list[tuple[UUID, UUID]]:
        """Take (task, token) off the queue; returns (task, run) of those the caller held. [INV-7a]"""
        rows = _SQL.acknowledge.rows(ids=[x[0] for x in leases], tokens=[x[1] for x in leases])
        return [(row[0], row[1]) for row in rows]

    @requires_transaction
    def defer(  # type: ignore[override]
        self, leases: Sequence[tuple[UUID, UUID, float]]
    ) -> list[tuple[UUID, UUID]]:
        """Put (task, token, delay seconds) back; returns (task, run) of those the caller held. [INV-7a]"""
        rows = _SQL.defer.rows(
            ids=[x[0] for x in leases], tokens=[x[1] for x in leases], delays=[float(x[2]) for x in leases]
        )
        return [(row[0], row[1]) for row in rows]

    @requires_transaction
    def delete_for_tasks(self, ids: Iterable[UUID]) -> None:
        """Take tasks that end off their queues, held or not. [INV-11]"""
        _SQL.delete_for_tasks.send(ids=list(ids))

    @requires_transaction
    def delete_for_runs(self, workflow_ids: Iterable[UUID]) -> None:
        """Take every task of runs that end off its queue. [INV-11]"""
        _SQL.delete_for_runs.send(workflow_ids=list(workflow_ids))

    def peek_expired(self, *, batch: int) -> list[ExpiredLease]:
        """Leases past their expiry, unlocked."""
        return [ExpiredLease(*row) for row in _SQL.peek_expired.rows(batch=batch)]

    @requires_transaction
    def reclaim(self, leases: Sequence[ExpiredLease], *, max_redeliveries: int) -> list[tuple[UUID, UUID, UUID]]:
        """Take back leases that are still expired and not overdue; returns (task, run, token). [INV-7a]"""
        rows = _SQL.reclaim.rows(
            ids=[x.id for x in leases], tokens=[x.lease_token for x in leases], max_redeliveries=max_redeliveries
        )
        return [(row[0], row[1], row[2]) for row in rows]

    @requires_transaction
    def exhaust(self, lease: ExpiredLease) -> tuple[float | None] | None:
        """Lock a lease that is still expired, to end its attempt: (seconds past its response deadline), or None. [INV-7a]"""
        return _SQL.exhaust.row(id=lease.id, token=lease.lease_token)

    @requires_transaction
    def put_off(self, lease: ExpiredLease, *, seconds: int) -> None:
        """Look at an expired lease again later. [INV-13]"""
        _SQL.put_off.send(id=lease.id, token=lease.lease_token, seconds=seconds)

    @requires_transaction
    def hold(self, task_id: UUID) -> bool:
        """Lock a task's queue row, so that its lease stands still; False when it has none."""
        return bool(_SQL.hold.rows(id=task_id))

    @requires_transaction
    def holders(self, ids: Iterable[UUID]) -> dict[UUID, tuple[UUID | None, str | None]]:
        """(token, worker) of queued tasks, which stand still until the commit. [INV-7a, INV-12]"""
        return {row[0]: (row[1], row[2]) for row in _SQL.holders.rows(ids=list(ids))}

    @requires_transaction
    def make_visible(self, workflow_id: UUID) -> int:
        """End the delays of a run's waiting tasks."""
        return _SQL.make_visible.execute(workflow_id=workflow_id)

    def ready(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """(namespace, queue) -> tasks that are ready, counted up to a hundred; queues without any are left out."""
        rows = _SQL.ready.rows(namespaces=[key[0] for key in keys], queues=[key[1] for key in keys])
        return {(row[0], row[1]): row[2] for row in rows if row[2]}

    def sizes(self, namespace: str, queues: Sequence[str] | None = None) -> dict[str, tuple[int, int]]:
        """Queue -> (waiting, leased)."""
        rows = _SQL.sizes.rows(namespace=namespace, queues=None if queues is None else list(queues))
        return {row[0]: (row[1], row[2]) for row in rows}


def _sorted(rows: list[tuple[Any, ...]]) -> list[Lease]:
    """RETURNING has no order; hand out by priority, then age."""
    return sorted((Lease(*row) for row in rows), key=lambda lease: (-lease.priority, lease.id))


class WorkerPollManager(VerbManager):
    """Last polls of workers."""

    def record(self, polls: Sequence[tuple[str, str, str | None, str]]) -> None:
        """Record (namespace, queue, domain, worker) polls; outside the lease's transaction."""
        rows = [{"id": new_id(), "namespace": n, "queue": q, "domain": d, "worker_id": w} for n, q, d, w in polls]
        _POLL_SQL.record.send(rows=json.dumps(rows))

    def read(self, namespace: str, queue: str | None = None) -> list[tuple[str, str | None, str, datetime]]:
        """(queue, domain, worker, time), newest first."""
        return [(r[0], r[1], r[2], r[3]) for r in _POLL_SQL.read.rows(namespace=namespace, queue=queue)]

    def prune(self, *, seconds: float) -> int:
        """Forget workers that have not polled for so long."""
        return _POLL_SQL.prune.execute(seconds=seconds)
