"""Tables of the task queues."""

from __future__ import annotations

from django.db import models

from dispatch.managers import TaskQueueManager, WorkerPollManager
from dispatch.managers_limits import PermitManager, RateBucketManager, SemaphoreManager
from orchestrator.db.models import EngineModel


class QueuedTask(EngineModel):
    """A task waiting for or leased to a worker; deleted when the task ends.

    `name` is its task definition's; a row that is `held` waits for another task of its run to end.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    workflow_id = models.UUIDField()
    namespace = models.TextField()
    queue = models.TextField()
    name = models.TextField(db_default="")
    priority = models.SmallIntegerField(db_default=0)
    held = models.BooleanField(db_default=False)
    visible_at = models.DateTimeField()
    enqueued_at = models.DateTimeField()
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    respond_by = models.DateTimeField(null=True)
    worker_id = models.TextField(null=True)
    redeliveries = models.SmallIntegerField(db_default=0)
    response_seconds = models.IntegerField(db_default=0)
    timeout_seconds = models.IntegerField(db_default=0)

    sql = TaskQueueManager()

    class Meta(EngineModel.Meta):
        indexes = [
            models.Index(
                models.F("queue"),
                models.F("namespace"),
                models.F("priority").desc(),
                models.F("id"),
                condition=models.Q(lease_token__isnull=True, held=False),
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


class Semaphore(EngineModel):
    """Named permits of a tenant that tasks of several definitions share."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    permits = models.IntegerField()
    description = models.TextField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    sql = SemaphoreManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="dispatch_semaphore_key")]

    def __str__(self) -> str:
        return self.name


class SemaphoreWaiter(EngineModel):
    """A queue that is polled in vain for tasks that want a semaphore: they are served first in, first out."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    semaphore = models.TextField()
    queue = models.TextField()
    name = models.TextField()
    asked_at = models.DateTimeField()

    class Meta(EngineModel.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "semaphore", "queue", "name"], name="dispatch_semaphorewaiter_key"
            )
        ]


class Permit(EngineModel):
    """What a leased task holds of a semaphore; deleted with the lease."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    semaphore = models.TextField()
    task_id = models.UUIDField()
    workflow_id = models.UUIDField()
    lease_token = models.UUIDField()
    permits = models.IntegerField()
    acquired_at = models.DateTimeField()

    sql = PermitManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["task_id", "semaphore"], name="dispatch_permit_key")]
        indexes = [
            models.Index(fields=["namespace", "semaphore"], name="dispatch_permit_semaphore"),
            models.Index(fields=["workflow_id"], name="dispatch_permit_workflow"),
        ]


class RateBucket(EngineModel):
    """How many tasks of a definition were handed out in its present window."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    used = models.IntegerField()
    window_ends_at = models.DateTimeField()

    sql = RateBucketManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="dispatch_ratebucket_key")]
