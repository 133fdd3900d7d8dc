"""Defects that systems of this kind had: docs/correctness.md says which test answers which."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from structlog.testing import capture_logs

from dispatch.models import QueuedTask
from dispatch.services import dispatching, leasing
from dispatch.services.dispatching import TaskReport
from orchestrator.db.transactions import transaction
from orchestrator.errors import LeaseLost
from outbox.models import OutboxEvent
from outbox.services import relay
from tests import flows
from tests.support import Contender, eventually, race
from workflows.managers.timer import DueTimer
from workflows.models import DecideQueue, Execution, HistoryEvent, Task, Timer
from workflows.services import control, definitions, evaluation, timers

pytestmark = pytest.mark.usefixtures("committed")
HOUR = {"duration": "1 hour"}


def task(type: str, ref: str, **fields: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": type, **fields}


def limited(queue: str, **fields: Any) -> str:
    """A task definition of the queue."""
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue, "retryCount": 0, **fields}])
    return queue


def running(*tasks: dict[str, Any], input: dict[str, Any] | None = None, **fields: Any) -> UUID:
    run = flows.start(flows.register(*tasks, **fields), input)
    flows.drain()
    return run


def test_a_timed_out_task_is_on_no_queue_and_is_not_leased_again() -> None:
    queue = limited(flows.unique("q"), responseTimeoutSeconds=1, timeoutSeconds=1, timeoutPolicy="TIME_OUT_WF")
    run = running(flows.simple("a", queue))
    held = flows.lease(queue)
    eventually(timers.fire_next_batch)
    assert flows.statuses(run) == {"a": "TIMED_OUT"}
    assert not QueuedTask.objects.filter(workflow_id=run).exists()
    assert flows.lease(queue) == []
    flows.drain()
    with pytest.raises(LeaseLost):
        flows.complete(held)
    assert (flows.status(run), flows.statuses(run)) == ("TIMED_OUT", {"a": "TIMED_OUT"})


def test_a_lease_whose_later_step_fails_hands_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = limited(flows.unique("q"), responseTimeoutSeconds=60, timeoutSeconds=90)
    run = running(flows.simple("a", queue))

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a later step fails")

    with monkeypatch.context() as patch:
        patch.setattr(leasing, "NewTimer", fail)
        with pytest.raises(RuntimeError, match="later step"):
            flows.lease(queue)
    assert flows.statuses(run) == {"a": "SCHEDULED"}
    assert [t.ref for t in flows.lease(queue)] == ["a"]


def test_a_sub_workflow_in_a_loop_starts_a_child_in_each_turn() -> None:
    queue = flows.unique("leaf")
    leaf = flows.register(flows.simple("leaf", queue))
    loop = task("DO_WHILE", "l", loopCondition="$.l['iteration'] < 3", loopOver=[flows.child("c", leaf)])
    run = running(loop)
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"
    children = set(Task.objects.filter(workflow_id=run, ref="c").values_list("sub_workflow_id", flat=True))
    assert len(children) == 3
    assert Execution.objects.filter(parent_workflow_id=run, status="COMPLETED").count() == 3


def test_a_child_that_its_own_clock_ends_ends_its_parent() -> None:
    leaf = flows.register(flows.simple("leaf", flows.unique("leaf")), timeoutSeconds=1, timeoutPolicy="TIME_OUT_WF")
    run = running(flows.child("c", leaf))
    eventually(timers.fire_next_batch)
    flows.drain()
    assert Execution.objects.get(parent_workflow_id=run).status == "TIMED_OUT"
    assert flows.status(run) == "TIMED_OUT", "every end of a child is told"


def test_a_run_that_its_clock_ends_leaves_nothing_alive() -> None:
    queue = flows.unique("q")
    leaf = flows.register(flows.simple("leaf", queue))
    branches = [[flows.simple("a", queue)], [task("WAIT", "w", inputParameters=HOUR)], [flows.child("c", leaf)]]
    run = running(*flows.fork("f", *branches), timeoutSeconds=1, timeoutPolicy="TIME_OUT_WF")
    eventually(timers.fire_next_batch)
    flows.drain()
    assert flows.status(run) == "TIMED_OUT"
    assert Execution.objects.get(parent_workflow_id=run).status == "TERMINATED"
    assert not QueuedTask.objects.exists()
    assert not Timer.objects.exists()
    assert not Task.objects.filter(ended_at=None).exists()


@pytest.mark.parametrize("kind", ["HTTP", "HUMAN", "WAIT", "SUB_WORKFLOW", "DYNAMIC", "SIMPLE"])
def test_a_retry_of_the_run_brings_every_kind_of_task_back_whole(kind: str) -> None:
    queue, bad = flows.unique("q"), flows.unique("bad")
    leaf = flows.register(flows.simple("leaf", queue))
    made = {
        "HTTP": task("HTTP", "k", inputParameters={"http_request": {"uri": "http://127.0.0.1:9/", "method": "GET"}}),
        "HUMAN": task("HUMAN", "k"),
        "WAIT": task("WAIT", "k", inputParameters=HOUR),
        "SUB_WORKFLOW": flows.child("k", leaf),
        "DYNAMIC": task("DYNAMIC", "k", dynamicTaskNameParam="n", inputParameters={"n": queue}),
        "SIMPLE": flows.simple("k", queue),
    }[kind]
    run = running(*flows.fork("f", [made], [flows.simple("bad", bad)]))
    before = shape(run)
    flows.complete(flows.lease(bad), status="FAILED_WITH_TERMINAL_ERROR")
    flows.drain()
    assert (flows.status(run), flows.statuses(run)["k"]) == ("FAILED", "CANCELED")
    control.retry(flows.NAMESPACE, run, actor="ann")
    flows.drain()
    assert flows.status(run) == "RUNNING"
    assert shape(run) == before


def shape(run: UUID) -> dict[str, Any]:
    """What the open task `k` has: its type, queue, deadlines, and whether its child runs."""
    found = Task.objects.get(workflow_id=run, ref="k", ended_at=None)
    queued = QueuedTask.objects.filter(id=found.id).values_list("queue", flat=True)
    children = Execution.objects.filter(id=found.sub_workflow_id).values_list("status", flat=True)
    kinds = Timer.objects.filter(task_id=found.id).values_list("kind", flat=True)
    return {
        "type": found.type, "status": found.status, "queue": list(queued), "timers": sorted(kinds),
        "child": list(children),
    }  # fmt: skip


@pytest.mark.invariant("INV-13")
def test_fifty_poisonous_runs_do_not_hold_up_a_good_one(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = flows.unique("q")
    name = flows.register(flows.simple("a", queue))
    poison = {flows.start(name) for _ in range(50)}
    good = flows.start(name)
    real = evaluation.apply_decisions

    def apply(decided: list[evaluation.Decided]) -> set[UUID]:
        if any(item.run.id in poison for item in decided):
            raise ValueError("poison")
        return real(decided)

    monkeypatch.setattr(evaluation, "apply_decisions", apply)
    with capture_logs():  # fifty traces are slow to print
        for _ in range(5):
            evaluation.evaluate_next_batch()
            if flows.statuses(good):
                break
        flows.complete(flows.lease(queue))
        eventually(lambda: [evaluation.evaluate_next_batch(), flows.status(good) == "COMPLETED"][1])
    assert all(row.attempts >= 1 for row in DecideQueue.objects.filter(workflow_id__in=poison))


@pytest.mark.invariant("INV-13")
def test_a_poisonous_timer_does_not_hold_up_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = task("WAIT", "w", inputParameters={"duration": "1 second"})
    poison, good = running(wait), running(wait)
    real = timers._fire

    def fire(timer: DueTimer) -> None:
        if timer.workflow_id == poison:
            raise ValueError("poison")
        real(timer)

    monkeypatch.setattr(timers, "_fire", fire)
    eventually(lambda: timers.fire_next_batch() or flows.statuses(good)["w"] == "COMPLETED")
    eventually(lambda: (timers.fire_next_batch(), Timer.objects.get(workflow_id=poison).attempts)[1])
    flows.drain()
    assert (flows.status(good), flows.status(poison)) == ("COMPLETED", "RUNNING")


@pytest.mark.invariant("INV-5")
def test_a_relay_that_dies_in_a_handler_has_counted_the_attempt() -> None:
    class Killed(BaseException):
        """Stands for a process that goes away without a word."""

    def die(event: object) -> None:
        raise Killed

    run = flows.start(flows.register(flows.child("c", flows.register(flows.simple("leaf")))))
    evaluation.evaluate_next_batch()
    handler = relay.unregister("workflow.start_child")
    assert handler is not None
    relay.register("workflow.start_child", die)
    try:
        with pytest.raises(Killed):
            relay.deliver_next_batch()
    finally:
        relay.register("workflow.start_child", handler)
    event = OutboxEvent.objects.get()
    assert (event.attempts, event.delivered_at) == (1, None)
    assert flows.status(run) == "RUNNING"


@pytest.mark.invariant("INV-6c")
def test_a_users_key_that_reads_like_a_childs_takes_nothing_from_it() -> None:
    queue = flows.unique("leaf")
    leaf = flows.register(flows.simple("leaf", queue))
    run = flows.start(flows.register(flows.child("c", leaf)))
    evaluation.evaluate_next_batch()
    (event,) = OutboxEvent.objects.all()
    for key in (str(event.id), str(Task.objects.get(workflow_id=run).id), f"{run}:c::0", f"{run}:c:0"):
        flows.start(leaf, idempotency_key=key, idempotency_strategy="RETURN_EXISTING")
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"
    assert Execution.objects.filter(parent_workflow_id=run).count() == 1


@pytest.mark.parametrize("chosen", ["one", "two", "none"])
@pytest.mark.invariant("INV-6d")
def test_what_follows_a_switch_has_its_effect_once(chosen: str) -> None:
    queue = flows.unique("q")
    leaf = flows.register(flows.simple("leaf", flows.unique("leaf")))
    switch = task(
        "SWITCH", "s", evaluatorType="value-param", expression="v", inputParameters={"v": "${workflow.input.v}"},
        decisionCases={"one": [flows.simple("x", queue)], "two": [flows.simple("y", queue), flows.simple("z", queue)]},
    )  # fmt: skip
    start = task("START_WORKFLOW", "e", inputParameters={"startWorkflow": {"name": leaf, "input": {}}})
    run = running(switch, start, input={"v": chosen})
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"
    assert Execution.objects.filter(name=leaf).count() == 1
    assert Task.objects.filter(workflow_id=run, ref="e").count() == 1


@pytest.mark.parametrize("chosen", ["one", "two"])
def test_an_event_behind_a_switch_is_published_once(chosen: str) -> None:
    queue = flows.unique("q")
    switch = task(
        "SWITCH", "s", evaluatorType="value-param", expression="v", inputParameters={"v": "${workflow.input.v}"},
        decisionCases={"one": [flows.simple("x", queue)], "two": [flows.simple("y", queue), flows.simple("z", queue)]},
    )  # fmt: skip
    run = running(switch, task("EVENT", "e", sink="conductor:done"), input={"v": chosen})
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"
    published = OutboxEvent.objects.filter(topic="event.published")
    assert [event.payload["payload"]["workflowInstanceId"] for event in published] == [str(run)]


@pytest.mark.invariant("INV-7b")
def test_a_deadline_against_a_completion_ends_the_task_once() -> None:
    queue = limited(flows.unique("q"), responseTimeoutSeconds=1, timeoutSeconds=1, timeoutPolicy="TIME_OUT_WF")
    name = flows.register(flows.simple("a", queue))
    runs = [flows.start(name) for _ in range(8)]
    flows.drain()
    held = flows.lease_all(queue, len(runs))
    eventually(lambda: Timer.objects.filter(workflow_id__in=runs, due_at__lt=timezone.now()).count() >= len(runs))

    def act(number: int) -> int:
        if number < len(held):
            with suppress(LeaseLost):
                flows.complete([held[number]])
            return 0
        return timers.fire_next_batch() + dispatching.reclaim_next_batch()

    outcomes = race(len(held) + 4, act)
    assert [outcome for outcome in outcomes if isinstance(outcome, BaseException)] == []
    flows.drain()
    for run in runs:
        ended = list(
            HistoryEvent.objects.filter(workflow_id=run, type__startswith="task.").values_list("type", flat=True)
        )
        assert sum(type in ("task.completed", "task.timed_out") for type in ended) == 1, ended
        assert flows.status(run) in ("COMPLETED", "TIMED_OUT")


def test_a_result_without_output_keeps_what_was_reported_on_the_way() -> None:
    queue = flows.unique("q")
    run = running(flows.simple("a", queue))
    (held,) = flows.lease(queue)
    way = TaskReport(held.id, run, "IN_PROGRESS", lease_token=held.lease_token, output={"part": 1})
    dispatching.report([way], strict=True)
    (held,) = flows.lease_all(queue, 1)
    dispatching.report([TaskReport(held.id, run, "COMPLETED", lease_token=held.lease_token)], strict=True)
    assert Task.objects.get(workflow_id=run).output == {"part": 1}


def test_a_run_that_completers_keep_busy_is_waited_for(settings: Any) -> None:
    """A pass that only skips what is locked would never find it free."""
    settings.OSTINATO = {**settings.OSTINATO, "DECIDE_MAX_SKIP_SECONDS": 0.0}
    queue = flows.unique("q")
    run = running(flows.simple("a", queue))
    with transaction():
        DecideQueue.sql.enqueue([run])
    with transaction():
        DecideQueue.sql.enqueue([run])
        waiting = Contender(evaluation.evaluate_next_batch).until_blocked()
    assert waiting.result() == 1
    assert not DecideQueue.objects.filter(workflow_id=run).exists()
