"""Partitions of the tables of runs: made ahead, emptied and dropped, one short transaction each.

DDL waits for nobody: under a lock time-out of 50 ms a caller's open transaction makes it try again later, instead of
everything queueing up behind it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog
from django.db import IntegrityError, OperationalError, ProgrammingError
from prometheus_client import Counter
from psycopg.errors import DuplicateTable, UndefinedTable

from orchestrator.db.sql import engine_connection
from orchestrator.db.transactions import transaction
from workflows import partitions

log = structlog.get_logger(__name__)
PUT_OFF = Counter("ostinato_partition_work_put_off_total", "Partition changes that found a lock in the way.", ["work"])
_TRIES = 5
_LOCK_TIMEOUT = "50ms"


def roll_partitions(now: datetime | None = None) -> int:
    """Make the months ahead; rows of theirs that landed in DEFAULT are moved. Returns how many were made."""
    with transaction(), engine_connection().cursor() as cursor:
        wanted = partitions.missing(cursor, now or datetime.now(UTC))
    made = sum(
        alter("create", lambda cursor, table=table, month=month: partitions.create(cursor, table, month))  # type: ignore[misc]
        for table, month in wanted
    )
    if made:
        log.info("partitions_made", count=made)
    return 0


def empty_months(completed: datetime, failed: datetime, now: datetime | None = None) -> int:
    """Empty, and drop where no lock is in the way, the months of which nothing must be kept; returns how many."""
    with transaction(), engine_connection().cursor() as cursor:
        recent = {month.suffix for month in partitions.months(now or datetime.now(UTC))}
        old = [s for s in partitions.leaves(cursor, min(completed, failed)) if s not in recent]
    gone = 0
    for suffix in old:
        if not _look(lambda cursor, s=suffix: partitions.is_needed(cursor, s, completed, failed)):  # type: ignore[misc]
            empty = _look(lambda cursor, s=suffix: partitions.is_empty(cursor, s))  # type: ignore[misc]
            if empty or alter(
                "truncate",
                lambda cursor, s=suffix: partitions.truncate(cursor, s, completed, failed),  # type: ignore[misc]
            ):
                gone += _drop(suffix)
    return gone


def _drop(suffix: str) -> bool:
    """One short lock at a time; the runs' own partition goes last, since `is_needed` asks it."""
    return all(
        alter("drop", lambda cursor, table=table: partitions.drop(cursor, table, suffix))  # type: ignore[misc]
        for table in reversed(partitions.KEYS)
    )


def alter(work: str, body: Callable[[Any], bool]) -> bool:
    """Run DDL in a transaction of its own that gives up soon, and is tried a few times; False when it came to nothing."""
    for attempt in range(_TRIES):
        if attempt:
            threading.Event().wait(random.uniform(0.05, 0.2))  # noqa: S311
        try:
            with transaction(), engine_connection().cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
                return body(cursor)
        except (OperationalError, IntegrityError, ProgrammingError) as error:
            # A lock is in the way, a row has just landed in DEFAULT, another replica was faster: the next try sees it.
            if isinstance(error, ProgrammingError) and not isinstance(
                error.__cause__, (DuplicateTable, UndefinedTable)
            ):
                raise
            log.info("partition_work_put_off", work=work, error=str(error).strip())
            PUT_OFF.labels(work).inc()
    return False


def _look(body: Callable[[Any], bool]) -> bool:
    """A look without locks; a partition that another replica drops meanwhile is neither needed nor empty."""
    try:
        with transaction(), engine_connection().cursor() as cursor:
            return body(cursor)
    except ProgrammingError as error:
        if isinstance(error.__cause__, UndefinedTable):
            return False
        raise
