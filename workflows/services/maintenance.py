"""Upkeep of the tables of runs."""

from __future__ import annotations

from datetime import UTC, datetime

import structlog
from django.db import OperationalError

from orchestrator.db.sql import engine_connection
from orchestrator.db.transactions import transaction
from workflows.partitions import ensure_partitions

log = structlog.get_logger(__name__)


def roll_partitions() -> int:
    """Make the months ahead; under a short lock time-out, so that nothing queues up behind it."""
    try:
        with transaction(), engine_connection().cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '50ms'")
            made = ensure_partitions(cursor, datetime.now(UTC))
    except OperationalError as error:
        log.warning("partitions_put_off", error=str(error).strip())
        return 0
    if made:
        log.info("partitions_made", names=made)
    return 0
