"""The outbox table."""

from __future__ import annotations

from django.db import models

from orchestrator.db.models import EngineModel
from outbox.managers import OutboxManager


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
