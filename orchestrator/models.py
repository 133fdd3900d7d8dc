"""Tables that belong to no engine app: the audit trail."""

from __future__ import annotations

from django.db import models

from orchestrator.db.models import EngineModel
from orchestrator.managers import AuditManager


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
