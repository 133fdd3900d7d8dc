"""Deliveries to webhooks: they end the tasks that wait for them, start what handlers say, and nothing of others."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from orchestrator.services import secrets
from outbox.managers_webhooks import StoredWebhook
from outbox.models import OutboxEvent, WebhookDelivery
from outbox.services import events, relay, webhooks
from outbox.services.webhooks import Admitted
from tests import flows
from workflows import handlers
from workflows.models import Execution, HistoryEvent, Task, Timer
from workflows.services import control, definitions, evaluation
from workflows.services.explaining import Code, explain
from workflows.services.starting import StartRequest, start

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE


def await_(ref: str = "w", **inputs: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": "WAIT_FOR_WEBHOOK", "inputParameters": inputs}


def begin(*tasks: dict[str, Any], input: dict[str, Any] | None = None) -> UUID:
    run = flows.start(flows.register(*tasks), input)
    flows.drain()
    return run


def hook(name: str = "orders", namespace: str = NS) -> StoredWebhook:
    secrets.put(namespace, "shared", "a secret that nobody guesses", actor="ann")
    verifier = {"type": "HMAC_BASED", "header": "X-Signature", "secret": "shared"}
    return webhooks.create(namespace, {"name": name, "verifier": verifier}, actor="ann")


def deliver(webhook: StoredWebhook, payload: dict[str, Any], delivery_id: str | None = None) -> UUID:
    """A delivery that was proved, and what it leads to."""
    sent = webhooks.accept(Admitted(webhook, delivery_id), payload)
    flows.drain()
    return sent


def output(run: UUID, ref: str = "w", **where: Any) -> Any:
    return Task.objects.get(workflow_id=run, ref=ref, **where).output


def letter_task(letter: OutboxEvent) -> UUID:
    return UUID(letter.payload["task_id"])


def test_a_task_waits_open_until_its_delivery_comes_and_ends_with_it() -> None:
    orders = hook()
    run = begin(await_(matches={"$.order": "${workflow.input.o}"}), flows.simple("next"), input={"o": 7})
    assert flows.statuses(run) == {"w": "IN_PROGRESS"}
    deliver(orders, {"order": 8})
    assert flows.statuses(run) == {"w": "IN_PROGRESS"}
    deliver(orders, {"order": 7, "paid": True})
    assert flows.statuses(run) == {"w": "COMPLETED", "next": "SCHEDULED"}
    assert output(run) == {"order": 7, "paid": True}
    ended = HistoryEvent.objects.get(workflow_id=run, type="task.completed")
    assert ended.ref == "w"


def test_one_delivery_ends_the_tasks_of_two_runs_and_no_other() -> None:
    orders = hook()
    first, second, other = (begin(await_(matches={"$.o": "${workflow.input.o}"}), input={"o": o}) for o in (7, 7, 8))
    deliver(orders, {"o": 7})
    assert [flows.status(run) for run in (first, second, other)] == ["COMPLETED", "COMPLETED", "RUNNING"]


def test_a_task_that_names_a_webhook_hears_of_no_other() -> None:
    orders, people = hook(), hook("people")
    named, any_ = begin(await_(webhook="orders")), begin(await_(matches={"$.n": 1}))
    deliver(people, {"n": 1})
    assert (flows.status(named), flows.status(any_)) == ("RUNNING", "COMPLETED")
    deliver(orders, {})
    assert flows.status(named) == "COMPLETED"


def test_another_namespaces_task_hears_nothing() -> None:
    mine, theirs = hook(), hook(namespace="elsewhere")
    definitions.register("elsewhere", {"name": "f", "version": 1, "tasks": [await_(matches={"$.n": 1})]}, overwrite=True)
    other, run = start(StartRequest("f", namespace="elsewhere")), begin(await_(matches={"$.n": 1}))
    flows.drain()
    deliver(mine, {"n": 1})
    assert (flows.status(run), flows.status(other)) == ("COMPLETED", "RUNNING")
    deliver(theirs, {"n": 1})
    assert flows.status(other) == "COMPLETED"


def test_a_delivery_is_not_kept_for_tasks_that_come_later() -> None:
    orders = hook()
    deliver(orders, {"n": 1})
    run = begin(await_(matches={"$.n": 1}), await_("again", matches={"$.n": 1}))
    deliver(orders, {"n": 1})
    assert flows.statuses(run) == {"w": "COMPLETED", "again": "IN_PROGRESS"}


def loop() -> dict[str, Any]:
    return {
        "name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopOver": [await_(matches={"$.n": 1})],
        "loopCondition": "$.l['iteration'] < 3",
    }  # fmt: skip


@pytest.mark.invariant("INV-6d")
def test_a_delivery_told_of_again_ends_no_other_attempt(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """The relay dies before it notes what it did, and does it again when the next turn of a loop waits for the same."""
    settings.OSTINATO = {**settings.OSTINATO, "OUTBOX_LEASE_SECONDS": 0}
    orders = hook()
    run = begin(loop())
    webhooks.accept(Admitted(orders, "d1"), {"n": 1})
    waits = {"w@1": "COMPLETED", "w@2": "IN_PROGRESS", "l": "IN_PROGRESS"}
    with monkeypatch.context() as patch:
        patch.setattr(relay, "_settle", lambda events, failures: None)
        assert [relay.deliver_next_batch(), relay.deliver_next_batch()] == [2, 3]
        evaluation.evaluate_next_batch()
    assert flows.statuses(run) == waits
    flows.drain()
    assert flows.statuses(run) == waits
    assert not OutboxEvent.objects.filter(delivered_at=None).exists()
    deliver(orders, {"n": 1}, "d1")  # the sender tells of it again
    assert flows.statuses(run) == waits
    deliver(orders, {"n": 1}, "d2")
    assert flows.statuses(run)["w@2"] == "COMPLETED"


def test_a_relay_that_dies_after_the_match_loses_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The match is settled and the first try to end the task fails: it is tried again by itself."""
    orders = hook()
    run = begin(await_(matches={"$.n": 1}))
    with monkeypatch.context() as patch:
        relay.register("webhook.matched", lambda event: 1 / 0 and None)
        deliver(orders, {"n": 1})
        patch.undo()
    handlers.register()
    assert flows.statuses(run) == {"w": "IN_PROGRESS"}
    event = OutboxEvent.objects.get(topic="webhook.matched")
    assert "ZeroDivisionError" in event.last_error
    for _ in range(2):
        handlers.end_matched(event)
    flows.drain()
    assert (flows.status(run), output(run)) == ("COMPLETED", {"n": 1})


@pytest.mark.invariant("INV-7b")
def test_a_task_that_ended_before_its_delivery_stays_as_it_is() -> None:
    orders = hook()
    run = begin(await_(matches={"$.n": 1}), flows.simple("next"))
    task = Task.objects.get(workflow_id=run, ref="w")
    control.complete_task(NS, run, "w", "COMPLETED", {"by": "hand"}, actor="olga")
    payload = {"webhook": orders.name, "payload": {"n": 1}, "ref": "w", "delivery_id": str(new_id())}
    handlers.webhooks.end(NS, {**payload, "workflow_id": str(run), "task_id": str(task.id)})
    assert output(run) == {"by": "hand"}
    control.terminate(NS, run, actor="olga")
    control.remove(NS, run, actor="olga")
    handlers.webhooks.end(NS, {**payload, "workflow_id": str(run), "task_id": str(task.id)})
    assert not Execution.objects.filter(id=run).exists()


def test_a_paused_run_takes_its_delivery_and_goes_on_when_it_is_resumed() -> None:
    orders = hook()
    run = begin(await_(matches={"$.n": 1}), flows.simple("next"))
    control.pause(NS, run, actor="olga")
    deliver(orders, {"n": 1})
    assert flows.statuses(run) == {"w": "COMPLETED"}
    control.resume(NS, run, actor="olga")
    flows.drain()
    assert flows.statuses(run)["next"] == "SCHEDULED"


def test_a_handler_starts_a_run_with_what_came_to_a_webhook() -> None:
    orders = hook()
    target = flows.register(flows.simple("t", flows.unique("q")))
    body = {"name": target, "version": 1, "input": {"order": "${order}"}}
    handler = {
        "name": "h", "event": "webhook:orders", "active": True, "condition": "$.order > 6",
        "actions": [{"action": "start_workflow", "start_workflow": body}],
    }  # fmt: skip
    events.register(NS, handler)
    sent = deliver(orders, {"order": 7}, "d1")
    deliver(orders, {"order": 7}, "d1")
    deliver(orders, {"order": 5})
    deliver(hook("people"), {"order": 7})
    (run,) = Execution.objects.filter(name=target)
    assert (run.input["order"], run.input["conductor.event.name"]) == (7, "webhook:orders")
    assert run.input["conductor.event.messageId"] == str(sent)


def test_its_task_definition_gives_it_a_deadline() -> None:
    name = flows.unique("t")
    definitions.register_tasks(NS, [{"name": name, "timeoutSeconds": 600, "retryCount": 0}])
    run = begin({**await_(matches={"$.n": 1}), "name": name})
    timer = Timer.objects.get(workflow_id=run, kind="TASK")
    flows.hurry(timer)
    flows.time_out()
    assert flows.statuses(run) == {"w": "TIMED_OUT"}


def test_a_bad_match_fails_the_task_when_it_starts() -> None:
    run = begin(await_(matches={"$.n": "${workflow.input.nobody}"}))
    assert flows.status(run) == "FAILED"
    assert "$.n is to be null" in Task.objects.get(workflow_id=run).reason


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"matches": {"$.n": "${workflow.input.n}"}}, "The task w waits for a delivery to any webhook with $.n = \"x\"."),
        ({"webhook": "orders"}, "The task w waits for a delivery to orders."),
        (
            {"webhook": "orders", "matches": {"$.n": 1, "$.m": True}},
            "The task w waits for a delivery to orders with $.m = true and $.n = 1.",
        ),
    ],
)
def test_explain_says_what_it_waits_for(given: dict[str, Any], said: str) -> None:
    run = begin(await_(**given), input={"n": "x"})
    (reason,) = explain(NS, run).reasons
    assert (reason.code, reason.message) == (Code.WEBHOOK, said)


def test_explain_says_that_a_delivery_could_not_end_its_task(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "OUTBOX_MAX_ATTEMPTS": 1}
    orders = hook()
    run = begin(await_(matches={"$.n": 1}))
    relay.register("webhook.matched", lambda event: 1 / 0 and None)
    deliver(orders, {"n": 1})
    handlers.register()
    (reason,) = explain(NS, run).reasons
    letter = OutboxEvent.objects.get(topic="webhook.matched")
    assert (reason.code, reason.task_id, reason.event_id) == (Code.DELIVERY_DEAD, letter_task(letter), letter.id)
    assert reason.message.startswith("A delivery to orders could not end the task w in 1 attempts: ZeroDivisionError")
    relay.replay([letter.id])
    flows.drain()
    assert (flows.status(run), output(run)) == ("COMPLETED", {"n": 1})


def test_explain_forgets_the_delivery_of_a_task_that_has_ended(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "OUTBOX_MAX_ATTEMPTS": 1}
    orders = hook()
    run = begin(await_(matches={"$.n": 1}), await_("again", matches={"$.n": 2}))
    relay.register("webhook.matched", lambda event: 1 / 0 and None)
    deliver(orders, {"n": 1})
    handlers.register()
    control.complete_task(NS, run, "w", "COMPLETED", {}, actor="olga")
    flows.drain()
    assert [reason.code for reason in explain(NS, run).reasons] == [Code.WEBHOOK]


def test_what_came_is_forgotten_once_it_is_matched_and_old() -> None:
    orders = hook()
    deliver(orders, {}, "d1")
    waits = webhooks.accept(Admitted(orders, "d2"), {})
    webhooks.prune()
    assert WebhookDelivery.objects.count() == 2
    with transaction():
        WebhookDelivery.sql.prune(seconds=-1)
    assert [delivery.id for delivery in WebhookDelivery.objects.all()] == [waits]
