"""Limits on what is handed out, raced at their edge: never one too many, never one lost. [INV-7c, INV-9, INV-12]"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from dispatch.managers import ExpiredLease
from dispatch.models import Permit, QueuedTask, RateBucket
from dispatch.services import dispatching, leasing, limiting
from dispatch.services.dispatching import TaskReport
from orchestrator.db import sql
from orchestrator.db.locks import Advisory, advisory_key, take_advisory
from orchestrator.db.transactions import transaction
from orchestrator.errors import Invalid
from tests import flows
from tests.support import Contender, observer, race
from workflows import limits
from workflows.managers.task import StartedTask, TaskEnd
from workflows.models import DecideQueue, Task
from workflows.services import control, definitions
from workflows.services.sweeping import invariant_report
from workflows.transitions import end_tasks

pytestmark = pytest.mark.usefixtures("committed")


def limited(count: int, queue: str | None = None, **policy: Any) -> str:
    """A queue with `count` ready tasks of one run each, under a limit; returns its name."""
    queue = queue or flows.unique("q")
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue, "retryCount": 0, **policy}])
    name = flows.register(flows.simple("a", queue))
    for _ in range(count):
        flows.start(name)
    flows.drain()
    return queue


def semaphore(permits: int) -> str:
    name = flows.unique("sem")
    limiting.put_semaphore(flows.NAMESPACE, name, permits)
    return name


def held(name: str) -> int:
    return limiting.get_semaphore(flows.NAMESPACE, name).semaphore.taken


def storm(number: int, queues: list[str], batch: int = 10) -> list[StartedTask]:
    """What `number` dispatchers get that lease at once, in turns from these queues; raises what one of them raised."""
    outcomes = race(number, lambda i: flows.lease(queues[i % len(queues)], batch, worker_id=f"w{i}"))
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [task for outcome in outcomes if isinstance(outcome, list) for task in outcome]


def expire(task: StartedTask) -> None:
    with transaction():
        QueuedTask.sql.put_off(ExpiredLease(task.id, task.workflow_id, task.lease_token, 0, False), seconds=-1)


def leftovers() -> dict[str, object]:
    return {name: rows for name, rows in invariant_report().items() if rows}


@pytest.mark.invariant("INV-9")
def test_ten_dispatchers_never_exceed_a_cap_of_five() -> None:
    queue = limited(40, concurrentExecLimit=5)
    done: list[StartedTask] = []
    while len(done) < 40:
        flying = storm(10, [queue])
        assert 0 < len(flying) <= 5
        flows.complete(flying)
        done += flying
    assert len({task.id for task in done}) == 40
    assert leftovers() == {}


@pytest.mark.invariant("INV-9")
def test_what_is_in_flight_is_counted_after_the_lock_was_waited_for() -> None:
    """A storm alone does not find a count whose snapshot is older than the lock: here the other lease is uncommitted."""
    queue = limited(20, concurrentExecLimit=5)
    key = (flows.NAMESPACE, queue)
    with transaction():
        rooms = limiting.lock([key])
        leases = QueuedTask.sql.lease_named(
            *(flows.NAMESPACE, queue, queue), room=rooms[key].room, worker_id="one", lease_seconds=60, renewed=False
        )
        assert len(leasing._start(leases, "one", rooms)) == 5
        other = Contender(lambda: flows.lease(queue, 10)).until_blocked()
    assert other.result() == []


@pytest.mark.invariant("INV-9")
def test_eight_dispatchers_hand_out_six_tasks_in_a_window() -> None:
    queue = limited(30, rateLimitPerFrequency=6, rateLimitFrequencyInSeconds=3600)
    handed = storm(8, [queue], batch=4)
    assert len(handed) == 6
    flows.complete(handed)
    assert storm(8, [queue], batch=4) == []  # tokens come back with time, not with results


@pytest.mark.invariant("INV-9")
def test_idle_pollers_burn_no_tokens() -> None:
    queue = limited(0, rateLimitPerFrequency=3, rateLimitFrequencyInSeconds=3600)
    for _ in range(5):
        assert flows.lease(queue, 10) == []
    assert not RateBucket.objects.filter(name=queue).exists()
    name = flows.register(flows.simple("a", queue))
    for _ in range(5):
        flows.start(name)
    flows.drain()
    assert len(flows.lease(queue, 1)) == 1
    assert len(flows.lease(queue, 10)) == 2


def test_a_window_that_is_over_gives_new_tokens() -> None:
    queue = limited(4, rateLimitPerFrequency=2, rateLimitFrequencyInSeconds=1)
    first = flows.lease(queue, 10)
    assert len(first) == 2 and flows.lease(queue, 10) == []
    assert len(flows.lease_all(queue, 2)) == 2


def test_a_lower_cap_holds_at_once_and_a_removed_one_lets_everything_through() -> None:
    queue = limited(10, concurrentExecLimit=6)
    assert len(flows.lease(queue, 4)) == 4
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue, "concurrentExecLimit": 3}])
    assert flows.lease(queue, 10) == []
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue}])
    assert len(flows.lease(queue, 10)) == 6


def test_a_cap_covers_every_domain_of_a_task() -> None:
    queue = limited(3, concurrentExecLimit=4)
    name = flows.register(flows.simple("a", queue))
    for _ in range(3):
        flows.start(name, task_to_domain={queue: "eu"})
    flows.drain()
    assert len(flows.lease(f"eu:{queue}", 10)) == 3
    assert len(flows.lease(queue, 10)) == 1


@pytest.mark.invariant("INV-9")
def test_an_unlimited_queue_takes_no_advisory_lock() -> None:
    queue, capped = limited(3), limited(1, concurrentExecLimit=1)
    seen: dict[str, int] = {}
    with observer() as watching:

        def watch(name: str, _: Any) -> None:
            if name == "workflows.task.start":  # the queue rows are leased, the transaction is open
                pid = connection.connection.execute("SELECT pg_backend_pid()").fetchone()
                locks = watching.execute(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s", pid
                ).fetchone()
                seen[name] = locks[0] if locks else -1

        sql.OBSERVERS.append(watch)
        try:
            assert len(flows.lease(queue, 2)) == 2
            assert seen == {"workflows.task.start": 0}
            assert len(flows.lease(capped, 2)) == 1
            assert seen == {"workflows.task.start": 1}
        finally:
            sql.OBSERVERS.remove(watch)


@pytest.mark.invariant("INV-9")
def test_a_limited_queue_waits_for_nobody_but_its_own_lock() -> None:
    busy, idle, free = (limited(1, concurrentExecLimit=1), limited(1, concurrentExecLimit=1), limited(1))
    with transaction():
        take_advisory([advisory_key(Advisory.QUEUE, flows.NAMESPACE, busy)])
        assert len(Contender(lambda: flows.lease(idle)).result()) == 1
        assert len(Contender(lambda: flows.lease(free)).result()) == 1
        waits = Contender(lambda: flows.lease(busy)).until_blocked()
    assert len(waits.result()) == 1


@pytest.mark.invariant("INV-7c")
def test_two_queues_never_exceed_one_semaphore() -> None:
    name = semaphore(3)
    queues = [limited(12, semaphores=[name]), limited(12, semaphores=[name])]
    done = 0
    while done < 24:
        flying = storm(8, queues, batch=5)
        assert len(flying) <= 3 and held(name) == len(flying)
        flows.complete(flying)
        done += len(flying)
        assert held(name) == 0
    assert leftovers() == {}


@pytest.mark.invariant("INV-7c")
def test_permits_are_counted_after_the_semaphore_was_waited_for() -> None:
    name = semaphore(1)
    one, two = limited(1, semaphores=[name]), limited(1, semaphores=[name])
    key = (flows.NAMESPACE, one)
    with transaction():
        rooms = limiting.lock([key])
        leases = QueuedTask.sql.lease_named(
            flows.NAMESPACE, one, one, room=1, worker_id="one", lease_seconds=60, renewed=False
        )
        assert len(leasing._start(leases, "one", rooms)) == 1
        other = Contender(lambda: flows.lease(two)).until_blocked()
    assert other.result() == []
    row = QueuedTask.objects.get(queue=two)
    assert (row.lease_token, row.worker_id) == (None, None)
    task = Task.objects.get(id=row.id)
    assert (task.status, task.poll_count, task.started_at, task.worker_id) == ("SCHEDULED", 0, None, None)
    assert leftovers() == {}


@pytest.mark.invariant("INV-7c")
def test_a_task_takes_all_its_permits_or_none() -> None:
    """Two definitions name two semaphores in opposite order: whoever is refused one holds none."""
    a, b = semaphore(1), semaphore(1)
    queues = [limited(6, semaphores=[a, b]), limited(6, semaphores=[b, a])]
    done = 0
    while done < 12:
        flying = storm(6, queues, batch=2)
        assert len(flying) <= 1 and held(a) == held(b) == len(flying)
        flows.complete(flying)
        done += len(flying)


@pytest.mark.invariant("INV-7c")
def test_a_permit_survives_three_heartbeats() -> None:
    name = semaphore(1)
    queue = limited(2, semaphores=[name])
    (task,) = flows.lease(queue)
    until = []
    for _ in range(3):
        assert dispatching.renew_leases([(task.id, task.lease_token)]) == {task.id}
        assert flows.lease(queue) == [] and held(name) == 1
        (holder,) = limiting.get_semaphore(flows.NAMESPACE, name).holders
        assert holder.task_id == task.id and holder.lease_expires_at is not None
        until.append(holder.lease_expires_at)
    assert until == sorted(set(until))
    assert dispatching.reclaim_next_batch() == 0
    flows.complete([task])
    assert len(flows.lease(queue)) == 1


@pytest.mark.invariant("INV-7c")
def test_the_permit_of_a_crashed_worker_is_given_back_with_its_lease() -> None:
    name = semaphore(1)
    queue = limited(1, semaphores=[name])
    (task,) = flows.lease(queue, worker_id="crashes")
    expire(task)
    assert held(name) == 1  # until the lease is taken back nobody knows that it crashed
    assert dispatching.reclaim_next_batch() == 1
    assert held(name) == 0
    (again,) = flows.lease(queue, worker_id="two")
    assert again.id == task.id and held(name) == 1
    (permit,) = Permit.objects.filter(semaphore=name)
    assert permit.lease_token == again.lease_token


@pytest.mark.invariant("INV-7c")
def test_a_deferred_task_is_not_refused_by_itself() -> None:
    name = semaphore(1)
    queue = limited(1, semaphores=[{"name": name, "permits": 1}])
    for _ in range(3):
        (task,) = flows.lease(queue)
        report = TaskReport(task.id, task.workflow_id, "IN_PROGRESS", lease_token=task.lease_token, callback_seconds=0)
        assert dispatching.report([report], strict=True)[0].applied
        assert held(name) == 0
    (task,) = flows.lease(queue)
    dispatching.release_tasks([(task.id, task.lease_token)])
    assert held(name) == 0


@pytest.mark.invariant("INV-7c")
@pytest.mark.parametrize("end", ["task", "run"])
def test_the_end_of_a_task_waits_for_its_lease_and_leaves_no_permit(end: str) -> None:
    name = semaphore(1)
    queue = limited(1, semaphores=[name])
    row = QueuedTask.objects.get(queue=queue)

    def cancel() -> None:
        if end == "run":
            control.terminate(flows.NAMESPACE, row.workflow_id, reason="enough", actor="op")
            return
        with transaction():
            DecideQueue.sql.enqueue([row.workflow_id])
            end_tasks([TaskEnd(row.id, row.workflow_id, "CANCELED")])

    with transaction():
        rooms = limiting.lock([(flows.NAMESPACE, queue)])
        leases = QueuedTask.sql.lease_named(
            flows.NAMESPACE, queue, queue, room=1, worker_id="one", lease_seconds=60, renewed=False
        )
        assert len(leasing._start(leases, "one", rooms)) == 1
        canceller = Contender(cancel).until_blocked()
    canceller.result()
    assert held(name) == 0 and not QueuedTask.objects.filter(id=row.id).exists()


@pytest.mark.invariant("INV-7c")
def test_a_semaphore_is_given_first_in_first_out() -> None:
    """A queue that is polled in vain keeps its place: a newcomer on a busier queue does not overtake."""
    name = semaphore(2)
    small, large = limited(2, semaphores=[name]), flows.unique("q")
    first, second = flows.lease(small)
    limited(1, queue=large, semaphores=[{"name": name, "permits": 2}])
    assert flows.lease(large) == []  # it waits for both permits
    limited(3, queue=small, semaphores=[name])
    flows.complete([first])
    assert flows.lease(small) == []  # one permit is free, and kept for the task that came before
    flows.complete([second])
    assert flows.lease(small) == []
    (got,) = flows.lease(large)
    flows.complete([got])
    assert len(flows.lease(small)) == 2


def test_more_permits_than_there_are_hold_nobody_else_up() -> None:
    name = semaphore(1)
    greedy, modest = limited(1, semaphores=[{"name": name, "permits": 2}]), limited(1, semaphores=[name])
    assert flows.lease(greedy) == []
    assert len(flows.lease(modest)) == 1


def test_an_unknown_semaphore_is_refused_at_registration() -> None:
    with pytest.raises(Invalid) as refused:
        definitions.register_tasks(flows.NAMESPACE, [{"name": flows.unique("q"), "semaphores": ["nowhere"]}])
    assert "there is no semaphore 'nowhere'" in refused.value.problems[0][1]
    for bad in ({"permits": 2}, 5, {"name": "x", "permits": 0}, ""):
        with pytest.raises(Invalid):
            definitions.register_tasks(flows.NAMESPACE, [{"name": flows.unique("q"), "semaphores": [bad]}])


@pytest.mark.invariant("INV-9")
def test_a_limit_holds_for_system_tasks() -> None:
    name, free, sem = flows.unique("calls"), flows.unique("free"), semaphore(2)
    definitions.register_tasks(
        flows.NAMESPACE,
        [{"name": name, "concurrentExecLimit": 2}, {"name": free}, {"name": f"{name}_s", "semaphores": [sem]}],
    )

    def call(ref: str, definition: str) -> dict[str, Any]:
        return {
            "name": definition, "taskReferenceName": ref, "type": "HTTP", "inputParameters": {"uri": "http://localhost"},
        }  # fmt: skip

    branches = [[call(f"c{i}", name)] for i in range(8)] + [[call(f"s{i}", f"{name}_s")] for i in range(8)]
    flow = flows.register(*flows.fork("f", *branches, *[[call(f"o{i}", free)] for i in range(8)]))
    flows.start(flow)
    flows.drain()
    barrier_errors: list[BaseException] = []

    def lease(number: int) -> list[StartedTask]:
        return dispatching.lease_system_tasks(["HTTP"], batch=6, worker_id=f"w{number}")

    handed: list[StartedTask] = []
    for outcome in race(8, lease):
        if isinstance(outcome, BaseException):
            barrier_errors.append(outcome)
        else:
            handed += outcome
    assert not barrier_errors
    by_name = {n: sum(task.name == n for task in handed) for n in (name, f"{name}_s", free)}
    assert by_name == {name: 2, f"{name}_s": 2, free: 8}
    flows.complete([task for task in handed if task.name == name])
    assert len(lease(0)) == 2


def test_a_process_learns_of_a_limit_that_another_registered(settings: Any) -> None:
    queue = limited(4)
    assert limits.limited().get((flows.NAMESPACE, queue)) is None
    known = threading.Event()
    original = limits.forget
    limits.forget = known.set  # type: ignore[assignment]
    try:
        definitions.register_tasks(flows.NAMESPACE, [{"name": queue, "concurrentExecLimit": 1}])
    finally:
        limits.forget = original
    settings.OSTINATO = {**settings.OSTINATO, "LIMITS_CACHE_SECONDS": 0.0}
    assert known.is_set()
    assert len(flows.lease(queue)) == 1
