"""Verbs of the audit trail."""

from __future__ import annotations

from typing import Any

from orchestrator.db import json, sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager

_SQL = sql.load("orchestrator", "audit.sql")


class AuditManager(VerbManager):
    """Who did what; append-only."""

    def record(
        self, *, namespace: str, actor: str, action: str, target: str, outcome: str, detail: dict[str, Any]
    ) -> None:
        """Record an action in its own transaction's scope, or a refusal by itself."""
        _SQL.record.execute(
            id=new_id(), namespace=namespace, actor=actor, action=action, target=target, outcome=outcome,
            detail=json.dumps(detail),
        )  # fmt: skip
