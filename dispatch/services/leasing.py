"""Leases: tasks handed to workers, kept by heartbeats, handed back, and taken back. [INV-7a]

Leasing and the task's start are one transaction, for workers and system tasks alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError

from dispatch.managers import ExpiredLease, Lease
from dispatch.models import QueuedTask
from orchestrator.conf import conf
from orchestrator.db.hints import DECIDE, QUEUE, TIMER, hint
from orchestrator.db.transactions import transaction
from workflows.engine.state import TaskStatus
from workflows.managers.task import StartedTask, TaskEnd
from workflows.managers.timer import NewTimer
from workflows.models import DecideQueue, Task, Timer
from workflows.transitions import end_tasks

log = structlog.get_logger(__name__)

_PUT_OFF_SECONDS = 60


def lease_tasks(namespace: str, queue: str, *, batch: int, worker_id: str, renewed: bool = False) -> list[StartedTask]:
    """Lease and start up to `batch` ready tasks of a queue, highest priority first.

    `renewed` says that the holder renews its lease by itself; one that does not keeps a task for its response time.
    """
    with transaction():
        return _start(
            QueuedTask.sql.lease(
                namespace,
                queue,
                batch=batch,
                worker_id=worker_id,
                lease_seconds=conf().LEASE_SECONDS,
                renewed=renewed,
            ),
            worker_id,
        )


def lease_system_tasks(queues: Sequence[str], *, batch: int, worker_id: str) -> list[StartedTask]:
    """Lease and start tasks of shared queues, of every namespace."""
    with transaction():
        leases = QueuedTask.sql.lease_shared(
            queues, batch=batch, worker_id=worker_id, lease_seconds=conf().LEASE_SECONDS, renewed=True
        )
        return _start(leases, worker_id)


def _start(leases: Sequence[Lease], worker_id: str) -> list[StartedTask]:
    """Start the tasks of fresh leases, and arm the deadlines that begin with them."""
    if not leases:
        return []
    started = {
        task.id: task
        for task in Task.sql.start([(lease.workflow_id, lease.id, lease.lease_token) for lease in leases], worker_id)
    }
    dead = [lease.id for lease in leases if lease.id not in started]
    if dead:
        QueuedTask.sql.drop(dead)
    timers = [timer for lease in leases if lease.id in started for timer in _timers(lease, started[lease.id])]
    if timers:
        Timer.sql.insert(timers)
        hint(TIMER)
    return [started[lease.id] for lease in leases if lease.id in started]


def _timers(lease: Lease, task: StartedTask) -> list[NewTimer]:
    found = []
    if lease.response_seconds:
        due = task.updated_at + timedelta(seconds=lease.response_seconds)
        found.append(NewTimer(lease.namespace, "RESPONSE", lease.workflow_id, due, lease.id, lease.lease_token))
    if lease.timeout_seconds and task.poll_count == 1:
        due = task.started_at + timedelta(seconds=lease.timeout_seconds)
        found.append(NewTimer(lease.namespace, "TASK", lease.workflow_id, due, lease.id, lease.lease_token))
    return found


def renew_leases(leases: Sequence[tuple[UUID, UUID]]) -> set[UUID]:
    """Extend (task, token) leases; a task that is not in the answer is lost or cancelled, and its worker should stop."""
    with transaction():
        return renew(leases, renewed=True)


def renew(leases: Sequence[tuple[UUID, UUID]], *, renewed: bool) -> set[UUID]:
    """Inside a transaction: leases, then the tasks' update time, then their response deadlines and no other."""
    held = QueuedTask.sql.renew(leases, lease_seconds=conf().LEASE_SECONDS, renewed=renewed)
    if held:
        Task.sql.touch([(run, task) for task, run, _, _ in held])
        Timer.sql.postpone([(run, task, token, seconds) for task, run, token, seconds in held if seconds])
    return {task for task, _, _, _ in held}


def release_tasks(leases: Sequence[tuple[UUID, UUID]]) -> None:
    """Hand (task, token) leases back unworked, at once."""
    with transaction():
        kept = QueuedTask.sql.defer([(task, token, 0.0) for task, token in leases])
        tokens = dict(leases)
        held = [(run, task, tokens[task], None, 0) for task, run in kept]
        if held:
            Task.sql.reset(held)
            Timer.sql.delete_for_leases([lease[:3] for lease in held], ["RESPONSE"])
            hint(QUEUE)


def reclaim_next_batch() -> int:
    """Take back leases that expired; an attempt that was handed out too often ends TIMED_OUT."""
    expired = QueuedTask.sql.peek_expired(batch=100)
    if not expired:
        return 0
    settings = conf()
    with transaction():
        taken = QueuedTask.sql.reclaim(expired, max_redeliveries=settings.MAX_REDELIVERIES)
        if taken:
            Task.sql.reset([(run, task, token, None, 0) for task, run, token in taken])
            Timer.sql.delete_for_leases([(run, task, token) for task, run, token in taken], ["RESPONSE"])
            hint(QUEUE)
    if taken:
        log.warning("leases_reclaimed", count=len(taken))
    exhausted = [lease for lease in expired if lease.redeliveries >= settings.MAX_REDELIVERIES]
    return len(taken) + sum(_exhaust(lease) for lease in exhausted)


def _exhaust(lease: ExpiredLease) -> bool:
    """End an attempt that was handed out too often, from the gate on; one that throws is put off. [INV-13]"""
    try:
        with transaction():
            DecideQueue.sql.enqueue([lease.workflow_id])
            if not QueuedTask.sql.exhaust(lease):
                return False
            reason = f"The task was handed out {lease.redeliveries + 1} times and its worker never answered."
            end_tasks([TaskEnd(lease.id, lease.workflow_id, TaskStatus.TIMED_OUT, None, reason, "REDELIVERIES")])
            hint(DECIDE)
            return True
    except (InterfaceError, OperationalError):
        raise
    except Exception:
        log.exception("lease_not_ended", task_id=str(lease.id))
        with transaction():
            QueuedTask.sql.put_off(lease, seconds=_PUT_OFF_SECONDS)
        return False
