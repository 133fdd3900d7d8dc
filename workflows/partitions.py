"""Monthly partitions of the per-run tables, by ranges of UUIDv7.

`ensure_partitions` is run by the migration; the timekeeper makes, empties and drops partitions one by one, any number of
replicas at once, each under a short lock time-out so that nothing queues up behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.db.ids import id_floor

KEYS = {
    "workflows_execution": "id",
    "workflows_task": "workflow_id",
    "workflows_tasklog": "workflow_id",
    "workflows_message": "workflow_id",
    "workflows_offloaded": "workflow_id",
    "workflows_historyevent": "workflow_id",
}
"""Partitioned tables in lock order, with their partition key."""

MONTHS_AHEAD = 3
STORAGE = (
    "fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, "
    "autovacuum_analyze_scale_factor = 0.05"
)


@dataclass(frozen=True, slots=True)
class Month:
    """A range of ids and the suffix of its partitions; without `start` it is DEFAULT."""

    suffix: str
    start: datetime | None = None
    end: datetime | None = None


def months(now: datetime, back: int = 1, ahead: int = MONTHS_AHEAD) -> list[Month]:
    """The months around `now`."""
    first = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    for _ in range(back):
        first = (first - timedelta(days=1)).replace(day=1)
    found = []
    for _ in range(back + ahead + 1):
        following = (first + timedelta(days=32)).replace(day=1)
        found.append(Month(f"{first:%Y%m}", first, following))
        first = following
    return found


def ensure_partitions(cursor: Any, now: datetime) -> list[str]:
    """Create the missing partitions in the caller's transaction; returns their names."""
    return [f"{table}_p{month.suffix}" for table, month in missing(cursor, now) if create(cursor, table, month)]


def missing(cursor: Any, now: datetime) -> list[tuple[str, Month]]:
    """(table, month) of partitions that there should be and are not, in lock order.

    A table that a later migration makes is not there while the earlier ones run.
    """
    tables = [table for table in KEYS if _exists(cursor, table)]
    wanted = [(table, month) for table in tables for month in (Month("default"), *months(now))]
    return [(table, month) for table, month in wanted if not _exists(cursor, f"{table}_p{month.suffix}")]


def create(cursor: Any, table: str, month: Month) -> bool:
    """Create a partition by LIKE + ATTACH; False when another replica did.

    `PARTITION OF` would take the parent exclusively while a DEFAULT partition exists. Rows of the month that have landed
    in DEFAULT (a stray clock, a roller that stood still) would make ATTACH fail: they are moved.
    """
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [5 << 56])
    partition, default = f"{table}_p{month.suffix}", f"{table}_pdefault"
    if _exists(cursor, partition):
        return False
    cursor.execute(f"CREATE TABLE {partition} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS) WITH ({STORAGE})")
    bounds = "DEFAULT"
    if month.start is not None and month.end is not None:
        low, high, key = id_floor(month.start), id_floor(month.end), KEYS[table]
        bounds = f"FOR VALUES FROM ('{low}') TO ('{high}')"
        where = f"{key} >= '{low}' AND {key} < '{high}'"
        cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {default} WHERE {where})")  # noqa: S608
        if cursor.fetchone()[0]:
            cursor.execute(f"LOCK TABLE {default} IN ACCESS EXCLUSIVE MODE")
            cursor.execute(
                f"WITH moved AS (DELETE FROM {default} WHERE {where} RETURNING *) "  # noqa: S608
                f"INSERT INTO {partition} SELECT * FROM moved"
            )
    cursor.execute(f"ALTER TABLE {table} ATTACH PARTITION {partition} {bounds}")
    return True


def leaves(cursor: Any, before: datetime) -> list[str]:
    """Suffixes of months that ended before a moment and still have a partition of some table, oldest first."""
    cursor.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = ANY(%s::regclass[])",
        [list(KEYS)],
    )
    suffixes = {name.rpartition("_p")[2] for (name,) in cursor.fetchall()}
    kept = before.astimezone(UTC).strftime("%Y%m")
    return sorted(suffix for suffix in suffixes if suffix.isdigit() and suffix < kept)


def is_needed(cursor: Any, suffix: str, completed: datetime, failed: datetime) -> bool:
    """Whether a month holds a run that has not ended, or not long enough ago, or whose parent has not."""
    if not _exists(cursor, f"workflows_execution_p{suffix}"):
        return False
    cursor.execute(
        f"""SELECT EXISTS (
            SELECT 1 FROM workflows_execution_p{suffix} e
              LEFT JOIN workflows_execution p ON p.id = e.parent_workflow_id
             WHERE e.ended_at IS NULL OR e.ended_at >= CASE WHEN e.status = 'COMPLETED' THEN %(completed)s ELSE %(failed)s END
                OR p.id IS NOT NULL AND (p.ended_at IS NULL OR p.ended_at >= %(completed)s OR p.ended_at >= %(failed)s))""",  # noqa: S608
        {"completed": completed, "failed": failed},
    )
    return bool(cursor.fetchone()[0])


def is_empty(cursor: Any, suffix: str) -> bool:
    """Whether no partition of a month holds a row."""
    for partition in _of_month(cursor, suffix):
        cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {partition})")  # noqa: S608
        if cursor.fetchone()[0]:
            return False
    return True


def truncate(cursor: Any, suffix: str, completed: datetime, failed: datetime) -> bool:
    """Empty a month at once; False when it holds a run that is needed.

    The partitions are locked in lock order first and looked at then: a late start of an old id waits, or is seen.
    """
    partitions = list(_of_month(cursor, suffix))
    if not partitions:
        return False
    cursor.execute(f"LOCK TABLE {', '.join(partitions)} IN ACCESS EXCLUSIVE MODE")
    if is_needed(cursor, suffix, completed, failed):
        return False
    cursor.execute(f"TRUNCATE {', '.join(partitions)}")
    return True


def drop(cursor: Any, table: str, suffix: str) -> bool:
    """Drop a table's partition of a month; False when it holds a row.

    The table is locked first, as every statement does: the other way round this and a reader would wait for each other.
    """
    partition = f"{table}_p{suffix}"
    if not _exists(cursor, partition):
        return True
    cursor.execute(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE")
    if not _exists(cursor, partition):
        return True
    cursor.execute(f"LOCK TABLE {partition} IN ACCESS EXCLUSIVE MODE")
    cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {partition})")  # noqa: S608
    if cursor.fetchone()[0]:
        return False
    cursor.execute(f"DROP TABLE {partition}")
    return True


def _of_month(cursor: Any, suffix: str) -> Iterator[str]:
    for table in KEYS:
        if _exists(cursor, f"{table}_p{suffix}"):
            yield f"{table}_p{suffix}"


def _exists(cursor: Any, name: str) -> bool:
    # Not to_regclass: it may answer from a cache that is older than the lock that was just waited for.
    cursor.execute(
        "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = %s AND relnamespace = current_schema()::regnamespace)",
        [name],
    )
    return bool(cursor.fetchone()[0])
