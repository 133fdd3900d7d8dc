"""Reads of dead letters beside the runs that they are about."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from orchestrator.db import sql

_SQL = sql.load("workflows", "dead_letter.sql")


class DeadLetterQueries:
    """Which dead letters matter to a run; they only read and never wait."""

    def peek_idle(self, before: datetime, *, batch: int) -> list[UUID]:
        """Those that died before a moment and that no live run has to do with, the oldest first."""
        return [row[0] for row in _SQL.peek_idle.rows(before=before, batch=batch)]
