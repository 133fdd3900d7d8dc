"""Tables that belong to no engine app: the audit trail, API keys, lock-outs, tags, secrets, environment variables."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from orchestrator.db.ids import new_id
from orchestrator.db.models import EngineModel
from orchestrator.managers import ApiKeyManager, AuditManager, EnvironmentManager, SecretManager, TagManager
from orchestrator.managers_lockouts import LockoutManager


class AuditEntry(EngineModel):
    """Who did what to which object, refusals included; written in the transaction of the action."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    actor = models.TextField()
    action = models.TextField()
    target = models.TextField()
    outcome = models.TextField()
    detail = models.JSONField()
    at = models.DateTimeField()

    sql = AuditManager()

    class Meta(EngineModel.Meta):
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(models.F("namespace"), models.F("at").desc(), name="orchestrator_audit_recent"),
            models.Index(fields=["target"], name="orchestrator_audit_target"),
        ]


class ApiKey(EngineModel):
    """A client's credential in one namespace; its secret is not stored."""

    id = models.UUIDField(primary_key=True, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    digest = models.TextField()
    previous_digest = models.TextField(null=True)
    previous_until = models.DateTimeField(null=True)
    permissions = ArrayField(models.TextField())
    queues = ArrayField(models.TextField())
    created_by = models.TextField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    sql = ApiKeyManager()

    class Meta(EngineModel.Meta):
        verbose_name = "API key"
        indexes = [models.Index(fields=["namespace", "id"], name="orchestrator_apikey_namespace")]


class Lockout(EngineModel):
    """Wrong credentials of a key, a user or an address; `ends_at` is when they, and the lock-out, are over."""

    id = models.UUIDField(primary_key=True, editable=False)
    kind = models.TextField()
    name = models.TextField()
    failures = models.IntegerField()
    locked_until = models.DateTimeField(null=True)
    ends_at = models.DateTimeField()

    sql = LockoutManager()

    class Meta(EngineModel.Meta):
        verbose_name = "lock-out"
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="orchestrator_lockout_key")]


class Tag(EngineModel):
    """A key and a value on a named object."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = models.TextField()
    kind = models.TextField()
    name = models.TextField()
    key = models.TextField()
    value = models.TextField()

    sql = TagManager()

    class Meta(EngineModel.Meta):
        constraints = [
            models.UniqueConstraint(fields=["namespace", "kind", "name", "key", "value"], name="orchestrator_tag_key")
        ]


class Secret(EngineModel):
    """A sealed value with a name; `previous` is the value before it, for masking."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    key_name = models.TextField()
    sealed = models.BinaryField()
    previous_key_name = models.TextField(null=True)
    previous = models.BinaryField(null=True)
    created_by = models.TextField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    sql = SecretManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="orchestrator_secret_key")]


class EnvironmentVariable(EngineModel):
    """A plain value with a name, which definitions may read."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = models.TextField()
    name = models.TextField()
    value = models.TextField()
    updated_at = models.DateTimeField()

    sql = EnvironmentManager()

    class Meta(EngineModel.Meta):
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="orchestrator_environment_key")]
