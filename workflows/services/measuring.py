"""Gauges that only the database knows: what was put aside, and how long work has waited."""

from __future__ import annotations

from prometheus_client import Gauge

from workflows.managers.measuring import MeasureQueries

QUARANTINED = Gauge(
    "ostinato_quarantined", "Put aside after too many failures: runs, timers, outbox events.", ["kind"],
    multiprocess_mode="mostrecent",
)  # fmt: skip
OLDEST = Gauge(
    "ostinato_oldest_seconds", "Age of the oldest that waits: pass, timer (past its time), delivery, task.", ["kind"],
    multiprocess_mode="mostrecent",
)  # fmt: skip

STRAYS = Gauge("ostinato_default_partition_rows", "Runs whose ids fit no month.", multiprocess_mode="mostrecent")


def measure() -> int:
    """Set the gauges; one timekeeper at a time speaks for all, the latest is right."""
    queries = MeasureQueries()
    for kind, number in queries.quarantined():
        QUARANTINED.labels(kind).set(number)
    for kind, seconds in queries.oldest():
        OLDEST.labels(kind).set(seconds)
    STRAYS.set(queries.strays())
    return 0
