"""Deliveries to webhooks end the WAIT_FOR_WEBHOOK tasks that want them: which ones is decided once, when the relay comes
to the delivery, however often it is told of it. [INV-5, INV-6d]

So a task that is committed later, such as the next turn of a loop, does not get it: a delivery is not kept. Who needs an
answer to what a task sends starts to wait before it is sent, in another branch of a fork.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from orchestrator.db.hints import OUTBOX, hint
from orchestrator.db.transactions import transaction
from orchestrator.errors import NotFound
from outbox.managers import NewOutboxEvent
from outbox.models import OutboxEvent, WebhookDelivery
from workflows.engine.webhooks import wanted
from workflows.models import Task
from workflows.services import control

MATCHED = "webhook.matched"
"""Topic: a delivery for one task; each is tried again, and dies, by itself. [INV-13]"""


def match(namespace: str, received: dict[str, Any]) -> None:
    """Hand a delivery to every open task of the namespace that wants it."""
    webhook, payload = received["webhook"], received["payload"]
    with transaction():
        if not WebhookDelivery.sql.settle(UUID(received["delivery_id"])):
            return
        waiting = Task.sql.find_awaiting(namespace, webhook)
        matched = [
            NewOutboxEvent(namespace, MATCHED, {**received, "workflow_id": run, "task_id": task, "ref": ref})
            for run, task, ref, given in waiting if _fits(given, webhook, payload)
        ]  # fmt: skip
        if matched:
            OutboxEvent.sql.publish(matched)
            hint(OUTBOX)


def _fits(given: Any, webhook: str, payload: Any) -> bool:
    try:
        return wanted(given).fits(webhook, payload)
    except ValueError:  # made before its type was served; no other task is to wait for it
        return False


def end(namespace: str, matched: dict[str, Any]) -> None:
    """Complete one task with a delivery; one that has ended meanwhile stays as it is. [INV-7b]"""
    try:
        control.complete_task(
            namespace, UUID(matched["workflow_id"]), matched["ref"], "COMPLETED", matched["payload"],
            actor=f"webhook:{matched['webhook']}", task_id=UUID(matched["task_id"]),
        )  # fmt: skip
    except NotFound:
        return  # its run has been removed
