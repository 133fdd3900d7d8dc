"""What limits the handing out of tasks: how many are in flight, how many in a window of time, and semaphores.

Counting and granting are one transaction under a lock on what is contended, each its own statement: advisory lock >
count > pick > tasks > semaphores > count permits > permits. [INV-7c, INV-9, rule S]
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from dispatch.managers import Lease
from dispatch.managers_limits import Holder, NewPermit, StoredSemaphore, Waiter
from dispatch.models import Permit, QueuedTask, RateBucket, Semaphore
from orchestrator.conf import conf
from orchestrator.db.hints import QUEUE, hint
from orchestrator.db.locks import Advisory, advisory_key, take_advisory
from orchestrator.db.transactions import transaction
from orchestrator.errors import Conflict, Invalid, NotFound
from workflows import limits
from workflows.limits import Key, TaskLimits

MOST = 2**31 - 1
_AHEAD = 100
"""How many waiting tasks of each other queue are looked at before permits are granted."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a definition's tasks may still be given, in this transaction."""

    limits: TaskLimits
    room: int


limited = limits.limited


def names_of(queue: str) -> list[str]:
    """The task definitions whose tasks may be on a worker's queue: `name`, or `domain:name`."""
    parts = queue.split(":")
    return [":".join(parts[i:]) for i in range(len(parts))]


def limited_keys(namespace: str, queue: str) -> dict[Key, TaskLimits]:
    """The limited definitions of a worker's queue; nearly always none."""
    known = limits.limited()
    if not known:
        return {}
    return {key: known[key] for name in names_of(queue) if (key := (namespace, name)) in known}


def peek_room(keys: dict[Key, TaskLimits]) -> dict[Key, int]:
    """How many tasks of each definition could be handed out now; unlocked, to spare the lock where there is no hope."""
    used = RateBucket.sql.used(list(keys)) if any(found.rate for found in keys.values()) else {}
    flying = QueuedTask.sql.in_flight(list(keys)) if any(found.concurrent for found in keys.values()) else {}
    wanted = {(key[0], name) for key, found in keys.items() for name, _ in found.semaphores}
    free = Semaphore.sql.free(sorted(wanted)) if wanted else {}
    return {
        key: min(_counted_room(key, found, flying, used), _permitted(key, found, free)) for key, found in keys.items()
    }


def _counted_room(key: Key, found: TaskLimits, flying: dict[Key, int], used: dict[Key, int]) -> int:
    room = MOST
    if found.concurrent:
        room = min(room, found.concurrent - flying.get(key, 0))
    if found.rate:
        room = min(room, found.rate - used.get(key, 0))
    return max(room, 0)


def _permitted(key: Key, found: TaskLimits, free: dict[Key, int]) -> int:
    room = MOST
    for name, permits in found.semaphores:
        room = min(room, free.get((key[0], name), MOST) // permits)
    return max(room, 0)


def lock(keys: Iterable[Key]) -> dict[Key, Room]:
    """Take the advisory locks of definitions that count, then count; True until the commit. [INV-9, INV-12]"""
    keys = sorted(keys)
    known = limits.limited()
    counted = [key for key in keys if known.get(key, TaskLimits()).counted]
    if counted:
        take_advisory(advisory_key(Advisory.QUEUE, *key) for key in counted)
    now = limits.read(keys)
    found = {key: now.get(key, TaskLimits()) for key in keys}
    flying = QueuedTask.sql.in_flight(counted) if any(found[key].concurrent for key in counted) else {}
    used = RateBucket.sql.used(counted) if any(found[key].rate for key in counted) else {}
    rooms = {key: Room(found[key], _counted_room(key, found[key], flying, used)) for key in keys}
    for key in found.keys() - set(counted):
        if found[key].counted:  # it was not limited when we chose our locks: the next lease takes its lock
            limits.forget()
            rooms[key] = Room(found[key], 0)
    return rooms


def charge(rooms: dict[Key, Room], granted: Iterable[Key]) -> None:
    """Count what was granted against the rates; what was only asked for costs nothing. [INV-9]"""
    counts: dict[Key, int] = {}
    for key in granted:
        if key in rooms and rooms[key].limits.rate:
            counts[key] = counts.get(key, 0) + 1
    if counts:
        RateBucket.sql.charge([(key, count, rooms[key].limits.window) for key, count in sorted(counts.items())])


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A task that wants permits: one of this lease, or one of another queue that waits its turn."""

    namespace: str
    id: UUID
    priority: int
    wants: tuple[tuple[str, int], ...]
    lease: Lease | None


def permit(leases: Sequence[Lease], rooms: dict[Key, Room]) -> set[UUID]:
    """Give started tasks the permits they want, all or nothing, in the order they came; returns those refused. [INV-7c]

    Whoever waits longer on another queue that is polled for it has its permits kept free.
    """
    own = [
        _Candidate(lease.namespace, lease.id, lease.priority, rooms[key].limits.semaphores, lease)
        for lease in leases
        if (key := (lease.namespace, lease.name)) in rooms and rooms[key].limits.semaphores
    ]
    if not own:
        return set()
    wanted = sorted({(one.namespace, name) for one in own for name, _ in one.wants})
    total = Semaphore.sql.lock(wanted)
    taken = Permit.sql.taken(wanted, excluding=[one.id for one in own])
    free = {key: permits - taken.get(key, 0) for key, permits in total.items()}
    others = _waiting(wanted, {one.id for one in own})
    granted: list[NewPermit] = []
    refused: set[UUID] = set()
    for one in sorted([*own, *others], key=lambda c: (-c.priority, c.id)):
        fits = all(free.get((one.namespace, name), MOST) >= permits for name, permits in one.wants)
        if all(total.get((one.namespace, name), MOST) >= permits for name, permits in one.wants):
            for name, permits in one.wants:  # one that does not fit yet keeps its place too, unless it never can
                if (one.namespace, name) in free:
                    free[one.namespace, name] -= permits
        if one.lease is None:
            continue
        if fits:
            granted += [
                NewPermit(one.namespace, name, one.id, one.lease.workflow_id, one.lease.lease_token, permits)
                for name, permits in one.wants
            ]
        else:
            refused.add(one.id)
    if granted:
        Permit.sql.acquire(granted)
    if refused:
        _wait((one.lease, one.wants) for one in own if one.id in refused and one.lease is not None)
    return refused


def _waiting(wanted: Sequence[Key], own: set[UUID]) -> list[_Candidate]:
    """Tasks of other queues that wait for these semaphores; one that its own limits hold up keeps nothing free."""
    known = limits.limited()
    found = []
    for task in Semaphore.sql.ahead(wanted, seconds=conf().SEMAPHORE_TURN_SECONDS, batch=_AHEAD):
        has = known.get((task.namespace, task.name))
        if task.id not in own and has is not None and not has.counted:
            found.append(_Candidate(task.namespace, task.id, task.priority, has.semaphores, None))
    return found


def _wait(refused: Iterable[tuple[Lease, tuple[tuple[str, int], ...]]]) -> None:
    Semaphore.sql.wait(
        (lease.namespace, semaphore, lease.queue, lease.name) for lease, wants in refused for semaphore, _ in wants
    )


_noted: dict[tuple[str, str, str], float] = {}
_noting = threading.Lock()


def note_waits(queues: Sequence[tuple[str, str, str]], keys: dict[Key, TaskLimits]) -> None:
    """Note (namespace, queue, name) that are polled while their semaphores have no room, now and then."""
    now, every = time.monotonic(), conf().SEMAPHORE_TURN_SECONDS / 4
    due = []
    with _noting:
        if len(_noted) > 10_000:
            _noted.clear()
        for namespace, queue, name in queues:
            wants = keys[namespace, name].semaphores
            if wants and now - _noted.get((namespace, queue, name), -every) >= every:
                _noted[namespace, queue, name] = now
                due += [(namespace, semaphore, queue, name) for semaphore, _ in wants]
    if due:
        with transaction():
            Semaphore.sql.wait(due)


def capped(ready: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Ready tasks of (namespace, queue), no more than their limits let through; queues without room are left out."""
    keys: dict[Key, TaskLimits] = {}
    limited = {place: found for place in ready if (found := limited_keys(*place))}
    for found in limited.values():
        keys.update(found)
    if not keys:
        return ready
    rooms = peek_room(keys)
    waits = [(place[0], place[1], key[1]) for place, found in limited.items() for key in found if not rooms[key]]
    note_waits(waits, keys)
    room = {place: sum(rooms[key] for key in found) for place, found in limited.items()}
    return {place: count for place, ready_ in ready.items() if (count := min(ready_, room.get(place, MOST)))}


def may_free(tasks: Iterable[tuple[str, str, bool]]) -> bool:
    """Whether the end of one of these (namespace, queue, on a shared queue) may let others through."""
    known = limits.limited()
    if not known:
        return False
    namespaces = {namespace for namespace, _ in known}
    return any(
        namespace in namespaces if shared else any((namespace, name) in known for name in names_of(queue))
        for namespace, queue, shared in tasks
    )


@dataclass(frozen=True, slots=True)
class SemaphoreView:
    """A semaphore, who holds its permits, and which queues are polled for it in vain."""

    semaphore: StoredSemaphore
    holders: list[Holder]
    waiters: list[Waiter]


def find_semaphores(namespace: str, name: str | None = None) -> list[SemaphoreView]:
    """Semaphores of a tenant, all or the one of that name."""
    holders = Permit.sql.holders(namespace, name)
    waiters = Semaphore.sql.waiters(namespace, name, seconds=conf().SEMAPHORE_TURN_SECONDS)
    return [
        SemaphoreView(
            found,
            [holder for holder in holders if holder.semaphore == found.name],
            [waiter for waiter in waiters if waiter.semaphore == found.name],
        )
        for found in Semaphore.sql.find(namespace, name)
    ]


def get_semaphore(namespace: str, name: str) -> SemaphoreView:
    """A semaphore; raises NotFound."""
    found = find_semaphores(namespace, name)
    if not found:
        raise NotFound(f"There is no semaphore {name!r}.", name=name)
    return found[0]


def put_semaphore(namespace: str, name: str, permits: object, description: object = None) -> None:
    """Create a semaphore, or change how many permits it has; zero closes it. Raises Invalid."""
    problems = []
    if not name.strip() or len(name) > 255:
        problems.append(("name", "expected a name of 1 to 255 characters"))
    if type(permits) is not int or not 0 <= permits <= 1_000_000:
        problems.append(("permits", f"expected a whole number from 0 to 1000000, got {permits!r}"))
    if description is not None and not isinstance(description, str):
        problems.append(("description", f"expected a text, got {type(description).__name__}"))
    if problems:
        raise Invalid(problems=problems)
    with transaction():
        Semaphore.sql.put(namespace, name, permits, description)  # type: ignore[arg-type]
        hint(QUEUE)


def delete_semaphore(namespace: str, name: str) -> None:
    """Remove a semaphore that no task definition names and nobody holds; raises NotFound or Conflict.

    It is locked before the definitions are read: a registration locks the semaphores it names.
    """
    with transaction():
        if not Semaphore.sql.lock([(namespace, name)]):
            raise NotFound(f"There is no semaphore {name!r}.", name=name)
        users = [key[1] for key, found in limits.read_all().items() if key[0] == namespace and found.wants(name)]
        if users:
            raise Conflict(f"The semaphore {name!r} is named by {', '.join(users[:5])}: register them without it first.")
        if Permit.sql.taken([(namespace, name)], excluding=()):
            raise Conflict(f"Permits of the semaphore {name!r} are held: wait until its holders have ended.")
        Semaphore.sql.delete(namespace, name)
