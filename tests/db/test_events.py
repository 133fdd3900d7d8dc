"""Events: published with their task, delivered at least once, acted on once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import Conflict, IllegalState, Invalid, NotFound
from orchestrator.models import AuditEntry
from outbox.managers_events import NewEventExecution, StoredEventExecution
from outbox.models import EventExecution, OutboxEvent
from outbox.services import events, relay
from tests import flows
from tests.support import race
from workflows.models import Execution, Task
from workflows.services import definitions
from workflows.services.events import act

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE


def emit(ref: str = "tell", sink: str = "conductor:ping", **fields: Any) -> dict[str, Any]:
    """An EVENT task."""
    return {
        "name": ref, "taskReferenceName": ref, "type": "EVENT", "sink": sink,
        "inputParameters": {"msg": "${workflow.input.m}"}, **fields,
    }  # fmt: skip


def handle(event: str, *actions: dict[str, Any], **fields: Any) -> str:
    """Register an active handler; returns its name."""
    name = flows.unique("handler")
    events.register(NS, {"name": name, "event": event, "actions": list(actions), "active": True, **fields})
    return name


def action(kind: str, **body: Any) -> dict[str, Any]:
    return {"action": kind, kind: body}


def outcomes(handler: str) -> list[tuple[str, str]]:
    found = events.find_executions(NS, handler=handler)
    return sorted((one.action, one.status) for one in found)


def started(name: str) -> list[Execution]:
    return list(Execution.objects.filter(name=name))


def test_a_task_tells_a_handler_which_starts_a_run_with_its_message() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    source = flows.register(emit(), flows.simple("after", flows.unique("q")))
    body = {
        "name": target,
        "version": 1,
        "correlationId": "${msg}",
        "input": {"got": "${msg}", "run": "${workflowInstanceId}"},
    }
    handler = handle(f"conductor:{source}:ping", action("start_workflow", **body))
    run = flows.start(source, {"m": "hi"})
    flows.drain()
    assert flows.statuses(run) == {"tell": "COMPLETED", "after": "SCHEDULED"}
    (begun,) = started(target)
    assert begun.correlation_id == "hi"
    assert (begun.input["got"], begun.input["run"]) == ("hi", str(run))
    assert begun.input["conductor.event.name"] == f"conductor:{source}:ping"
    (done,) = events.find_executions(NS, handler=handler)
    assert (done.status, done.output, done.message_id) == (
        "COMPLETED", {"workflowId": str(begun.id)}, begun.input["conductor.event.messageId"],
    )  # fmt: skip


def test_a_plain_sink_is_named_after_its_task_and_an_expression_is_resolved() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    source = flows.register(emit("a", "conductor"), emit("b", "conductor:${workflow.input.m}"))
    for event in (f"conductor:{source}:a", f"conductor:{source}:hello"):
        handle(event, action("start_workflow", name=target))
    flows.start(source, {"m": "hello"})
    flows.drain()
    assert len(started(target)) == 2


def test_a_task_that_is_complete_elsewhere_stays_open_and_tells_once() -> None:
    source = flows.register(emit(asyncComplete=True))
    run = flows.start(source)
    flows.drain()
    assert flows.statuses(run) == {"tell": "IN_PROGRESS"}
    assert OutboxEvent.objects.filter(topic="event.published").count() == 1


def test_a_sink_that_nobody_serves_is_refused_or_fails_its_task() -> None:
    for sink, said in (("sqs:orders", "conductor"), ("", "needs a sink"), (5, "needs a sink")):
        (problem,) = definitions.check(flows.NAMESPACE, {"name": "x", "version": 1, "tasks": [emit(sink=sink)]})  # type: ignore[arg-type]
        assert problem[0] == "tasks[0].sink"
        assert said in problem[1]
    run = flows.start(flows.register(emit(sink="${workflow.input.m}")), {"m": "kafka:x"})
    flows.drain()
    assert flows.status(run) == "FAILED"
    assert not OutboxEvent.objects.filter(topic="event.published").exists()


def waiting() -> tuple[UUID, str]:
    """A run that waits for a signal, and its reference."""
    run = flows.start(flows.register({"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {}}))
    flows.drain()
    return run, "w"


@pytest.mark.parametrize(("kind", "status"), [("complete_task", "COMPLETED"), ("fail_task", "FAILED")])
def test_an_event_ends_a_task_by_its_reference(kind: str, status: str) -> None:
    run, ref = waiting()
    handler = handle(
        "conductor:x:y",
        action(kind, workflowId="${id}", taskRefName=ref, output={"by": "${who}"}, reasonForIncompletion="no"),
    )
    events.publish(NS, "conductor:x:y", {"id": str(run), "who": "ann"})
    flows.drain()
    assert flows.status(run) == status
    assert outcomes(handler) == [(kind, "COMPLETED")]


def test_an_event_ends_a_task_by_its_id_terminates_and_sets_variables() -> None:
    run, _ = waiting()
    other, _ = waiting()
    task = Task.objects.get(workflow_id=run).id
    handler = handle(
        "conductor:x:y",
        action("complete_task", taskId="${task}"),
        action("update_workflow_variables", workflowId="${other}", variables={"seen": "${task}"}),
        action("terminate_workflow", workflowId="${other}", terminationReason="told to"),
    )
    events.publish(NS, "conductor:x:y", {"task": str(task), "other": str(other)})
    flows.drain()
    assert flows.status(run) == "COMPLETED"
    ended = Execution.objects.get(id=other)
    assert (ended.status, ended.reason) == ("TERMINATED", "told to")
    assert ("terminate_workflow", "COMPLETED") in outcomes(handler)


def test_a_condition_decides_and_a_broken_one_is_reported() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    yes = handle(
        "conductor:x:y", action("start_workflow", name=target), condition="$.status == 'READY' && $.more.n > 1"
    )
    no = handle("conductor:x:y", action("start_workflow", name=target), condition="$.status == 'DONE'")
    broken = handle("conductor:x:y", action("start_workflow", name=target), condition="$.status.a.b.c")
    events.publish(NS, "conductor:x:y", {"status": "READY", "more": '{"n": 2}'})
    flows.drain()
    assert len(started(target)) == 1
    assert outcomes(yes) == [("start_workflow", "COMPLETED")]
    assert outcomes(no) == [("condition", "SKIPPED")]
    assert outcomes(broken) == [("condition", "FAILED")]


def test_a_refusal_is_a_result_and_hurts_no_other_action() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    handler = handle(
        "conductor:x:y",
        action("start_workflow", name="nowhere"),
        action("complete_task", workflowId="00000000-0000-7000-8000-000000000000", taskRefName="w"),
        action("complete_task", taskId="nonsense"),
        action("start_workflow", name=target),
    )
    events.publish(NS, "conductor:x:y", {})
    flows.drain()
    assert len(started(target)) == 1
    assert [status for _, status in outcomes(handler)] == ["FAILED", "FAILED", "COMPLETED", "FAILED"]
    assert all(one.reason for one in events.find_executions(NS, handler=handler) if one.status == "FAILED")
    assert not OutboxEvent.objects.filter(delivered_at=None).exists()


def test_a_task_named_by_its_id_is_ended_and_no_later_one_of_its_reference() -> None:
    """A loop waits under one reference turn by turn; the event names a turn that is over."""
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {}}
    loop = {
        "name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "$.l['iteration'] < 5", "loopOver": [wait],
    }  # fmt: skip
    run = flows.start(flows.register(loop))
    flows.drain()
    first = Task.objects.get(workflow_id=run, ref="w").id
    handler = handle("conductor:x:y", action("complete_task", taskId="${task}"))
    for _ in range(2):
        events.publish(NS, "conductor:x:y", {"task": str(first)})
        flows.drain()
    assert outcomes(handler) == [("complete_task", "COMPLETED"), ("complete_task", "FAILED")]
    assert list(Task.objects.filter(workflow_id=run, ref="w", status="COMPLETED").values_list("id", flat=True)) == [first]


def test_a_task_of_another_run_than_the_one_named_is_not_ended() -> None:
    run, _ = waiting()
    other, _ = waiting()
    task = Task.objects.get(workflow_id=run).id
    handler = handle("conductor:x:y", action("complete_task", taskId="${task}", workflowId=str(other)))
    events.publish(NS, "conductor:x:y", {"task": str(task)})
    flows.drain()
    assert [flows.status(one) for one in (run, other)] == ["RUNNING", "RUNNING"]
    assert outcomes(handler) == [("complete_task", "FAILED")]


UNREADABLE: list[dict[str, Any]] = [
    {"text": '{"a": "\\u0000"}'}, {"text": '{"a": "\\ud800"}'}, {"text": "[" * 100_000}, {"text": '{"a": 1e999}'},
    {"text": "{x"},
]  # fmt: skip


@pytest.mark.parametrize("payload", UNREADABLE, ids=["nul", "surrogate", "deep", "infinite", "no json"])
def test_a_payload_that_one_handler_cannot_read_stops_no_other(payload: dict[str, Any]) -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    body = action("start_workflow", name=target, input={"got": "${text}"})
    expanding = handle("conductor:x:y", {**body, "expandInlineJSON": True})
    careful = handle("conductor:x:y", body, condition="$.text.a !== 1")
    plain = handle("conductor:x:y", body)
    events.publish(NS, "conductor:x:y", payload)
    flows.drain()
    assert outcomes(plain) == [("start_workflow", "COMPLETED")]
    assert len(outcomes(expanding)) == len(outcomes(careful)) == 1
    assert not OutboxEvent.objects.filter(delivered_at=None).exists()


@pytest.mark.parametrize(
    ("kind", "body"), [
        ("start_workflow", {"name": "${missing}"}), ("start_workflow", {"name": "x", "version": "${text}"}),
        ("start_workflow", {"name": "x", "input": "${text}"}), ("terminate_workflow", {"workflowId": "${missing}"}),
        ("complete_task", {"taskId": "${missing}"}), ("update_workflow_variables", {"workflowId": "x", "variables": "${text}"}),
    ],
)  # fmt: skip
def test_an_action_that_a_payload_leaves_without_its_fields_fails_with_a_reason(kind: str, body: dict[str, Any]) -> None:
    handler = handle("conductor:x:y", action(kind, **body))
    events.publish(NS, "conductor:x:y", {"text": "hello"})
    flows.drain()
    (done,) = events.find_executions(NS, handler=handler)
    assert done.status == "FAILED"
    assert done.reason.startswith(kind)
    assert not OutboxEvent.objects.filter(delivered_at=None).exists()


def test_numbers_are_texts_where_texts_are_wanted_and_digits_numbers() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    handle("conductor:x:y", action("start_workflow", name=target, version="${version}", correlationId="${order}"))
    events.publish(NS, "conductor:x:y", {"version": "1", "order": 17})
    flows.drain()
    assert [run.correlation_id for run in started(target)] == ["17"]


def test_inactive_handlers_and_those_of_other_tenants_do_nothing() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    handle("conductor:x:y", action("start_workflow", name=target), active=False)
    definition = {
        "name": "h",
        "event": "conductor:x:y",
        "active": True,
        "actions": [action("start_workflow", name=target)],
    }
    events.register("elsewhere", definition)
    events.publish(NS, "conductor:x:y", {})
    flows.drain()
    assert started(target) == []


def test_texts_that_are_json_are_expanded_where_asked() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    body = {"name": target, "input": {"n": "${inner.n}"}}
    handle("conductor:x:y", {**action("start_workflow", **body), "expandInlineJSON": True})
    events.publish(NS, "conductor:x:y", {"inner": '{"n": 7}'})
    flows.drain()
    assert started(target)[0].input["n"] == 7


@pytest.mark.invariant("INV-6d")
def test_a_message_that_comes_twice_is_acted_on_once() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    handler = handle("conductor:x:y", action("start_workflow", name=target))
    for _ in range(2):
        events.publish(NS, "conductor:x:y", {}, message_id="delivery-1")
    flows.drain()
    assert len(started(target)) == 1
    assert outcomes(handler) == [("start_workflow", "COMPLETED")]
    events.publish(NS, "conductor:x:y", {}, message_id="delivery-2")
    flows.drain()
    assert len(started(target)) == 2


@pytest.mark.invariant("INV-6d")
def test_one_delivery_that_is_acted_on_by_many_at_once_ends_one_turn_of_a_loop() -> None:
    """Every turn waits under the same reference: an action that is done twice ends two of them."""
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {}}
    loop = {
        "name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "$.l['iteration'] < 5", "loopOver": [wait],
    }  # fmt: skip
    run = flows.start(flows.register(loop))
    flows.drain()
    handle("conductor:x:y", action("complete_task", workflowId=str(run), taskRefName="w"))
    events.publish(NS, "conductor:x:y", {})
    relay.deliver_next_batch()
    (payload,) = OutboxEvent.objects.filter(topic="event.action").values_list("payload", flat=True)

    def deliver(_: int) -> None:
        act(NS, payload)
        flows.evaluation.evaluate_now([run])

    assert race(6, deliver) == [None] * 6
    flows.drain()
    ended = Task.objects.filter(workflow_id=run, ref="w", status="COMPLETED").values_list("iteration", flat=True)
    assert list(ended) == ["1"]


@pytest.mark.invariant("INV-6d")
def test_two_relays_that_dispatch_one_message_hand_its_actions_on_once() -> None:
    handle("conductor:x:y", *[action("start_workflow", name="any") for _ in range(3)])
    events.publish(NS, "conductor:x:y", {}, message_id="m")
    with transaction():
        (claimed,) = OutboxEvent.sql.claim(batch=1, lease_seconds=60)
    assert race(6, lambda _: events.dispatch(claimed)) == [None] * 6
    assert OutboxEvent.objects.filter(topic="event.action").count() == 3
    assert EventExecution.objects.count() == 3


GOOD = {"name": "h", "event": "conductor:x:y", "actions": [action("start_workflow", name="t")]}


@pytest.mark.parametrize(
    ("change", "path"), [
        ({"name": ""}, "name"), ({"event": None}, "event"), ({"event": "nowhere"}, "event"), ({"actions": []}, "actions"),
        ({"actions": "x"}, "actions"), ({"actions": [5]}, "actions[0]"),
        ({"actions": [{"action": "dance"}]}, "actions[0].action"),
        ({"actions": [{"action": "start_workflow"}]}, "actions[0].start_workflow"),
        ({"actions": [action("start_workflow", version=1)]}, "actions[0].start_workflow.name"),
        ({"actions": [action("complete_task", workflowId="x")]}, "actions[0].complete_task"),
        ({"actions": [action("start_workflow", name="t", input={"a": "${"})]}, "actions[0].start_workflow"),
        ({"actions": [action("update_workflow_variables", workflowId="x")]}, "actions[0].update_workflow_variables.variables"),
        ({"condition": 5}, "condition"), ({"evaluatorType": "ruby"}, "evaluatorType"), ({"active": "yes"}, "active"),
        ({"sink": "x"}, "sink"), ({"condition": "$.a =="}, "condition"), ({"condition": "}); ({"}, "condition"),
        ({"name": "publish"}, "name"), ({"name": "executions"}, "name"), ({"actions": [{"action": []}]}, "actions[0].action"),
        ({"actions": [action("start_workflow", name=5)]}, "actions[0].start_workflow.name"),
        ({"actions": [action("start_workflow", name="t", version="first")]}, "actions[0].start_workflow.version"),
        ({"actions": [action("start_workflow", name="t", input=[1])]}, "actions[0].start_workflow.input"),
        ({"actions": [action("start_workflow", name="t", taskToDomain={"a": 1})]}, "actions[0].start_workflow.taskToDomain"),
        ({"actions": [action("start_workflow", name="t", workflow="t")]}, "actions[0].start_workflow.workflow"),
        ({"actions": [action("fail_task", taskId=["x"])]}, "actions[0].fail_task.taskId"),
        ({"actions": [action("terminate_workflow")]}, "actions[0].terminate_workflow.workflowId"),
    ],
)  # fmt: skip
def test_a_handler_that_means_nothing_is_refused(change: dict[str, Any], path: str) -> None:
    with pytest.raises(Invalid) as refused:
        events.register(NS, {**GOOD, **change})
    assert [at for at, _ in refused.value.problems] == [path]
    assert events.find(NS) == []


def test_a_handler_is_registered_once_replaced_and_forgotten() -> None:
    events.register(NS, GOOD)
    with pytest.raises(Conflict):
        events.register(NS, GOOD)
    events.replace(NS, {**GOOD, "active": True})
    assert [found.active for found in events.find(NS, "conductor:x:y")] == [True]
    events.remove(NS, "h")
    for missing in (lambda: events.remove(NS, "h"), lambda: events.replace(NS, GOOD)):
        with pytest.raises(NotFound):
            missing()


# Replay of what failed


def failed(handler: str) -> StoredEventExecution:
    (found,) = [one for one in events.find_executions(NS, handler=handler) if one.status == "FAILED"]
    return found


def replay(found: StoredEventExecution) -> StoredEventExecution:
    return events.replay(NS, found.id, actor="olga")


def test_an_action_that_failed_is_done_again_and_audited() -> None:
    target = flows.unique("later")
    handler = handle("conductor:x:y", action("start_workflow", name=target, correlationId="${text}"))
    events.publish(NS, "conductor:x:y", {"text": "hello"})
    flows.drain()
    found = failed(handler)
    flows.register(flows.simple("t"), name=target)
    events.remove(NS, handler)
    again = replay(found)
    assert (again.id, again.status, again.reason, again.ended_at) == (found.id, "SCHEDULED", None, None)
    flows.drain()
    (run,) = started(target)
    assert (run.correlation_id, run.input["conductor.event.messageId"]) == ("hello", found.message_id)
    assert outcomes(handler) == [("start_workflow", "COMPLETED")]
    (entry,) = AuditEntry.objects.filter(target=str(found.id))
    assert (entry.actor, entry.action, entry.outcome) == ("olga", "event.replay", "done")
    with pytest.raises(IllegalState, match="COMPLETED"):
        replay(found)
    assert AuditEntry.objects.filter(target=str(found.id), outcome="refused").count() == 1


def test_what_failed_in_planning_is_planned_again_with_the_handler_as_it_is_now() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    handler = handle("conductor:x:y", action("start_workflow", name=target), action("start_workflow", name="${missing}"))
    events.publish(NS, "conductor:x:y", {"text": target})
    flows.drain()
    found = failed(handler)
    assert replay(found).status == "FAILED", "nothing has changed"
    given = {"name": handler, "event": "conductor:x:y", "active": True}
    mended = [action("start_workflow", name=target), action("start_workflow", name="${text}")]
    events.replace(NS, {**given, "actions": mended, "condition": "$.text === 'other'"})
    refused = replay(found)
    assert (refused.status, refused.reason) == ("SKIPPED", "The condition does not hold.")
    with pytest.raises(IllegalState, match="SKIPPED"):
        replay(found)
    assert len(started(target)) == 1


def test_an_action_that_could_not_be_filled_in_is_filled_in_again_and_no_other_is_done_twice() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    handler = handle("conductor:x:y", action("start_workflow", name=target), action("start_workflow", name="${missing}"))
    events.publish(NS, "conductor:x:y", {"text": target})
    flows.drain()
    given = {"name": handler, "event": "conductor:x:y", "active": True}
    events.replace(NS, {**given, "actions": [action("start_workflow", name=target)]})
    with pytest.raises(IllegalState, match="has no action 1"):
        replay(failed(handler))
    events.replace(NS, {**given, "actions": [action("start_workflow", name=name) for name in (target, "${text}")]})
    assert replay(failed(handler)).status == "SCHEDULED"
    flows.drain()
    assert len(started(target)) == 2
    assert outcomes(handler) == [("start_workflow", "COMPLETED")] * 2


def test_a_condition_that_could_not_be_read_is_read_again_and_all_actions_follow() -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    actions = [action("start_workflow", name=target)] * 2
    handler = handle("conductor:x:y", *actions, condition="$.status.a.b.c")
    events.publish(NS, "conductor:x:y", {})
    flows.drain()
    given = {"name": handler, "event": "conductor:x:y", "actions": actions, "active": True}
    for change in ({"active": False}, {"event": "conductor:x:other"}):
        events.replace(NS, {**given, **change})
        with pytest.raises(IllegalState, match="does not handle conductor:x:y"):
            replay(failed(handler))
    events.replace(NS, given)
    replay(failed(handler))
    flows.drain()
    assert outcomes(handler) == [("start_workflow", "COMPLETED")] * 2
    assert len(started(target)) == 2


def test_a_replay_keeps_to_what_failed_and_to_its_tenant() -> None:
    handler = handle("conductor:x:y", action("start_workflow", name="nowhere"))
    with pytest.raises(NotFound):
        events.replay(NS, new_id(), actor="olga")
    events.publish(NS, "conductor:x:y", {})
    relay.deliver_next_batch()
    (waiting,) = events.find_executions(NS, handler=handler)
    with pytest.raises(IllegalState, match="SCHEDULED"):
        replay(waiting)
    flows.drain()
    with pytest.raises(NotFound):
        events.replay("north", failed(handler).id, actor="olga")


def test_eight_replays_at_once_do_it_once() -> None:
    handler = handle("conductor:x:y", action("start_workflow", name="nowhere"), condition="$.a.b.c")
    events.publish(NS, "conductor:x:y", {})
    flows.drain()
    events.replace(
        NS,
        {
            "name": handler, "event": "conductor:x:y", "active": True,
            "actions": [action("start_workflow", name="nowhere")] * 2,
        },
    )  # fmt: skip
    for made in (2, 3):  # planned again: two actions; then one of them done again
        found = events.find_executions(NS, handler=handler)[-1]
        results = race(8, lambda _: replay(found))  # noqa: B023
        refused = [result for result in results if isinstance(result, IllegalState)]
        assert (len(results) - len(refused), len(refused)) == (1, 7), results
        flows.drain()
        assert OutboxEvent.objects.filter(topic="event.action").count() == made
        assert outcomes(handler) == [("start_workflow", "FAILED")] * 2


def test_a_replay_of_what_was_replayed_and_failed_since_it_was_looked_at_is_refused() -> None:
    handler = handle("conductor:x:y", action("start_workflow", name="nowhere"))
    events.publish(NS, "conductor:x:y", {})
    flows.drain()
    seen = failed(handler)
    replay(seen)
    flows.drain()
    assert failed(handler).id == seen.id and seen.ended_at
    again = NewEventExecution(
        seen.id, NS, seen.handler, seen.event, seen.message_id, seen.position, seen.action, "SCHEDULED", seen.detail
    )
    with transaction():
        assert not EventExecution.sql.replay(again, seen.ended_at)
