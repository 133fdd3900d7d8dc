"""The workflow's own deadline."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from orchestrator.db.ids import id_time, new_id
from workflows.managers.timer import NewTimer
from workflows.models import Timer


def arm_deadline(namespace: str, workflow_id: UUID, definition: dict[str, Any]) -> None:
    """Arm the workflow's own time-out, counted from its admission or its latest revival."""
    seconds = definition.get("timeoutSeconds") or 0
    if seconds > 0:
        due = id_time(new_id()) + timedelta(seconds=seconds)
        Timer.sql.insert([NewTimer(namespace, "WORKFLOW", workflow_id, due)])
