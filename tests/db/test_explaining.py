"""Why a run is not moving: each reason, in a state that real services made (or lost)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from dispatch.managers import ExpiredLease
from dispatch.models import QueuedTask
from dispatch.services import limiting, polling
from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import NotFound
from orchestrator.runtime.metrics import render
from outbox.services import events, relay
from tests import flows
from tests.api.client import Caller, demo_api  # noqa: F401  (a fixture)
from tests.support import Contender, eventually
from workflows.models import DecideQueue, HistoryEvent, Task, Timer
from workflows.services import control, definitions, evaluation, measuring, quarantine, timers
from workflows.services.explaining import Code, Reason, explain
from workflows.services.sweeping import sweep

pytestmark = pytest.mark.usefixtures("committed")


def why(run: UUID) -> dict[Code, Reason]:
    return {reason.code: reason for reason in explain(flows.NAMESPACE, run).reasons}


def only(run: UUID) -> Reason:
    (reason,) = explain(flows.NAMESPACE, run).reasons
    return reason


def wait(ref: str = "w", **inputs: str) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": "WAIT", "inputParameters": inputs}


def queued(**fields: Any) -> tuple[UUID, str]:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue, **fields)))
    flows.drain()
    return run, queue


def quarantine_run(run: UUID) -> None:
    with transaction():
        DecideQueue.sql.enqueue([run])
    for _ in range(2):
        with transaction():
            DecideQueue.sql.record_failure(run, "ValueError: rotten", max_attempts=2)


def quarantine_timer(run: UUID) -> UUID:
    timer = Timer.objects.get(workflow_id=run)
    with transaction():
        Timer.sql.record_failure(timer.id, "ValueError: stopped clock", max_attempts=1)
    return UUID(str(timer.id))


def test_a_run_that_nobody_works_for_names_the_queue_and_when_it_was_last_asked() -> None:
    run, queue = queued()
    reason = only(run)
    assert (reason.code, reason.ref) == (Code.NO_WORKER, "a")
    assert reason.message == f"The task a waits in the queue {queue} for a worker: nobody has ever asked for it."
    polling.note_polls(flows.NAMESPACE, [(queue, None)], "w1")
    reason = only(run)
    assert reason.code is Code.QUEUED and "where 1 tasks wait" in reason.message


def test_a_domain_has_pollers_of_its_own() -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue)), task_to_domain={queue: "blue"})
    flows.drain()
    polling.note_polls(flows.NAMESPACE, [(queue, None)], "w1")
    assert only(run).code is Code.NO_WORKER
    polling.note_polls(flows.NAMESPACE, [(queue, "blue")], "w2")
    assert only(run).code is Code.QUEUED


def test_a_held_task_names_its_holder_and_until_when() -> None:
    run, queue = queued()
    (task,) = flows.lease(queue, worker_id="w7")
    reason = only(run)
    until = QueuedTask.objects.get(id=task.id).lease_expires_at
    assert (reason.code, reason.until) == (Code.LEASED, until)
    assert "w7 holds the task a until" in reason.message
    with transaction():
        QueuedTask.sql.put_off(ExpiredLease(task.id, task.workflow_id, task.lease_token, 0, False), seconds=-90)
    reason = only(run)
    assert reason.code is Code.LEASE_EXPIRED and "ended 1 min 30 s ago" in reason.message


def test_a_delay_says_until_when() -> None:
    run, _ = queued(startDelay=60)
    reason = only(run)
    assert reason.code is Code.DELAYED and reason.until is not None


def test_a_wait_says_until_when_or_what_for() -> None:
    run = flows.start(flows.register(*flows.fork("f", [wait("timed", duration="1h")], [wait("open")])))
    flows.drain()
    found = why(run)
    assert found[Code.TIMER].until == Timer.objects.get(workflow_id=run).due_at
    assert (found[Code.TIMER].ref, found[Code.SIGNAL].ref) == ("timed", "open")
    assert found[Code.JOINS].message == "The task f_join waits for 2 branches."
    assert not explain(flows.NAMESPACE, run).bugs


def test_a_timer_that_fails_is_named_and_one_put_aside_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    run = flows.start(flows.register(wait(duration="1s")))
    flows.drain()
    with monkeypatch.context() as patch:
        patch.setattr(timers, "_fire", _raise)
        eventually(lambda: timers.fire_next_batch() == 0 and Timer.objects.get(workflow_id=run).attempts)
    assert "stopped clock" in why(run)[Code.TIMER_FAILED].message
    timer = quarantine_timer(run)
    reason = only(run)
    assert (reason.code, reason.timer_id) == (Code.TIMER_QUARANTINED, timer)
    assert [row.id for row in quarantine.timers(flows.NAMESPACE)] == [timer]
    quarantine.release_timer(flows.NAMESPACE, timer, actor="olga")
    assert timers.fire_next_batch() == 1
    flows.drain()
    assert flows.status(run) == "COMPLETED"
    assert HistoryEvent.objects.filter(workflow_id=run, type="timer.released").count() == 1
    with pytest.raises(NotFound):
        quarantine.release_timer(flows.NAMESPACE, timer, actor="olga")


def _raise(timer: object) -> None:
    raise ValueError("stopped clock")


def test_the_states_of_the_run_itself() -> None:
    run, _ = queued()
    control.pause(flows.NAMESPACE, run, actor="olga")
    assert next(iter(why(run))) is Code.PAUSED
    control.resume(flows.NAMESPACE, run, actor="olga")
    assert list(why(run)) == [Code.DECIDE_DUE, Code.NO_WORKER]
    flows.drain()
    control.terminate(flows.NAMESPACE, run, actor="olga", reason="enough")
    reason = only(run)
    assert (reason.code, reason.message) == (Code.ENDED, "The run has ended TERMINATED: enough")
    with pytest.raises(NotFound):
        explain("elsewhere", run)


@pytest.mark.invariant("INV-13")
def test_a_run_put_aside_shows_its_error_is_listed_and_released() -> None:
    run, queue = queued()
    with transaction():
        DecideQueue.sql.enqueue([run])
        DecideQueue.sql.record_failure(run, "ValueError: rotten", max_attempts=9)
    assert "rotten" in why(run)[Code.DECIDE_FAILED].message
    quarantine_run(run)
    assert "rotten" in why(run)[Code.QUARANTINED].message
    assert [(row.id, row.error) for row in quarantine.runs(flows.NAMESPACE)] == [(run, "ValueError: rotten")]
    assert quarantine.runs("elsewhere") == []
    control.nudge(flows.NAMESPACE, run, actor="olga")
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"


def test_a_sub_workflow_is_explained_from_its_start_to_its_end() -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.child("c", flows.register(flows.simple("leaf", queue)))))
    evaluation.evaluate_next_batch()
    child = Task.objects.get(workflow_id=run).sub_workflow_id
    handler = relay.unregister("workflow.start_child")
    assert handler is not None
    try:
        assert (only(run).code, only(run).related) == (Code.CHILD_STARTING, child)
        relay.deliver_next_batch()
        assert "no handler" in why(run)[Code.DELIVERY_FAILED].message
    finally:
        relay.register("workflow.start_child", handler)
    (event,) = relay.OutboxEvent.objects.all()
    assert why(run)[Code.DELIVERY_FAILED].event_id == event.id
    handler(event)
    reason = only(run)
    assert (reason.code, reason.related) == (Code.CHILD, child)
    assert "which is RUNNING" in reason.message
    flows.drain()
    assert only(UUID(str(child))).code is Code.NO_WORKER


def test_a_dead_letter_is_named_and_can_be_replayed(settings: Any, api: Caller) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "OUTBOX_MAX_ATTEMPTS": 1}
    run = flows.start(flows.register(flows.child("c", flows.register(flows.simple("leaf")))), namespace="default")
    evaluation.evaluate_next_batch()
    handler = relay.unregister("workflow.start_child")
    assert handler is not None
    try:
        relay.deliver_next_batch()
    finally:
        relay.register("workflow.start_child", handler)
    (reason,) = api.json("get", f"workflow/{run}/explain")["reasons"]
    assert reason["code"] == "DELIVERY_DEAD"
    listed = api.json("get", "quarantine")
    assert [event["id"] for event in listed["events"]] == [reason["eventId"]]
    stranger = str(new_id())
    answer = api.json("post", "quarantine", {"events": [reason["eventId"], stranger]})
    assert answer == {"released": [reason["eventId"]], "errors": {stranger: "There is no such dead letter"}}
    flows.drain()
    (reason,) = api.json("get", f"workflow/{run}/explain")["reasons"]
    assert (reason["code"], reason["taskReferenceName"]) == ("CHILD", "c")


@contextmanager
def dying(topic: str, settings: Any) -> Iterator[None]:
    """Events of a topic become dead letters at once."""
    before = settings.OSTINATO
    settings.OSTINATO = {**before, "OUTBOX_MAX_ATTEMPTS": 1}
    handler = relay.unregister(topic)
    assert handler is not None
    try:
        yield
    finally:
        relay.register(topic, handler)
        settings.OSTINATO = before


def tell(**fields: Any) -> dict[str, Any]:
    return {"name": "tell", "taskReferenceName": "tell", "type": "EVENT", "sink": "conductor:ping", **fields}


@pytest.mark.parametrize("topic", ["event.published", "event.action"])
def test_an_event_that_died_is_named_by_the_task_that_waits_and_can_be_replayed(
    topic: str, settings: Any, api: Caller
) -> None:
    name = flows.register(tell(asyncComplete=True))
    event = f"conductor:{name}:ping"
    ending = {"action": "complete_task", "complete_task": {"workflowId": "${workflowInstanceId}", "taskRefName": "tell"}}
    events.register("default", {"name": name, "event": event, "actions": [ending], "active": True})
    with dying(topic, settings):
        run = flows.start(name, namespace="default")
        flows.drain()
    (reason,) = api.json("get", f"workflow/{run}/explain")["reasons"]
    assert (reason["code"], reason["taskReferenceName"]) == ("DELIVERY_DEAD", "tell")
    assert event in reason["message"] and "no handler is registered" in reason["message"]
    assert reason["eventId"] in reason["action"] and "replay" in reason["action"]
    assert api.json("post", "quarantine", {"events": [reason["eventId"]]})["released"] == [reason["eventId"]]
    flows.drain()
    assert [reason["code"] for reason in api.json("get", f"workflow/{run}/explain")["reasons"]] == ["ENDED"]


def test_an_event_that_died_is_named_though_nothing_waits_for_it(settings: Any) -> None:
    queue = flows.unique("q")
    with dying("event.published", settings):
        run = flows.start(flows.register(tell(), flows.simple("after", queue)))
        flows.drain()
    assert list(why(run)) == [Code.NO_WORKER, Code.DELIVERY_DEAD]
    flows.finish([queue])
    assert list(why(run)) == [Code.ENDED, Code.DELIVERY_DEAD]
    relay.replay()
    flows.drain()
    assert only(run).code is Code.ENDED


def test_an_event_that_died_hides_no_lost_wake_up(settings: Any) -> None:
    queue = flows.unique("q")
    with dying("event.published", settings):
        run = flows.start(flows.register(tell(), flows.simple("after", queue)))
        flows.drain()
    flows.complete(flows.lease(queue))
    with transaction():
        DecideQueue.sql.discard([run])
    assert list(why(run)) == [Code.NOTHING_WAKES_IT, Code.DELIVERY_DEAD]


def test_what_was_put_aside_is_listed_released_and_counted(api: Caller) -> None:
    run, _ = queued()
    quarantine_run(run)
    waiting = flows.start(flows.register(wait(duration="1h")))
    flows.drain()
    timer = quarantine_timer(waiting)
    measuring.measure()
    for kind in ("run", "timer"):
        assert f'ostinato_quarantined{{kind="{kind}"}} 1.0'.encode() in render()
    listed = api.json("get", "quarantine")
    assert [(row["id"], row["kind"]) for row in listed["runs"]] == [(str(run), "RUN")]
    assert [(row["id"], row["workflowId"]) for row in listed["timers"]] == [(str(timer), str(waiting))]
    answer = api.json("post", "quarantine", {"runs": [str(run)], "timers": [str(timer), str(run)]})
    assert answer["released"] == [str(run), str(timer)]
    assert list(answer["errors"]) == [str(run)]
    measuring.measure()
    assert b'ostinato_quarantined{kind="run"} 0.0' in render()
    for body in ({}, {"runs": "x"}, {"timers": ["nonsense"]}, {"events": [1]}):
        api.refused("post", "quarantine", body)
    api.refused("get", f"workflow/{new_id()}/explain", status=404)
    api.refused("get", "workflow/nonsense/explain", status=404)


def test_the_command_lists_and_releases() -> None:
    run, _ = queued()
    quarantine_run(run)
    out = StringIO()
    call_command("quarantine", stdout=out)
    assert f"{run}" in out.getvalue() and "1 put aside" in out.getvalue()
    with pytest.raises(CommandError):
        call_command("quarantine", "--release", str(new_id()), stdout=out)
    call_command("quarantine", "--release", "--all", stdout=out)
    assert not DecideQueue.objects.get(workflow_id=run).quarantined


def limited(**policy: Any) -> tuple[UUID, UUID, str]:
    """Two runs of one limited task: the first has it handed out, the second waits."""
    queue = flows.unique("q")
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue, **policy}])
    name = flows.register(flows.simple("a", queue))
    first, second = flows.start(name), flows.start(name)
    flows.drain()
    polling.note_polls(flows.NAMESPACE, [(queue, None)], "w1")
    (task,) = flows.lease(queue, worker_id="w1")
    assert (task.workflow_id, flows.lease(queue)) == (first, [])
    return first, second, queue


def test_a_limit_of_tasks_in_hand_is_named() -> None:
    first, second, _ = limited(concurrentExecLimit=1)
    reason = only(second)
    assert (reason.code, "1 of at most 1 are in flight" in reason.message) == (Code.LIMITED, True)
    assert only(first).code is Code.LEASED


def test_a_limit_of_tasks_in_a_time_is_named() -> None:
    _, second, _ = limited(rateLimitPerFrequency=1, rateLimitFrequencyInSeconds=600)
    reason = only(second)
    assert reason.code is Code.LIMITED and "1 of at most 1 were handed out in these 600 s" in reason.message


def test_the_holder_of_a_semaphore_is_named() -> None:
    semaphore = flows.unique("sem")
    limiting.put_semaphore(flows.NAMESPACE, semaphore, 1)
    first, second, _ = limited(semaphores=[semaphore])
    reason = only(second)
    assert reason.code is Code.SEMAPHORE
    assert f"it wants 1 of {semaphore}, which has 0 of 1 free (held by task" in reason.message
    assert f"of run {first} until" in reason.message


def test_a_run_that_waits_for_its_turn_says_so() -> None:
    name = flows.register(flows.simple("a"), rateLimitConfig={"rateLimitKey": "one", "concurrentExecLimit": 1})
    flows.start(name)
    waiting = flows.start(name)
    flows.drain()
    assert Code.NOT_ADMITTED in why(waiting)
    assert not explain(flows.NAMESPACE, waiting).bugs


# What must never be: the row that would wake a run is taken away behind the engine's back.


def lose_request() -> UUID:
    run = flows.start(flows.register(flows.simple("a")))
    with transaction():
        DecideQueue.sql.discard([run])
    return run


def lose_queue_row() -> UUID:
    run, _ = queued()
    with transaction():
        QueuedTask.sql.delete_for_runs([run])
    return run


def lose_timer() -> UUID:
    run = flows.start(flows.register(wait(duration="1h")))
    flows.drain()
    with transaction():
        Timer.sql.delete_for_runs([run])
    return run


@pytest.mark.parametrize(
    ("lose", "code"),
    [
        (lose_request, Code.NOTHING_WAKES_IT),
        (lose_queue_row, Code.NO_QUEUE_ROW),
        (lose_timer, Code.TIMER_LOST),
    ],
)
def test_the_sweeper_finds_what_explain_calls_a_bug_and_says_it_in_the_same_words(
    lose: Any, code: Code, settings: Any
) -> None:
    sound, _ = queued()
    run = lose()
    reason = only(run)
    assert reason.code is code and code.is_bug
    assert sweep() == 0, "it has not been idle for long"
    settings.OSTINATO = {**settings.OSTINATO, "STUCK_SECONDS": 0.0}
    assert sweep() == 1
    assert DecideQueue.objects.filter(workflow_id=run).exists()
    (event,) = HistoryEvent.objects.filter(type="workflow.swept")
    assert (event.workflow_id, event.data["codes"]) == (run, [code.value])
    assert reason.message in event.data["message"]
    assert not DecideQueue.objects.filter(workflow_id=sound).exists()


def test_a_deadline_of_the_run_hides_no_lost_wake_up(settings: Any) -> None:
    run = flows.start(flows.register(flows.simple("a"), timeoutSeconds=3600))
    with transaction():
        DecideQueue.sql.discard([run])
    settings.OSTINATO = {**settings.OSTINATO, "STUCK_SECONDS": 0.0}
    assert sweep() == 1


def test_an_answer_locks_nothing_and_is_bounded() -> None:
    queue = flows.unique("q")
    branches = [[flows.simple(f"b{i}", queue)] for i in range(250)]
    run = flows.start(flows.register(*flows.fork("f", *branches)))
    flows.drain()
    found = explain(flows.NAMESPACE, run)
    assert found.more and len(found.reasons) == 200
    with transaction():
        DecideQueue.sql.enqueue([run])
        QueuedTask.sql.delete_for_runs([run])
        assert flows_elsewhere(lambda: explain(flows.NAMESPACE, run)).more


def flows_elsewhere(body: Any) -> Any:
    """The answer of another connection while ours holds locks."""

    assert connections["default"].in_atomic_block
    return Contender(body).result()


def test_workers_of_the_system_are_known_to_every_namespace() -> None:
    inline = {
        "name": "i", "taskReferenceName": "i", "type": "INLINE",
        "inputParameters": {"evaluatorType": "javascript", "expression": "1"},
    }  # fmt: skip
    definitions.register("north", {"name": "n", "version": 1, "tasks": [inline]}, overwrite=True)
    run = flows.start("n", namespace="north")
    flows.drain()
    assert [reason.code for reason in explain("north", run).reasons] == [Code.NO_WORKER]
    polling.note_polls("", [("INLINE", None)], "sys")
    assert [reason.code for reason in explain("north", run).reasons] == [Code.QUEUED]
