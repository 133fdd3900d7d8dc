"""Advisory locks by registry, and the one order in which every path takes its locks.

A transaction never waits at a level at or below one it already holds, except inside the one sorted
statement of that level (INV-12).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import IntEnum

from orchestrator.db import sql
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("orchestrator", "locks.sql")


class Level(IntEnum):
    """The total order of locks; statements name theirs in `-- lock: LEVEL`."""

    SCHEDULE = 0
    IDEMPOTENCY = 1
    ADVISORY = 2
    GATE = 3
    EXECUTION = 4
    QUEUE = 5
    TASK = 6
    PER_TASK = 7
    PERMIT = 8
    TIMER = 9
    HISTORY = 10
    OUTBOX = 11


class Advisory(IntEnum):
    """Classes of advisory locks. Never reuse or renumber."""

    QUEUE = 1
    QUOTA = 2
    RATE_KEY = 3
    DEFINITION = 4
    PARTITIONS = 5
    MIGRATE = 6
    OFFLOADED = 7


def advisory_key(lock: Advisory, *parts: str) -> int:
    """The 64-bit key of a lock: its class in the high bits, a hash of its parts below."""
    digest = hashlib.blake2b("\x00".join(parts).encode(), digest_size=7).digest()
    return (int(lock) << 56) | int.from_bytes(digest, "big")


@requires_transaction
def take_advisory(keys: Iterable[int]) -> None:
    """Take transaction-scoped advisory locks, sorted by key, in a statement of their own. [INV-9, INV-12]"""
    _SQL.take_advisory.rows(keys=sorted(set(keys)))
