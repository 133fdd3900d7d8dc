"""Leases: tasks handed to workers, kept by heartbeats, handed back, and taken back. [INV-7a, INV-7c]

Leasing and the task's start are one transaction, for workers and system tasks alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any, TypedDict
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError

from dispatch.managers import ExpiredLease, Lease
from dispatch.models import Permit, QueuedTask
from dispatch.services import limiting
from orchestrator.conf import conf
from orchestrator.db.hints import DECIDE, QUEUE, TIMER, hint
from orchestrator.db.transactions import transaction
from orchestrator.runtime.metrics import LATENESS
from workflows.engine.state import TaskStatus
from workflows.limits import Key, TaskLimits
from workflows.managers.task import StartedTask, TaskEnd
from workflows.managers.timer import NewTimer
from workflows.models import DecideQueue, Task, Timer
from workflows.transitions import end_tasks, tell_of_starts

log = structlog.get_logger(__name__)

_PUT_OFF_SECONDS = 60


def lease_tasks(namespace: str, queue: str, *, batch: int, worker_id: str, renewed: bool = False) -> list[StartedTask]:
    """Lease and start up to `batch` ready tasks of a queue, highest priority first.

    `renewed` says that the holder renews its lease by itself; one that does not keeps a task for its response time.
    """
    taker = _Taker(worker_id, conf().LEASE_SECONDS, renewed)
    keys = limiting.limited_keys(namespace, queue)
    if not keys:
        with transaction():
            return _start(QueuedTask.sql.lease(namespace, queue, batch=batch, **taker.terms()), worker_id)
    rooms = limiting.peek_room(keys)
    places = [_Place(queue, *key, rooms[key]) for key in keys if rooms[key]]
    if not places:
        limiting.note_waits([(namespace, queue, key[1]) for key in keys], keys)
        if ":" not in queue:
            return []
    with transaction():
        return _lease_limited(
            places,
            batch,
            taker,
            lambda room: QueuedTask.sql.lease(
                namespace, queue, batch=room, closed=[name for _, name in keys], **taker.terms()
            ),
        )


def lease_system_tasks(queues: Sequence[str], *, batch: int, worker_id: str) -> list[StartedTask]:
    """Lease and start tasks of shared queues, of every namespace: tenants take turns, limits hold."""
    taker = _Taker(worker_id, conf().LEASE_SECONDS, True)
    keys = limiting.limited()
    places = _limited_places(queues, keys, batch) if keys else []
    lanes = QueuedTask.sql.peek_lanes(queues, after=_turns, batch=batch)
    with transaction():
        return _lease_limited(places, batch, taker, lambda room: _share(queues, lanes, room, taker, list(keys)))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where tasks of a limited definition wait, and how many of them may be hoped for."""

    queue: str
    namespace: str
    name: str
    hope: int

    @property
    def key(self) -> Key:
        return self.namespace, self.name


_round = count()


def _limited_places(queues: Sequence[str], keys: dict[Key, TaskLimits], batch: int) -> list[_Place]:
    """The limited definitions with tasks ready and with room; equal shares, and another one is first each time."""
    found = QueuedTask.sql.ready_named(queues, list(keys))
    if not found:
        return []
    ready = {(namespace, name): keys[namespace, name] for _, namespace, name in found}
    rooms = limiting.peek_room(ready)
    limiting.note_waits([(n, queue, name) for queue, n, name in found if not rooms[n, name]], ready)
    share = max(1, batch // (len(found) + 1))
    places = [_Place(*place, min(share, rooms[place[1:]])) for place in sorted(found) if rooms[place[1:]]]
    first = next(_round) % max(1, len(places))
    return places[first:] + places[:first]


@dataclass(frozen=True, slots=True)
class _Taker:
    """Who leases, and for how long."""

    worker_id: str
    lease_seconds: int
    renewed: bool

    def terms(self) -> _Terms:
        return {"worker_id": self.worker_id, "lease_seconds": self.lease_seconds, "renewed": self.renewed}


class _Terms(TypedDict):
    worker_id: str
    lease_seconds: int
    renewed: bool


_turns: dict[str, str] = {}
"""Queue -> the tenant that this process served last, where they were too many for one batch: the next begins the next."""


def _share(
    queues: Sequence[str],
    lanes: Sequence[tuple[str, str]],
    batch: int,
    taker: _Taker,
    closed: list[Key],
) -> list[Lease]:
    """Equal shares for the tenants that wait, then first in, first out for what is left of the batch."""
    leases: list[Lease] = []
    if _turns or len({namespace for _, namespace in lanes}) > 1:
        share = max(1, batch // max(1, len(lanes)))
        leases = QueuedTask.sql.lease_lanes(lanes, share=share, batch=batch, closed=closed, **taker.terms())
    _turns.clear()
    if len(lanes) >= batch:
        _turns.update(lanes)
    if len(leases) < batch:
        leases += QueuedTask.sql.lease_shared(queues, batch=batch - len(leases), closed=closed, **taker.terms())
    return leases


def _lease_limited(
    places: Sequence[_Place], batch: int, taker: _Taker, rest: Callable[[int], list[Lease]]
) -> list[StartedTask]:
    """Lease from places with limits, then the rest; the locks of the limits come first. [INV-9]"""
    rooms = limiting.lock({place.key for place in places})
    left = {key: found.room for key, found in rooms.items()}
    leases: list[Lease] = []
    for place in places:
        room = min(batch - len(leases), left[place.key], place.hope)
        if room > 0:
            taken = QueuedTask.sql.lease_named(place.namespace, place.queue, place.name, room=room, **taker.terms())
            left[place.key] -= len(taken)
            leases += taken
    if len(leases) < batch:
        leases += rest(batch - len(leases))
    return _start(leases, taker.worker_id, rooms)


def _start(leases: Sequence[Lease], worker_id: str, rooms: dict[Key, limiting.Room] | None = None) -> list[StartedTask]:
    """Start the tasks of fresh leases, give them their permits, and arm the deadlines that begin with them."""
    if not leases:
        return []
    started = {
        task.id: task
        for task in Task.sql.start([(lease.workflow_id, lease.id, lease.lease_token) for lease in leases], worker_id)
    }
    dead = [lease.id for lease in leases if lease.id not in started]
    if dead:
        QueuedTask.sql.drop(dead)
    if rooms:
        granted = [lease for lease in leases if lease.id in started]
        refused = limiting.permit(granted, rooms)
        if refused:
            QueuedTask.sql.give_back(refused)
            Task.sql.unstart([(started[id].workflow_id, id) for id in refused])
            started = {id: task for id, task in started.items() if id not in refused}
        limiting.charge(rooms, [(lease.namespace, lease.name) for lease in granted if lease.id not in refused])
    timers = [
        NewTimer(lease.namespace, "TASK", lease.workflow_id, task.started_at + timedelta(seconds=seconds), lease.id)
        for lease in leases
        if (seconds := lease.timeout_seconds) and (task := started.get(lease.id)) and task.poll_count == 1
    ]
    if timers:
        Timer.sql.insert(timers)
        hint(TIMER)
    tell_of_starts((lease.namespace, started[lease.id]) for lease in leases if lease.id in started)
    return [started[lease.id] for lease in leases if lease.id in started]


def renew_leases(leases: Sequence[tuple[UUID, UUID]]) -> set[UUID]:
    """Extend (task, token) leases; a task that is not in the answer is lost or cancelled, and its worker should stop."""
    with transaction():
        return renew(leases, renewed=True)


def renew(leases: Sequence[tuple[UUID, UUID]], *, renewed: bool) -> set[UUID]:
    """Inside a transaction: leases with their response deadlines and no other, then the tasks' update time."""
    held = QueuedTask.sql.renew(leases, lease_seconds=conf().LEASE_SECONDS, renewed=renewed)
    if held:
        Task.sql.touch([(run, task) for task, run in held])
    return {task for task, _ in held}


def park(leases: Sequence[tuple[UUID, UUID, UUID, str, Any]]) -> set[UUID]:
    """Inside a transaction: let (task, token, run, namespace, output) wait for their end off their queues, as the tasks of
    operators do that others complete; returns those that were held.

    The gates of their runs are held, because each frees a place under its run's maxConcurrentTasks. The response time
    begins anew, the other deadlines go on.
    """
    held = {task for task, _ in QueuedTask.sql.acknowledge([(task, token) for task, token, *_ in leases])}
    dues = Task.sql.park([(run, task, output) for task, _, run, _, output in leases if task in held]) if held else {}
    Permit.sql.release(dues)
    timers = [
        NewTimer(namespace, "RESPONSE", run, due, task) for task, _, run, namespace, _ in leases if (due := dues.get(task))
    ]
    if timers:
        Timer.sql.insert(timers)
        hint(TIMER)
    hint(DECIDE, QUEUE)
    return held


def release_tasks(leases: Sequence[tuple[UUID, UUID]]) -> None:
    """Hand (task, token) leases back unworked, at once."""
    with transaction():
        kept = QueuedTask.sql.defer([(task, token, 0.0) for task, token in leases])
        tokens = dict(leases)
        held = [(run, task, tokens[task], None, 0) for task, run in kept]
        if held:
            Task.sql.reset(held)
            Permit.sql.release(lease[1] for lease in held)
            hint(QUEUE)


def reclaim_next_batch() -> int:
    """Take back leases that expired; an attempt that is overdue, or was handed out too often, ends TIMED_OUT."""
    expired = QueuedTask.sql.peek_expired(batch=100)
    if not expired:
        return 0
    settings = conf()
    with transaction():
        taken = QueuedTask.sql.reclaim(expired, max_redeliveries=settings.MAX_REDELIVERIES)
        if taken:
            Task.sql.reset([(run, task, token, None, 0) for task, run, token in taken])
            Permit.sql.release(task for task, _, _ in taken)
            hint(QUEUE)
    if taken:
        log.warning("leases_reclaimed", count=len(taken))
    exhausted = [lease for lease in expired if lease.overdue or lease.redeliveries >= settings.MAX_REDELIVERIES]
    return len(taken) + sum(_exhaust(lease) for lease in exhausted)


def _exhaust(lease: ExpiredLease) -> bool:
    """End an attempt whose worker does not answer, from the gate on; one that throws is put off. [INV-13]"""
    cause, reason = "RESPONSE_TIMEOUT", "The worker did not answer within responseTimeoutSeconds."
    if not lease.overdue:
        cause = "REDELIVERIES"
        reason = f"The task was handed out {lease.redeliveries + 1} times and its worker never answered."
    try:
        with transaction():
            DecideQueue.sql.enqueue([lease.workflow_id])
            found = QueuedTask.sql.exhaust(lease)
            if found is None:
                return False
            end_tasks([TaskEnd(lease.id, lease.workflow_id, TaskStatus.TIMED_OUT, None, reason, cause)])
            hint(DECIDE)
        if lease.overdue and found[0] is not None:
            LATENESS.labels("RESPONSE").observe(found[0])
        return True
    except (InterfaceError, OperationalError):
        raise
    except Exception:
        log.exception("lease_not_ended", task_id=str(lease.id))
        with transaction():
            QueuedTask.sql.put_off(lease, seconds=_PUT_OFF_SECONDS)
        return False
