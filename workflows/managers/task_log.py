"""Verbs of task logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from orchestrator.db import json, sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("workflows", "task_log.sql")


class TaskLogManager(VerbManager):
    """Lines that workers logged."""

    @requires_transaction
    def append(self, lines: Sequence[tuple[UUID, UUID, str, datetime | None]]) -> None:
        """Append (run, task, line, time) rows."""
        rows = [
            {"id": new_id(), "workflow_id": w, "task_id": t, "log": log, "created_at": at} for w, t, log, at in lines
        ]
        _SQL.append.send(rows=json.dumps(rows))

    def read(self, task_id: UUID) -> list[tuple[str, datetime]]:
        """(line, time) of a task, in order."""
        return [(row[0], row[1]) for row in _SQL.read.rows(task_id=task_id)]

    @requires_transaction
    def delete(self, workflow_ids: Sequence[UUID]) -> int:
        """Delete the logs of runs that are removed."""
        return _SQL.delete.execute(workflow_ids=list(workflow_ids))
