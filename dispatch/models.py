"""Tables of the task queues."""

from __future__ import annotations

from django.db import models

from dispatch.managers import TaskQueueManager, WorkerPollManager
from orchestrator.db.models import EngineModel


class QueuedTask(EngineModel):
    """A task waiting for or leased to a worker; deleted when the task ends."""

    id = models.UUIDField(primary_key=True, editable=False)
    workflow_id = models.UUIDField()
    namespace = models.TextField()
    queue = models.TextField()
    priority = models.SmallIntegerField(db_default=0)
    visible_at = models.DateTimeField()
    enqueued_at = models.DateTimeField()
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    worker_id = models.TextField(null=True)
    redeliveries = models.SmallIntegerField(db_default=0)
    response_seconds = models.IntegerField(db_default=0)
    timeout_seconds = models.IntegerField(db_default=0)

    sql = TaskQueueManager()

    class Meta(EngineModel.Meta):
        indexes = [
            models.Index(
                models.F("namespace"),
                models.F("queue"),
                models.F("priority").desc(),
                models.F("id"),
                condition=models.Q(lease_token__isnull=True),
                name="dispatch_queuedtask_ready",
            ),
            models.Index(
                fields=["lease_expires_at"],
                condition=models.Q(lease_token__isnull=False),
                name="dispatch_queuedtask_leased",
            ),
            models.Index(fields=["workflow_id"], name="dispatch_queuedtask_workflow"),
        ]

    def __str__(self) -> str:
        return f"{self.queue} {self.id}"


class WorkerPoll(EngineModel):
    """When a worker last asked a queue for work; written outside the lease's transaction."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    queue = models.TextField()
    domain = models.TextField(null=True)
    worker_id = models.TextField()
    last_poll_at = models.DateTimeField()

    sql = WorkerPollManager()

    class Meta(EngineModel.Meta):
        constraints = [
            models.UniqueConstraint(fields=["namespace", "queue", "worker_id"], name="dispatch_workerpoll_key")
        ]
