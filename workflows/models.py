"""Tables of definitions and runs. `objects` only reads the engine's tables; `sql` holds their raw verbs."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models

from orchestrator.db.ids import new_id
from orchestrator.db.models import EngineModel
from workflows.engine.state import FAILURES
from workflows.engine.webhooks import TYPE as WEBHOOK
from workflows.managers.admission import AdmissionManager, QuotaManager
from workflows.managers.decide_queue import DecideQueueManager
from workflows.managers.definition import DefinitionManager, RevisionManager, TaskDefinitionManager
from workflows.managers.execution import ExecutionManager
from workflows.managers.history import HistoryManager
from workflows.managers.human_task import HumanTaskManager
from workflows.managers.idempotency import IdempotencyManager
from workflows.managers.message import MessageManager
from workflows.managers.offloaded import OffloadedManager
from workflows.managers.payload_schema import PayloadSchemaManager
from workflows.managers.schedule import ScheduleManager, ScheduleRunManager
from workflows.managers.task import TaskManager
from workflows.managers.task_log import TaskLogManager
from workflows.managers.timer import TimerManager
from workflows.payload_fields import PayloadField


class WorkflowDefinition(EngineModel):
    """A registered version of a definition; overwriting it leaves the revisions of running runs alone."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    version = models.IntegerField()
    definition = models.JSONField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    created_by = models.TextField(null=True)

    sql = DefinitionManager()

    class Meta(EngineModel.Meta):
        constraints = [
            models.UniqueConstraint(fields=["namespace", "name", "version"], name="workflows_definition_key")
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class TaskDefinition(EngineModel):
    """Retries, time-outs and limits of a task, by name."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    definition = models.JSONField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    sql = TaskDefinitionManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="workflows_taskdefinition_key")]

    def __str__(self) -> str:
        return self.name


class PayloadSchema(EngineModel):
    """A version of a JSON Schema that definitions may name; never changed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    version = models.IntegerField()
    data = models.JSONField()
    created_at = models.DateTimeField()
    created_by = models.TextField(null=True)

    sql = PayloadSchemaManager()

    class Meta(EngineModel.Meta):
        constraints = [
            models.UniqueConstraint(fields=["namespace", "name", "version"], name="workflows_payloadschema_key")
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class Revision(EngineModel):
    """A definition with the task definitions it was started with: what a run points at, never changed.

    The digest is not unique on purpose: a start inside a caller's open transaction would make every other
    start of a new revision wait for that caller.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    digest = models.TextField(db_index=True)
    definition = models.JSONField()
    task_definitions = models.JSONField()
    created_at = models.DateTimeField()

    sql = RevisionManager()


class Execution(EngineModel):
    """A run of a workflow. Partitioned by id."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    version = models.IntegerField()
    revision_id = models.UUIDField()
    status = models.TextField()
    priority = models.SmallIntegerField(db_default=0)
    correlation_id = models.TextField(null=True)
    idempotency_key = models.TextField(null=True)
    input = PayloadField()
    output = PayloadField(null=True)
    variables = models.JSONField()
    task_to_domain = models.JSONField()
    parent_workflow_id = models.UUIDField(null=True)
    parent_task_id = models.UUIDField(null=True)
    depth = models.SmallIntegerField(db_default=0)
    root_ended = models.BooleanField(db_default=False)
    reason = models.TextField(null=True)
    failed_refs = models.JSONField(null=True)
    failure_workflow_id = models.UUIDField(null=True)
    created_by = models.TextField(null=True)
    attributes = models.JSONField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    admitted_at = models.DateTimeField(null=True)
    last_retried_at = models.DateTimeField(null=True)

    sql = ExecutionManager()

    class Meta(EngineModel.Meta):
        indexes = [
            models.Index(
                models.F("namespace"),
                models.F("created_at").desc(),
                models.F("id").desc(),
                name="workflows_execution_recent",
            ),
            models.Index(
                models.F("namespace"), models.F("name"), models.F("created_at").desc(), name="workflows_execution_name"
            ),
            models.Index(
                fields=["namespace", "correlation_id"],
                condition=models.Q(correlation_id__isnull=False),
                name="workflows_execution_corr",
            ),
            models.Index(
                fields=["parent_workflow_id"],
                condition=models.Q(parent_workflow_id__isnull=False),
                name="workflows_execution_parent",
            ),
            GinIndex(
                fields=["attributes"],
                opclasses=["jsonb_path_ops"],
                condition=models.Q(attributes__isnull=False),
                name="workflows_execution_attrs",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.id}"


class Task(EngineModel):
    """One attempt of one task of a run. Partitioned by workflow_id; its database key is (id, workflow_id).

    The frontier is what passes read: open tasks, which are never consumed, and ended ones that no pass has consumed.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    workflow_id = models.UUIDField()
    namespace = models.TextField()
    ref = models.TextField()
    iteration = models.TextField(db_default="")
    attempt = models.IntegerField(db_default=0)
    name = models.TextField()
    type = models.TextField()
    status = models.TextField()
    consumed = models.BooleanField(db_default=False)
    queue = models.TextField(null=True)
    domain = models.TextField(null=True)
    priority = models.SmallIntegerField(db_default=0)
    input = PayloadField()
    output = PayloadField(null=True)
    state = models.JSONField(null=True)
    spec = models.JSONField(null=True)
    listeners = models.JSONField(null=True)
    reason = models.TextField(null=True)
    cause = models.TextField(null=True)
    worker_id = models.TextField(null=True)
    lease_token = models.UUIDField(null=True)
    poll_count = models.IntegerField(db_default=0)
    callback_seconds = models.IntegerField(db_default=0)
    response_seconds = models.IntegerField(db_default=0)
    timeout_seconds = models.IntegerField(db_default=0)
    retried_task_id = models.UUIDField(null=True)
    sub_workflow_id = models.UUIDField(null=True)
    first_scheduled_at = models.DateTimeField()
    scheduled_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    sql = TaskManager()

    class Meta(EngineModel.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["workflow_id", "ref", "iteration", "attempt"], name="workflows_task_identity"
            ),
            models.CheckConstraint(
                condition=models.Q(ended_at__isnull=False) | models.Q(consumed=False), name="workflows_task_open"
            ),
            models.CheckConstraint(
                condition=~models.Q(status__in=sorted(map(str, FAILURES))) | models.Q(reason__isnull=False),
                name="workflows_task_reason",
            ),
        ]
        indexes = [
            models.Index(fields=["workflow_id"], condition=models.Q(consumed=False), name="workflows_task_frontier"),
            models.Index(
                fields=["namespace", "status", "id"],
                condition=models.Q(reason__isnull=False), name="workflows_task_reasons",
            ),
            models.Index(
                fields=["namespace"], condition=models.Q(consumed=False, type=WEBHOOK), name="workflows_task_webhooks"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.ref} {self.id}"


class HistoryEvent(EngineModel):
    """What happened in a run, gapless by `seq`. Partitioned by workflow_id; its key is (workflow_id, seq)."""

    id = models.UUIDField(primary_key=True, editable=False)
    workflow_id = models.UUIDField()
    seq = models.IntegerField()
    type = models.TextField()
    task_id = models.UUIDField(null=True)
    ref = models.TextField(null=True)
    data = models.JSONField()
    at = models.DateTimeField()

    sql = HistoryManager()


class TaskLog(EngineModel):
    """A line a worker logged for a task. Partitioned by workflow_id."""

    id = models.UUIDField(primary_key=True, editable=False)
    workflow_id = models.UUIDField()
    task_id = models.UUIDField()
    log = models.TextField()
    created_at = models.DateTimeField()

    sql = TaskLogManager()

    class Meta(EngineModel.Meta):
        indexes = [models.Index(fields=["task_id", "id"], name="workflows_tasklog_task")]


class Message(EngineModel):
    """A message sent to a run, until a task takes it. Partitioned by workflow_id; its key is (workflow_id, position)."""

    id = models.UUIDField(primary_key=True, editable=False)
    workflow_id = models.UUIDField()
    position = models.IntegerField()
    payload = models.JSONField()
    received_at = models.DateTimeField()

    sql = MessageManager()


class Offloaded(EngineModel):
    """An object of the payload store that a row of a run names. Partitioned by workflow_id; its key is (workflow_id, id)."""

    id = models.UUIDField(primary_key=True, editable=False)
    workflow_id = models.UUIDField()
    key = models.TextField()

    sql = OffloadedManager()

    class Meta(EngineModel.Meta):
        indexes = [models.Index(fields=["key"], name="workflows_offloaded_key")]


class DecideQueue(EngineModel):
    """Runs awaiting a pass, one row each: the row is the run's gate."""

    workflow_id = models.UUIDField(primary_key=True, editable=False)
    enqueued_at = models.DateTimeField()
    bumps = models.IntegerField(db_default=0)
    attempts = models.IntegerField(db_default=0)
    next_attempt_at = models.DateTimeField()
    last_error = models.TextField(null=True)
    quarantined = models.BooleanField(db_default=False)
    reports_to = models.UUIDField(null=True)

    sql = DecideQueueManager()

    class Meta(EngineModel.Meta):
        verbose_name = "decide request"
        indexes = [
            models.Index(
                fields=["enqueued_at"],
                condition=models.Q(quarantined=False, reports_to__isnull=True),
                name="workflows_decidequeue_ready",
            ),
            models.Index(
                fields=["enqueued_at"],
                condition=models.Q(reports_to__isnull=False, quarantined=False),
                name="workflows_decidequeue_reports",
            ),
        ]


class Timer(EngineModel):
    """A deadline of a run or a task; deleted when it fires or its task ends."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    kind = models.TextField()
    workflow_id = models.UUIDField()
    task_id = models.UUIDField(null=True)
    due_at = models.DateTimeField()
    attempts = models.IntegerField(db_default=0)
    last_error = models.TextField(null=True)
    quarantined = models.BooleanField(db_default=False)

    sql = TimerManager()

    class Meta(EngineModel.Meta):
        indexes = [
            models.Index(fields=["due_at"], condition=models.Q(quarantined=False), name="workflows_timer_due"),
            models.Index(fields=["workflow_id", "task_id"], name="workflows_timer_workflow"),
        ]


class HumanTask(EngineModel):
    """An open HUMAN task in the inbox; it leaves when the task ends."""

    id = models.UUIDField(primary_key=True, editable=False)
    workflow_id = models.UUIDField()
    namespace = models.TextField()
    workflow_name = models.TextField()
    ref = models.TextField()
    iteration = models.TextField()
    name = models.TextField()
    assignee = models.TextField(null=True)
    candidate_users = ArrayField(models.TextField())
    candidate_groups = ArrayField(models.TextField())
    claimed_by = models.TextField(null=True)
    claimed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    escalated_at = models.DateTimeField(null=True)

    sql = HumanTaskManager()

    class Meta(EngineModel.Meta):
        indexes = [models.Index(fields=["namespace", "id"], name="workflows_humantask_inbox")]

    def __str__(self) -> str:
        return f"{self.ref} {self.id}"


class IdempotencyKey(EngineModel):
    """Which run a key belongs to. Not partitioned: the key must be unique for ever, not per month."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = models.TextField()
    scope = models.TextField()
    key = models.TextField()
    workflow_id = models.UUIDField()
    request_hash = models.TextField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)

    sql = IdempotencyManager()

    class Meta(EngineModel.Meta):
        constraints = [
            models.UniqueConstraint(fields=["namespace", "scope", "key"], name="workflows_idempotencykey_key")
        ]


class Schedule(EngineModel):
    """When to start what; fired once by any number of timekeepers."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    workflow_name = models.TextField()
    definition = models.JSONField()
    paused = models.BooleanField(db_default=False)
    paused_reason = models.TextField(null=True)
    next_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    created_by = models.TextField(null=True)
    last_workflow_id = models.UUIDField(null=True)
    failures = models.IntegerField(db_default=0)
    last_error = models.TextField(null=True)

    sql = ScheduleManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="workflows_schedule_key")]
        indexes = [models.Index(fields=["next_at"], condition=models.Q(paused=False), name="workflows_schedule_due")]

    def __str__(self) -> str:
        return self.name


class ScheduleRun(EngineModel):
    """A firing of a schedule and what came of it."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    schedule_name = models.TextField()
    workflow_name = models.TextField()
    workflow_id = models.UUIDField(null=True)
    scheduled_at = models.DateTimeField()
    executed_at = models.DateTimeField()
    state = models.TextField()
    reason = models.TextField(null=True)

    sql = ScheduleRunManager()

    class Meta(EngineModel.Meta):
        indexes = [
            models.Index(fields=["namespace", "schedule_name", "id"], name="workflows_schedulerun_by"),
            models.Index(fields=["executed_at"], name="workflows_schedulerun_at"),
        ]


class Admission(EngineModel):
    """A run under a limit: it counts against a key or its tenant's quota, or waits its turn. It leaves with the run."""

    workflow_id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    key = models.TextField(null=True)
    most = models.IntegerField(null=True)
    counted = models.BooleanField(db_default=False)
    admitted = models.BooleanField(db_default=False)

    sql = AdmissionManager()

    class Meta(EngineModel.Meta):
        indexes = [
            models.Index(fields=["namespace", "name", "key", "admitted"], name="workflows_admission_group"),
            models.Index(fields=["workflow_id"], condition=models.Q(admitted=False), name="workflows_admission_waiting"),
        ]


class Quota(EngineModel):
    """How many runs a tenant may have at a time."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    max_concurrent_executions = models.IntegerField(null=True)
    updated_at = models.DateTimeField()

    sql = QuotaManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["namespace"], name="workflows_quota_key")]

    def __str__(self) -> str:
        return self.namespace
