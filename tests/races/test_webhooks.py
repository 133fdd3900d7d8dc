"""Deliveries that race relays, passes and other ends of the tasks that wait for them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from uuid import UUID

import pytest

from outbox.managers_webhooks import StoredWebhook
from outbox.models import OutboxEvent
from outbox.services import webhooks
from outbox.services.webhooks import Admitted
from tests import flows
from tests.db.test_webhooks import await_, begin, deliver, hook, output
from tests.support import Contender, race
from workflows.services import control, evaluation
from workflows.services import webhooks as waiting
from workflows.services.sweeping import invariant_report

pytestmark = pytest.mark.usefixtures("committed")


def received(orders: StoredWebhook, payload: dict[str, Any]) -> dict[str, Any]:
    """A delivery as the relay is told of it."""
    sent = webhooks.accept(Admitted(orders, None), payload)
    return {"delivery_id": str(sent), "webhook": orders.name, "payload": payload}


def matched() -> list[UUID]:
    return [UUID(event.payload["task_id"]) for event in OutboxEvent.objects.filter(topic="webhook.matched")]


@pytest.mark.invariant("INV-6d")
def test_of_relays_that_are_told_of_a_delivery_at_once_one_matches_it() -> None:
    run = begin(await_(matches={"$.n": 1}))
    told = received(hook(), {"n": 1})
    assert race(6, lambda i: waiting.match(flows.NAMESPACE, told)) == [None] * 6
    assert len(matched()) == 1
    flows.drain()
    assert flows.status(run) == "COMPLETED"


def test_a_delivery_that_is_handled_while_a_pass_makes_its_task_is_not_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for anything: the delivery finds no task yet and is not kept, and the next one ends it."""
    orders = hook()
    run = flows.start(flows.register(await_(matches={"$.n": 1})))
    told, real = received(orders, {"n": 1}), evaluation.apply_decisions

    def apply(decided: Any) -> set[UUID]:
        again = real(decided)
        Contender(lambda: waiting.match(flows.NAMESPACE, told)).result()
        return again

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "apply_decisions", apply)
        patch.setattr(evaluation, "batch", nullcontext)  # a pipeline cannot be stopped in its middle
        assert evaluation.evaluate_now([run]) == 1
    flows.drain()
    assert (matched(), flows.statuses(run)) == ([], {"w": "IN_PROGRESS"})
    deliver(orders, {"n": 1})
    assert flows.status(run) == "COMPLETED"


def test_a_delivery_that_came_before_its_task_and_is_handled_after_is_for_it() -> None:
    told = received(hook(), {"n": 1})
    run = flows.start(flows.register(await_(matches={"$.n": 1})))
    assert evaluation.evaluate_now([run]) == 1
    waiting.match(flows.NAMESPACE, told)
    flows.drain()
    assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-7b")
def test_of_a_delivery_and_other_ends_of_its_task_one_counts() -> None:
    run = begin(await_(matches={"$.n": 1}))
    waiting.match(flows.NAMESPACE, received(hook(), {"n": 1}))
    (event,) = OutboxEvent.objects.filter(topic="webhook.matched")

    def by_hand() -> None:
        control.complete_task(flows.NAMESPACE, run, "w", "COMPLETED", {"by": "hand"}, actor="olga")

    def by_delivery() -> None:
        waiting.end(flows.NAMESPACE, event.payload)

    assert race(6, lambda i: (by_hand, by_delivery)[i % 2]()) == [None] * 6
    flows.drain()
    assert output(run) in ({"by": "hand"}, {"n": 1})
    assert flows.status(run) == "COMPLETED"
    assert {name: rows for name, rows in invariant_report().items() if rows} == {}
