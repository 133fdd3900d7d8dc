"""Leases and reports, one verb at a time: what each leaves in the queue, the task, the timers and the history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from dispatch.managers import ExpiredLease
from dispatch.models import QueuedTask, WorkerPoll
from dispatch.services import dispatching, leasing, polling
from dispatch.services.dispatching import TaskReport
from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import LeaseLost, NotFound
from tests import flows
from workflows.engine.state import TaskStatus
from workflows.managers.task import EndedTask, StartedTask, TaskEnd
from workflows.models import HistoryEvent, Task, Timer
from workflows.services import definitions

pytestmark = pytest.mark.usefixtures("committed")


def ready(**policy: Any) -> tuple[Any, str]:
    """A run whose one task waits on a queue of its own; `policy` goes to the task's definition."""
    queue = flows.unique("q")
    if policy:
        definitions.register_tasks(flows.NAMESPACE, [{"name": queue, "ownerEmail": "a@b.io", **policy}])
    run = flows.start(flows.register(flows.simple("a", queue)), {"n": 1})
    flows.drain()
    return run, queue


def send(task: StartedTask, status: str, **fields: Any) -> bool:
    """Report a task with its token; whether it was applied."""
    fields.setdefault("lease_token", task.lease_token)
    (outcome,) = dispatching.report([TaskReport(task.id, task.workflow_id, status, **fields)], strict=False)
    return outcome.applied


def expire(*tasks: StartedTask) -> None:
    """Let the time of leases run out."""
    with transaction():
        for task in tasks:
            QueuedTask.sql.put_off(ExpiredLease(task.id, task.workflow_id, task.lease_token, 0, False), seconds=-1)


def refusals(run: Any) -> list[str]:
    events = HistoryEvent.objects.filter(workflow_id=run, type="task.late_result_refused").order_by("seq")
    return [event.data["reason"] for event in events]


def respond_by(run: Any) -> Any:
    """The response deadline of a run's one task on a queue."""
    return QueuedTask.objects.get(workflow_id=run).respond_by


def timer_kinds(run: Any) -> dict[str, Timer]:
    return {timer.kind: timer for timer in Timer.objects.filter(workflow_id=run)}


def test_a_lease_starts_the_task_and_carries_its_input() -> None:
    queue = flows.unique("q")
    name = flows.register(flows.simple("a", queue, inputParameters={"n": "${workflow.input.n}"}))
    run = flows.start(name, {"n": 7})
    flows.drain()
    (task,) = flows.lease(queue, worker_id="w1")
    assert (task.workflow_id, task.ref, task.input, task.poll_count) == (run, "a", {"n": 7}, 1)
    row = Task.objects.get(id=task.id)
    assert (row.status, row.worker_id, row.lease_token) == ("IN_PROGRESS", "w1", task.lease_token)
    assert flows.lease(queue) == []


def test_priority_comes_before_age_and_the_batch_is_a_limit() -> None:
    queue = flows.unique("q")
    name = flows.register(flows.simple("a", queue))
    runs = [flows.start(name, priority=priority) for priority in (0, 5, 0, 9)]
    flows.drain()
    first = flows.lease(queue, 3)
    assert [runs.index(task.workflow_id) for task in first] == [3, 1, 0]
    assert [runs.index(task.workflow_id) for task in flows.lease(queue, 3)] == [2]


def test_a_lease_takes_nothing_of_another_namespace() -> None:
    _, queue = ready()
    assert dispatching.lease_tasks("elsewhere", queue, batch=10, worker_id="w") == []
    assert len(flows.lease(queue)) == 1


def test_system_queues_are_leased_across_namespaces_and_their_timers_name_theirs() -> None:
    inline = {
        "name": "i", "taskReferenceName": "i", "type": "INLINE",
        "inputParameters": {"evaluatorType": "javascript", "expression": "1"},
    }  # fmt: skip
    runs = {}
    for namespace in ("north", "south"):
        definitions.register_tasks(namespace, [{"name": "i", "responseTimeoutSeconds": 30, "timeoutSeconds": 60}])
        definitions.register(namespace, {"name": "n", "version": 1, "tasks": [inline]}, overwrite=True)
        runs[flows.start("n", namespace=namespace)] = namespace
    flows.drain()
    tasks = dispatching.lease_system_tasks(["HTTP", "INLINE"], batch=10, worker_id="sys")
    assert {task.workflow_id for task in tasks} == set(runs)
    for timer in Timer.objects.filter(workflow_id__in=runs):
        assert timer.namespace == runs[timer.workflow_id]


@pytest.mark.invariant("INV-7a")
def test_a_queue_row_whose_task_has_ended_is_dropped_by_the_lease() -> None:
    run, queue = ready()
    task = Task.objects.get(workflow_id=run)
    with transaction():
        Task.sql.end([TaskEnd(task.id, run, TaskStatus.CANCELED)])
    assert QueuedTask.objects.filter(id=task.id).exists()
    assert flows.lease(queue) == []
    assert not QueuedTask.objects.filter(id=task.id).exists()


def test_deadlines_begin_with_the_lease_and_the_whole_tasks_only_once() -> None:
    run, queue = ready(responseTimeoutSeconds=30, timeoutSeconds=100)
    assert (timer_kinds(run), respond_by(run)) == ({}, None)
    (task,) = flows.lease(queue)
    first, answer = timer_kinds(run), respond_by(run)
    assert set(first) == {"TASK"}
    assert first["TASK"].namespace == flows.NAMESPACE
    assert answer is not None
    assert send(task, "IN_PROGRESS")
    assert (set(timer_kinds(run)), respond_by(run)) == ({"TASK"}, None)
    flows.lease(queue)
    second = timer_kinds(run)
    assert respond_by(run) > answer
    assert (second["TASK"].id, second["TASK"].due_at) == (first["TASK"].id, first["TASK"].due_at)


def test_a_completion_ends_the_task_and_leaves_nothing_behind() -> None:
    run, queue = ready(responseTimeoutSeconds=30, timeoutSeconds=100)
    (task,) = flows.lease(queue)
    assert send(task, "COMPLETED", output={"x": 1}, logs=(("hello", None), ("again", None)))
    flows.drain()
    assert flows.status(run) == "COMPLETED"
    row = Task.objects.get(id=task.id)
    assert (row.status, row.output, row.lease_token) == ("COMPLETED", {"x": 1}, None)
    assert [line for line, _ in dispatching.read_logs(task.id)] == ["hello", "again"]
    assert not QueuedTask.objects.filter(workflow_id=run).exists()
    assert not Timer.objects.filter(workflow_id=run).exists()


@pytest.mark.invariant("INV-7a")
def test_a_former_holder_can_neither_complete_nor_defer_nor_renew_nor_log() -> None:
    run, queue = ready(responseTimeoutSeconds=30)
    (old,) = flows.lease(queue, worker_id="one")
    expire(old)
    assert dispatching.reclaim_next_batch() == 1
    (new,) = flows.lease(queue, worker_id="two")
    assert new.lease_token != old.lease_token
    before = Task.objects.values().get(id=old.id), QueuedTask.objects.values().get(id=old.id)
    log = (("late", None),)
    assert not send(old, "COMPLETED", output={"late": True}, logs=log)
    assert not send(old, "FAILED", logs=log)
    assert not send(old, "IN_PROGRESS", output={"late": True}, logs=log)
    assert not send(old, "IN_PROGRESS", extend=True, logs=log)
    assert dispatching.renew_leases([(old.id, old.lease_token)]) == set()
    dispatching.release_tasks([(old.id, old.lease_token)])
    with pytest.raises(LeaseLost):
        dispatching.append_logs(old.id, ["late"], lease_token=old.lease_token)
    assert (Task.objects.values().get(id=old.id), QueuedTask.objects.values().get(id=old.id)) == before
    assert dispatching.read_logs(old.id) == []
    assert refusals(run) == ["its lease was lost"] * 4
    assert send(new, "COMPLETED")


def test_a_strict_report_raises_and_is_kept_in_the_history_all_the_same() -> None:
    run, queue = ready()
    (task,) = flows.lease(queue)
    late = TaskReport(task.id, run, "COMPLETED", lease_token=new_id(), worker_id="w", output={"x": 1})
    with pytest.raises(LeaseLost) as caught:
        dispatching.report([late], strict=True)
    assert caught.value.fields["task_id"] == task.id
    (event,) = HistoryEvent.objects.filter(workflow_id=run, type="task.late_result_refused")
    assert event.data["output"] == {"x": 1} and event.task_id == task.id


@pytest.mark.invariant("INV-7b")
@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "CANCELED", "IN_PROGRESS"])
@pytest.mark.parametrize("with_token", [True, False])
def test_an_ended_task_stays_as_it_ended(status: str, with_token: bool) -> None:
    run, queue = ready()
    (task,) = flows.lease(queue)
    assert send(task, "COMPLETED", output={"first": True})
    before = Task.objects.values().get(id=task.id)
    token = task.lease_token if with_token else None
    assert not send(task, status, output={"second": True}, lease_token=token)
    assert Task.objects.values().get(id=task.id) == before
    assert refusals(run) == ["the task had ended COMPLETED"]


def test_without_a_token_the_holders_worker_id_is_the_fence() -> None:
    run, queue = ready()
    (task,) = flows.lease(queue, worker_id="mine")
    assert not send(task, "COMPLETED", lease_token=None, worker_id="other")
    assert refusals(run) == ["the task is leased to worker mine"]
    assert send(task, "COMPLETED", lease_token=None, worker_id="mine")


def test_without_a_token_a_task_that_nobody_holds_can_be_ended() -> None:
    run, queue = ready()
    task = Task.objects.get(workflow_id=run)
    report = TaskReport(task.id, run, "COMPLETED", output={"x": 1})
    assert dispatching.report([report], strict=True)[0].applied
    assert flows.lease(queue) == []


def test_a_task_that_was_never_queued_is_ended_without_a_token() -> None:
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1h"}}
    run = flows.start(flows.register(wait))
    flows.drain()
    task = Task.objects.get(workflow_id=run)
    dispatching.report([TaskReport(task.id, run, "COMPLETED", output={"by": "hand"})], strict=True)
    flows.drain()
    assert flows.status(run) == "COMPLETED"
    assert not Timer.objects.filter(workflow_id=run).exists()


def test_in_progress_puts_the_task_back_and_replaces_its_output() -> None:
    run, queue = ready()
    (task,) = flows.lease(queue)
    assert send(task, "IN_PROGRESS", output={"step": 1, "kept": True})
    (task,) = flows.lease(queue)
    assert (task.poll_count, task.output) == (2, {"step": 1, "kept": True})
    assert send(task, "IN_PROGRESS", output={"step": 2}, callback_seconds=3600)
    assert flows.lease(queue) == []
    with transaction():
        QueuedTask.sql.make_visible(run)
    (task,) = flows.lease(queue)
    assert (task.poll_count, task.output) == (3, {"step": 2})
    assert send(task, "IN_PROGRESS")
    (task,) = flows.lease(queue)
    assert task.output == {"step": 2}, "no output in a report keeps what there was"
    assert HistoryEvent.objects.filter(workflow_id=run, type__startswith="task.").count() == 1, "only the scheduling"


@pytest.mark.parametrize("with_token", [True, False])
def test_extending_moves_the_response_deadline_and_nothing_else(with_token: bool) -> None:
    run, queue = ready(responseTimeoutSeconds=30, timeoutSeconds=100)
    (task,) = flows.lease(queue)
    assert send(task, "IN_PROGRESS", output={"kept": True})
    (task,) = flows.lease(queue, worker_id="w")
    before, answer, row = timer_kinds(run), respond_by(run), Task.objects.values().get(id=task.id)
    lease = QueuedTask.objects.get(id=task.id)
    token = task.lease_token if with_token else None
    assert send(task, "IN_PROGRESS", extend=True, lease_token=token, worker_id="w", output={"lost": True})
    after = timer_kinds(run)
    assert respond_by(run) > answer
    assert after["TASK"].due_at == before["TASK"].due_at
    assert QueuedTask.objects.get(id=task.id).lease_expires_at > lease.lease_expires_at
    assert {**Task.objects.values().get(id=task.id), "updated_at": None} == {**row, "updated_at": None}


def test_a_renewal_names_the_leases_that_are_still_held() -> None:
    _, queue = ready()
    _run, other = ready()
    (kept,), (ended,) = flows.lease(queue), flows.lease(other)
    assert send(ended, "COMPLETED")
    leases = [(task.id, task.lease_token) for task in (kept, ended)]
    assert dispatching.renew_leases(leases) == {kept.id}


def test_a_released_task_can_be_leased_at_once() -> None:
    run, queue = ready(responseTimeoutSeconds=30)
    (task,) = flows.lease(queue)
    dispatching.release_tasks([(task.id, task.lease_token)])
    assert timer_kinds(run) == {}
    (again,) = flows.lease(queue)
    assert again.id == task.id and again.lease_token != task.lease_token


def test_a_lease_lasts_as_long_as_the_response_may_take() -> None:
    _, queue = ready(responseTimeoutSeconds=3000)
    (task,) = flows.lease(queue)
    left = QueuedTask.objects.get(id=task.id).lease_expires_at - task.updated_at
    assert left == timedelta(seconds=3000)


@pytest.mark.invariant("INV-7a")
def test_an_expired_lease_is_handed_out_again_and_not_for_ever(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "MAX_REDELIVERIES": 2}
    _run, queue = ready(retryCount=1, retryDelaySeconds=0)
    seen = set()
    for _ in range(3):
        (task,) = flows.lease(queue)
        seen.add((task.id, task.lease_token))
        assert dispatching.reclaim_next_batch() == 0, "it has not expired"
        expire(task)
        assert dispatching.reclaim_next_batch() == 1
    assert len({task for task, _ in seen}) == 1 and len(seen) == 3
    row = Task.objects.get(id=task.id)
    assert (row.status, row.cause) == ("TIMED_OUT", "REDELIVERIES")
    assert not QueuedTask.objects.filter(id=task.id).exists()
    flows.drain()
    (retry,) = flows.lease(queue)
    assert (retry.attempt, retry.retried_task_id) == (1, task.id)


@pytest.mark.invariant("INV-13")
def test_an_attempt_that_cannot_be_ended_does_not_hold_up_the_others(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "MAX_REDELIVERIES": 0}
    queue = flows.unique("q")
    name = flows.register(flows.simple("a", queue))
    for _ in range(3):
        flows.start(name)
    flows.drain()
    tasks = flows.lease_all(queue, 3)
    poison = tasks[0].id
    expire(*tasks)
    real = leasing.end_tasks

    def end_tasks(ends: Sequence[TaskEnd]) -> list[EndedTask]:
        if ends[0].id == poison:
            raise ValueError("poison")
        return real(ends)

    with monkeypatch.context() as patch:
        patch.setattr(leasing, "end_tasks", end_tasks)
        assert dispatching.reclaim_next_batch() == 2
        assert QueuedTask.sql.peek_expired(batch=1) == [], "the poison leaves the head of the line"
    assert {task.id: Task.objects.get(id=task.id).status for task in tasks} == {
        poison: "IN_PROGRESS", tasks[1].id: "TIMED_OUT", tasks[2].id: "TIMED_OUT",
    }  # fmt: skip
    expire(tasks[0])
    assert dispatching.reclaim_next_batch() == 1


def test_an_unknown_task_is_not_found_and_nothing_of_its_batch_is_applied() -> None:
    run, queue = ready()
    (task,) = flows.lease(queue)
    good = TaskReport(task.id, run, "COMPLETED", lease_token=task.lease_token)
    with pytest.raises(NotFound):
        dispatching.report([good, TaskReport(new_id(), None, "COMPLETED")], strict=False)
    with pytest.raises(NotFound):
        dispatching.report([TaskReport(task.id, new_id(), "COMPLETED", lease_token=task.lease_token)], strict=False)
    assert Task.objects.get(id=task.id).status == "IN_PROGRESS"


def test_a_task_named_twice_in_a_batch_takes_its_turns_in_order() -> None:
    run, queue = ready()
    (task,) = flows.lease(queue)
    beat = TaskReport(task.id, run, "IN_PROGRESS", lease_token=task.lease_token, extend=True)
    done = TaskReport(task.id, run, "COMPLETED", lease_token=task.lease_token, output={"x": 1})
    outcomes = dispatching.report([beat, done, done], strict=False)
    assert [outcome.applied for outcome in outcomes] == [True, True, False]
    assert Task.objects.get(id=task.id).output == {"x": 1}


def test_one_refusal_leaves_the_rest_of_its_batch_applied() -> None:
    queue = flows.unique("q")
    name = flows.register(flows.simple("a", queue))
    runs = [flows.start(name) for _ in range(5)]
    flows.drain()
    tasks = flows.lease_all(queue, 5)
    reports = [
        TaskReport(task.id, task.workflow_id, "COMPLETED", lease_token=new_id() if i == 2 else task.lease_token)
        for i, task in enumerate(tasks)
    ]
    assert [outcome.applied for outcome in dispatching.report(reports, strict=False)] == [True, True, False, True, True]
    flows.drain()
    assert sorted(flows.status(run) for run in runs) == ["COMPLETED"] * 4 + ["RUNNING"]


def test_a_report_keeps_a_hundred_lines_at_most() -> None:
    _, queue = ready()
    (task,) = flows.lease(queue)
    assert send(task, "COMPLETED", logs=tuple((f"line {i}", None) for i in range(130)))
    assert len(dispatching.read_logs(task.id)) == 100


def test_polls_are_noted_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(polling, "_recorded", {})
    monkeypatch.setattr(polling.time, "monotonic", lambda: now[0])
    queue = flows.unique("q")
    polling.note_polls(flows.NAMESPACE, [(queue, None), (queue, "d")], "w")
    (first,) = WorkerPoll.objects.filter(queue=queue)
    now[0] += 0.5
    polling.note_polls(flows.NAMESPACE, [(queue, None)], "w")
    assert WorkerPoll.objects.get(queue=queue).last_poll_at == first.last_poll_at
    now[0] += 0.6
    polling.note_polls(flows.NAMESPACE, [(queue, None)], "w")
    assert WorkerPoll.objects.get(queue=queue).last_poll_at > first.last_poll_at


def test_queue_sizes_tell_waiting_from_leased() -> None:
    queue = flows.unique("q")
    name = flows.register(flows.simple("a", queue))
    for _ in range(3):
        flows.start(name)
    flows.drain()
    flows.lease(queue, 1)
    assert dispatching.queue_sizes(flows.NAMESPACE, [queue]) == {queue: (2, 1)}
