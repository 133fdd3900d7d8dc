"""Leases against everything that ends, renews or takes them back. [INV-7a, INV-7b, INV-11, INV-12]"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from dispatch.managers import ExpiredLease
from dispatch.models import QueuedTask
from dispatch.services import dispatching, leasing
from dispatch.services.dispatching import TaskReport
from orchestrator.db.transactions import transaction
from orchestrator.errors import IllegalState, LeaseLost
from outbox.models import OutboxEvent
from tests import flows
from tests.support import Contender, eventually, race
from workflows.managers.task import StartedTask, TaskEnd
from workflows.models import DecideQueue, HistoryEvent, Task, Timer
from workflows.services import control, definitions
from workflows.services.sweeping import invariant_report
from workflows.transitions import end_tasks

pytestmark = pytest.mark.usefixtures("committed")


def leased(count: int = 1, worker_id: str = "one", renewed: bool = False, **policy: Any) -> tuple[list[StartedTask], str]:
    """Tasks of `count` runs, leased, and their queue."""
    queue = flows.unique("q")
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue, "responseTimeoutSeconds": 30, "retryCount": 0, **policy}])
    name = flows.register(flows.simple("a", queue))
    for _ in range(count):
        flows.start(name)
    flows.drain()
    tasks: list[StartedTask] = []
    while len(tasks) < count:
        tasks += flows.lease(queue, count - len(tasks), worker_id=worker_id, renewed=renewed)
    return tasks, queue


def expire(*tasks: StartedTask) -> None:
    with transaction():
        for task in tasks:
            QueuedTask.sql.put_off(ExpiredLease(task.id, task.workflow_id, task.lease_token, 0, False), seconds=-1)


def lease_inside(queue: str, worker_id: str) -> list[StartedTask]:
    """What `lease_tasks` does, inside a transaction that the test keeps open."""
    leases = QueuedTask.sql.lease(
        flows.NAMESPACE, queue, batch=1, worker_id=worker_id, lease_seconds=60, renewed=False
    )
    return leasing._start(leases, worker_id)


def answer(task: StartedTask, status: str = "COMPLETED", **fields: Any) -> bool:
    report = TaskReport(task.id, task.workflow_id, status, lease_token=task.lease_token, **fields)
    return dispatching.report([report], strict=False)[0].applied


def leftovers() -> dict[str, object]:
    return {name: rows for name, rows in invariant_report().items() if rows}


def deadline(task: StartedTask) -> tuple[UUID | None, bool]:
    """The task's lease, and whether a response deadline stands beside it."""
    row = QueuedTask.objects.get(id=task.id)
    return row.lease_token, row.respond_by is not None


@pytest.mark.invariant("INV-7a")
def test_ten_leasers_hand_out_each_of_two_hundred_tasks_once() -> None:
    queue = flows.unique("q")
    name = flows.register(*flows.fork("f", *[[flows.simple(f"b{i}", queue)] for i in range(20)]))
    runs = [flows.start(name) for _ in range(10)]
    flows.drain()

    def lease(number: int) -> list[StartedTask]:
        found: list[StartedTask] = []
        empty = 0
        while empty < 3:
            batch = flows.lease(queue, 7, worker_id=f"w{number}")
            empty = 0 if batch else empty + 1
            found += batch
            flows.complete(batch)
        return found

    outcomes = race(10, lease)
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    handed = Counter(task.id for outcome in outcomes if isinstance(outcome, list) for task in outcome)
    assert len(handed) == 200 and set(handed.values()) == {1}
    flows.drain()
    assert {flows.status(run) for run in runs} == {"COMPLETED"}
    assert leftovers() == {}


@pytest.mark.invariant("INV-7a")
def test_a_lease_that_was_just_renewed_is_not_taken_back() -> None:
    (task,), _queue = leased()
    expire(task)
    with transaction():
        assert dispatching.renew([(task.id, task.lease_token)], renewed=True) == {task.id}
        reclaimer = Contender(dispatching.reclaim_next_batch).until_blocked()
    assert reclaimer.result() == 0
    assert QueuedTask.objects.get(id=task.id).lease_token == task.lease_token
    assert deadline(task) == (task.lease_token, True)
    assert answer(task)


@pytest.mark.invariant("INV-7a")
def test_an_answer_in_time_that_is_under_way_keeps_the_response_deadline_away() -> None:
    (task,), _queue = leased(responseTimeoutSeconds=1)
    eventually(lambda: [lease.id for lease in QueuedTask.sql.peek_expired(batch=1) if lease.overdue] == [task.id])
    with transaction():
        assert dispatching.renew([(task.id, task.lease_token)], renewed=True) == {task.id}
        reclaimer = Contender(dispatching.reclaim_next_batch).until_blocked()
    assert reclaimer.result() == 0
    assert Task.objects.get(id=task.id).status == "IN_PROGRESS"
    assert answer(task)


@pytest.mark.invariant("INV-7a")
@pytest.mark.parametrize("renewed", [True, False])
def test_an_attempt_that_is_overdue_is_ended_and_handed_to_nobody(renewed: bool) -> None:
    (task,), queue = leased(responseTimeoutSeconds=1, retryCount=1, retryDelaySeconds=0, renewed=renewed)
    flows.time_out()
    row = Task.objects.get(id=task.id)
    assert (row.status, row.cause, row.poll_count) == ("TIMED_OUT", "RESPONSE_TIMEOUT", 1)
    assert not answer(task)
    assert [retry.attempt for retry in flows.lease(queue)] == [1]


@pytest.mark.invariant("INV-7a")
def test_a_renewal_that_waited_for_the_reclaim_finds_its_lease_gone() -> None:
    (task,), _queue = leased()
    expire(task)
    (expired,) = QueuedTask.sql.peek_expired(batch=10)
    with transaction():
        taken = QueuedTask.sql.reclaim([expired], max_redeliveries=3)
        renewer = Contender(lambda: dispatching.renew_leases([(task.id, task.lease_token)])).until_blocked()
        Task.sql.reset([(run, id, token, None, 0) for id, run, token in taken])
    assert renewer.result() == set()
    assert QueuedTask.objects.get(id=task.id).lease_token is None
    assert deadline(task) == (None, False)


@pytest.mark.invariant("INV-7a")
def test_reclaim_and_a_new_lease_leave_the_first_holder_nothing() -> None:
    (old,), queue = leased(worker_id="one")
    expire(old)
    assert dispatching.reclaim_next_batch() == 1
    with transaction():
        (new,) = lease_inside(queue, "two")
        assert Contender(lambda: answer(old, output={"late": True})).result() is False
    assert deadline(new) == (new.lease_token, True)
    row = Task.objects.get(id=new.id)
    assert (row.status, row.worker_id, row.lease_token) == ("IN_PROGRESS", "two", new.lease_token)
    assert answer(new, output={"by": "two"})
    assert Task.objects.get(id=new.id).output == {"by": "two"}
    assert leftovers() == {}


@pytest.mark.invariant("INV-7a")
def test_without_a_token_the_new_holder_is_not_ended_by_the_old_one() -> None:
    """The holder is read while another worker's lease has not committed: what was read must not end that lease."""
    (old,), queue = leased(worker_id="one")
    dispatching.release_tasks([(old.id, old.lease_token)])
    report = TaskReport(old.id, old.workflow_id, "COMPLETED", worker_id="one", output={"late": True})
    with transaction():
        (new,) = lease_inside(queue, "two")
        late = Contender(lambda: dispatching.report([report], strict=False)).until_blocked()
    assert [outcome.refusal for outcome in late.result()] == ["the task is leased to worker two"]
    assert answer(new, output={"by": "two"})


@pytest.mark.invariant("INV-11")
def test_the_end_of_a_run_waits_for_a_lease_and_leaves_nothing_of_it() -> None:
    queue = flows.unique("q")
    policy = {"name": queue, "responseTimeoutSeconds": 30, "timeoutSeconds": 90}
    definitions.register_tasks(flows.NAMESPACE, [policy])
    run = flows.start(flows.register(flows.simple("a", queue)))
    flows.drain()
    with transaction():
        (task,) = lease_inside(queue, "w")
        operator = Contender(lambda: control.terminate(flows.NAMESPACE, run, actor="me")).until_blocked()
    operator.result()
    assert Task.objects.get(id=task.id).status == "CANCELED"
    assert not QueuedTask.objects.filter(workflow_id=run).exists()
    assert dispatching.renew_leases([(task.id, task.lease_token)]) == set()
    assert answer(task) is False
    flows.drain()
    assert leftovers() == {}


@pytest.mark.invariant("INV-7a")
def test_a_log_line_waits_for_the_reclaim_of_its_lease_and_is_refused() -> None:
    (task,), _queue = leased()
    expire(task)
    (expired,) = QueuedTask.sql.peek_expired(batch=10)
    with transaction():
        taken = QueuedTask.sql.reclaim([expired], max_redeliveries=3)
        logger = Contender(
            lambda: dispatching.append_logs(task.id, ["late"], lease_token=task.lease_token)
        ).until_blocked()
        Task.sql.reset([(run, id, token, None, 0) for id, run, token in taken])
    assert isinstance(logger.outcome(), LeaseLost)
    assert dispatching.read_logs(task.id) == []


@pytest.mark.invariant("INV-7b")
def test_a_late_answer_beats_the_end_of_its_exhausted_lease(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "MAX_REDELIVERIES": 0}
    (task,), _queue = leased()
    expire(task)
    with transaction():
        DecideQueue.sql.enqueue([task.workflow_id])
        reclaimer = Contender(dispatching.reclaim_next_batch).until_blocked()
        assert QueuedTask.sql.acknowledge([(task.id, task.lease_token)])
        ends = [TaskEnd(task.id, task.workflow_id, "COMPLETED", {"in": "time"})]
        assert len(end_tasks(ends)) == 1
    assert reclaimer.result() == 0
    row = Task.objects.get(id=task.id)
    assert (row.status, row.output) == ("COMPLETED", {"in": "time"})
    flows.drain()
    assert flows.status(task.workflow_id) == "COMPLETED"
    assert leftovers() == {}


@pytest.mark.invariant("INV-7a")
def test_a_renewal_while_the_end_of_its_lease_waits_for_the_gate_keeps_the_task(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "MAX_REDELIVERIES": 0}
    (task,), _ = leased()
    expire(task)
    with transaction():
        DecideQueue.sql.enqueue([task.workflow_id])
        reclaimer = Contender(dispatching.reclaim_next_batch).until_blocked()
        assert dispatching.renew([(task.id, task.lease_token)], renewed=True)
    assert reclaimer.result() == 0
    assert Task.objects.get(id=task.id).status == "IN_PROGRESS"
    assert answer(task)


@pytest.mark.invariant("INV-7b")
@pytest.mark.parametrize("same_token", [True, False])
def test_of_eight_answers_exactly_one_is_applied(same_token: bool) -> None:
    (task,), _queue = leased()
    token = task.lease_token if same_token else None

    def body(number: int) -> bool:
        report = TaskReport(task.id, task.workflow_id, "COMPLETED", lease_token=token, output={"by": number})
        return dispatching.report([report], strict=False)[0].applied

    outcomes = race(8, body)
    assert sorted(map(str, outcomes)) == ["False"] * 7 + ["True"]
    assert Task.objects.get(id=task.id).output == {"by": outcomes.index(True)}
    refused = HistoryEvent.objects.filter(workflow_id=task.workflow_id, type="task.late_result_refused").count()
    assert refused == 7
    assert leftovers() == {}


@pytest.mark.invariant("INV-11")
def test_work_that_is_done_while_its_run_ends_leaves_nothing_waiting() -> None:
    tasks, _ = leased(12, timeoutSeconds=600)

    def act(number: int) -> bool | None:
        if number % 2:
            return control.terminate(flows.NAMESPACE, tasks[number // 2].workflow_id, actor="ann")
        return answer(tasks[number // 2], "IN_PROGRESS", awaits=True)

    assert {type(outcome) for outcome in race(24, act)} == {bool, type(None)}
    assert {task.status for task in Task.objects.all()} == {"CANCELED"}
    assert not Timer.objects.exists()
    assert leftovers() == {}


@pytest.mark.invariant("INV-12")
def test_tasks_that_end_and_tasks_that_wait_from_now_on_are_reported_together() -> None:
    tasks, _ = leased(4, timeoutSeconds=600)
    ways: list[dict[str, Any]] = [
        {"status": "COMPLETED"}, {"status": "IN_PROGRESS", "awaits": True}, {"status": "IN_PROGRESS", "extend": True},
        {"status": "IN_PROGRESS", "callback_seconds": 5},
    ]  # fmt: skip
    reports = [
        TaskReport(task.id, task.workflow_id, lease_token=task.lease_token, **way)
        for task, way in zip(tasks, ways, strict=True)
    ]
    assert [outcome.applied for outcome in dispatching.report(reports[::-1], strict=True)] == [True] * 4
    assert not QueuedTask.objects.filter(id__in=[task.id for task in tasks[:2]]).exists()
    flows.drain()
    assert leftovers() == {}


@pytest.mark.invariant("INV-12")
@pytest.mark.parametrize("with_token", [True, False])
def test_a_mixed_batch_takes_its_queue_rows_in_one_order(with_token: bool) -> None:
    """A heartbeat holds the lower row and wants the higher; the batch, which ends the higher, must not hold it yet."""
    tasks, _ = leased(2)
    low, high = sorted(tasks, key=lambda task: task.id)
    reports = [
        TaskReport(high.id, high.workflow_id, "COMPLETED", lease_token=high.lease_token if with_token else None),
        TaskReport(low.id, low.workflow_id, "IN_PROGRESS", lease_token=low.lease_token, extend=True),
    ]
    with transaction():
        assert QueuedTask.sql.renew([(low.id, low.lease_token)], lease_seconds=60, renewed=True)
        batch = Contender(lambda: dispatching.report(reports, strict=True)).until_blocked()
        assert QueuedTask.sql.renew([(high.id, high.lease_token)], lease_seconds=60, renewed=True)
    assert [outcome.applied for outcome in batch.result()] == [True, True]


@pytest.mark.invariant("INV-6d")
def test_of_eight_leases_and_eight_answers_one_tells_of_the_start_and_one_of_the_end() -> None:
    queue = flows.unique("q")
    names = ("onScheduled", "onStart", "onSuccess", "onFailed", "onCancelled")
    task = flows.simple("a", queue, onStateChange={",".join(names): [{"type": "x"}]})
    run = flows.start(flows.register(task))
    flows.drain()
    tasks = [task for found in race(8, lambda i: flows.lease(queue)) for task in found]  # type: ignore[union-attr]

    def act(number: int) -> bool | None:
        if number % 2:
            return control.terminate(flows.NAMESPACE, run, actor="ann")
        return answer(tasks[0], "COMPLETED" if number % 4 else "FAILED_WITH_TERMINAL_ERROR")

    assert len(tasks) == 1
    assert {type(outcome) for outcome in race(8, act)} <= {bool, type(None), IllegalState}
    flows.drain()
    events = OutboxEvent.objects.filter(topic="event.published").order_by("id")
    first, second, *ends = [event.payload["payload"]["stateChange"] for event in events]
    assert (first, second, len(ends)) == ("onScheduled", "onStart", 1)
    assert leftovers() == {}


@pytest.mark.invariant("INV-12")
def test_leases_answers_heartbeats_and_reclaims_mix_without_a_deadlock_or_a_lost_task(settings: Any) -> None:
    """No 40P01 is swallowed here: any database error fails the race."""
    settings.OSTINATO = {**settings.OSTINATO, "MAX_REDELIVERIES": 100}
    queue = flows.unique("q")
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue, "responseTimeoutSeconds": 30, "retryCount": 0}])
    name = flows.register(*flows.fork("f", *[[flows.simple(f"b{i}", queue)] for i in range(6)]))
    runs = [flows.start(name) for _ in range(20)]
    flows.drain()
    total, done = 120, Counter[UUID]()
    lock, finished = threading.Lock(), threading.Event()

    def work(number: int) -> None:
        turn = 0
        while not finished.is_set():
            batch = flows.lease(queue, 5, worker_id=f"w{number}")
            if not batch:
                finished.wait(0.002)
                continue
            turn += 1
            dispatching.renew_leases([(task.id, task.lease_token) for task in batch])
            if turn % 3 == 0:
                expire(*batch)  # this worker dies here
                continue
            if turn % 3 == 1:
                dispatching.release_tasks([(task.id, task.lease_token) for task in batch[:1]])
                batch = batch[1:]
            reports = [TaskReport(t.id, t.workflow_id, "COMPLETED", lease_token=t.lease_token) for t in reversed(batch)]
            applied = [o.task_id for o in dispatching.report(reports, strict=False) if o.applied]
            with lock:
                done.update(applied)
                if sum(done.values()) >= total:
                    finished.set()

    def reclaim(number: int) -> None:
        while not finished.is_set():
            if not dispatching.reclaim_next_batch():
                finished.wait(0.002)

    outcomes = race(8, lambda i: work(i) if i < 6 else reclaim(i))
    assert outcomes == [None] * 8
    assert len(done) == total and set(done.values()) == {1}
    flows.drain()
    assert {flows.status(run) for run in runs} == {"COMPLETED"}
    assert leftovers() == {}
