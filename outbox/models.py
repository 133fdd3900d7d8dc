"""The outbox, the handlers of the events that come through it, and the webhooks that events come in by."""

from __future__ import annotations

from django.db import models

from orchestrator.db.models import EngineModel
from outbox.managers import OutboxManager
from outbox.managers_events import EventExecutionManager, EventHandlerManager
from outbox.managers_webhooks import WebhookDeliveryManager, WebhookManager


class OutboxEvent(EngineModel):
    """An effect written with the change that caused it, delivered after the commit. [INV-5]"""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    topic = models.TextField()
    order_key = models.UUIDField(null=True)
    payload = models.JSONField()
    created_at = models.DateTimeField()
    attempts = models.IntegerField(db_default=0)
    next_attempt_at = models.DateTimeField()
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    last_error = models.TextField(null=True)
    delivered_at = models.DateTimeField(null=True)
    dead_at = models.DateTimeField(null=True)

    sql = OutboxManager()

    class Meta(EngineModel.Meta):
        db_table = "outbox_event"
        indexes = [
            models.Index(
                fields=["next_attempt_at", "id"],
                condition=models.Q(delivered_at__isnull=True, dead_at__isnull=True),
                name="outbox_event_deliverable",
            ),
            models.Index(
                fields=["order_key", "id"],
                condition=models.Q(delivered_at__isnull=True, dead_at__isnull=True, order_key__isnull=False),
                name="outbox_event_ordered",
            ),
            models.Index(fields=["dead_at"], condition=models.Q(dead_at__isnull=False), name="outbox_event_dead"),
            models.Index(
                fields=["delivered_at"], condition=models.Q(delivered_at__isnull=False), name="outbox_event_done"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.topic} {self.id}"


class EventHandler(EngineModel):
    """What to do when an event is published; `definition` is the handler as it was registered."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    event = models.TextField()
    active = models.BooleanField(db_default=False)
    definition = models.JSONField()
    created_by = models.TextField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    sql = EventHandlerManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="outbox_eventhandler_key")]
        indexes = [models.Index(fields=["namespace", "event"], name="outbox_eventhandler_event")]

    def __str__(self) -> str:
        return self.name


class EventExecution(EngineModel):
    """One action of one handler for one delivery: SCHEDULED, COMPLETED, FAILED, or SKIPPED by its condition. [INV-6d]"""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    handler = models.TextField()
    event = models.TextField()
    message_id = models.TextField()
    position = models.IntegerField()
    action = models.TextField()
    status = models.TextField()
    detail = models.JSONField()
    output = models.JSONField(null=True)
    reason = models.TextField(null=True)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    sql = EventExecutionManager()

    class Meta(EngineModel.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "handler", "message_id", "position"], name="outbox_eventexecution_key"
            )
        ]
        indexes = [
            models.Index(fields=["namespace", "event", "id"], name="outbox_eventexecution_event"),
            models.Index(
                fields=["ended_at"], condition=models.Q(ended_at__isnull=False), name="outbox_eventexecution_done"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.handler} {self.message_id}"


class Webhook(EngineModel):
    """An address that takes deliveries from outside, once they are proved; `verifier` names secrets and holds none."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    verifier = models.JSONField()
    delivery_header = models.TextField(null=True)
    created_by = models.TextField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    sql = WebhookManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="outbox_webhook_key")]

    def __str__(self) -> str:
        return self.name


class WebhookDelivery(EngineModel):
    """That a delivery came, and that it was matched against what waits; its `delivery_id` is the sender's, or ours. [INV-6d]"""

    id = models.UUIDField(primary_key=True, editable=False)
    webhook_id = models.UUIDField()
    delivery_id = models.TextField()
    received_at = models.DateTimeField()
    matched_at = models.DateTimeField(null=True)

    sql = WebhookDeliveryManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["webhook_id", "delivery_id"], name="outbox_webhookdelivery_key")]
        indexes = [
            models.Index(
                fields=["matched_at"], condition=models.Q(matched_at__isnull=False), name="outbox_webhookdelivery_done"
            ),
        ]

    def __str__(self) -> str:
        return self.delivery_id
