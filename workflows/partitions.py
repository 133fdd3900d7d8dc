"""Monthly partitions of the per-run tables, by ranges of UUIDv7.

`ensure_partitions` is run by the migration and by the timekeeper; several replicas may run it at once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.db.ids import id_floor

KEYS = {
    "workflows_execution": "id",
    "workflows_task": "workflow_id",
    "workflows_historyevent": "workflow_id",
    "workflows_tasklog": "workflow_id",
}
"""Partitioned tables in lock order, with their partition key."""

MONTHS_AHEAD = 3
STORAGE = (
    "fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, "
    "autovacuum_analyze_scale_factor = 0.05"
)


def months(now: datetime, back: int = 1, ahead: int = MONTHS_AHEAD) -> list[tuple[str, datetime, datetime]]:
    """(suffix, start, end) of the months around `now`."""
    first = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    for _ in range(back):
        first = (first - timedelta(days=1)).replace(day=1)
    found = []
    for _ in range(back + ahead + 1):
        following = (first + timedelta(days=32)).replace(day=1)
        found.append((f"{first:%Y%m}", first, following))
        first = following
    return found


def ensure_partitions(cursor: Any, now: datetime) -> list[str]:
    """Create the missing partitions by LIKE + ATTACH; returns their names.

    `PARTITION OF` would take the parent exclusively while a DEFAULT partition exists.
    """
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [5 << 56])
    made = []
    for table in KEYS:
        for suffix, start, end in [("default", None, None), *months(now)]:
            partition = f"{table}_p{suffix}"
            cursor.execute("SELECT to_regclass(%s)", [partition])
            if cursor.fetchone()[0] is not None:
                continue
            cursor.execute(f"CREATE TABLE {partition} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS) WITH ({STORAGE})")
            bounds = "DEFAULT"
            if start is not None and end is not None:
                bounds = f"FOR VALUES FROM ('{id_floor(start)}') TO ('{id_floor(end)}')"
            cursor.execute(f"ALTER TABLE {table} ATTACH PARTITION {partition} {bounds}")
            made.append(partition)
    return made
