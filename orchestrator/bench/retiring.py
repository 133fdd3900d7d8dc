"""Retention at work beside a steady load: how long starts and steps have to wait before, while and after a month goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.core.management.base import CommandError
from django.db import connections

from orchestrator.bench.crew import Crew, Shape
from orchestrator.bench.filling import fill
from orchestrator.bench.meters import SQL
from orchestrator.bench.stage import Stage
from workflows import partitions
from workflows.services.retention import cutoffs, retire

_RATE = 50
_LEAST_SECONDS = 10.0
_MOST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Stall:
    """What a phase made runs wait: each start, and each step from the end of the one before."""

    phase: str
    starts_ms: list[float]
    steps_ms: list[float]


def measure(stage: Stage, runs: int, say: Callable[[str], None]) -> list[Stall]:
    """Fill a month that need not be kept, then start chains of five all the time: alone, and while retention takes it."""
    crew = stage.crew(Shape())
    month = _old_month()
    with connections["default"].cursor() as cursor:
        for table in partitions.KEYS:
            partitions.create(cursor, table, month)
    assert month.start is not None
    fill(stage.admin, runs, say, first=month.start, states=("COMPLETED",))
    with crew.working():
        alone = _phase(stage, crew, "load alone", lambda: None)
        beside = _phase(stage, crew, "while retention takes it", lambda: _retire(say))
    return [alone, beside]


def _old_month() -> partitions.Month:
    """The last month that ended before all that is kept."""
    now = datetime.now(UTC)
    until = cutoffs(now)
    kept = min(until.completed, until.failed)
    first = (kept.replace(day=1) - timedelta(days=1)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return partitions.Month(f"{first:%Y%m}", first, (first + timedelta(days=32)).replace(day=1))


def _retire(say: Callable[[str], None]) -> None:
    begun, gone = time.monotonic(), 0
    while done := retire():
        gone += done
        if time.monotonic() - begun > _MOST_SECONDS:
            raise CommandError(f"bench: retention was not done after {_MOST_SECONDS:.0f} s")
    say(f"retention took {gone:,} months and runs in {time.monotonic() - begun:.1f} s")


def _phase(stage: Stage, crew: Crew, name: str, work: Callable[[], None]) -> Stall:
    """Starts at a steady rate in a thread for as long as the work takes."""
    since = stage.admin.execute("SELECT clock_timestamp()").fetchone()
    done, starts = threading.Event(), list[float]()

    def load() -> None:
        begun = time.monotonic()
        while not done.wait(max(0.0, begun + len(starts) / _RATE - time.monotonic())):
            before = time.perf_counter()
            stage.start("bench_chain_5")
            starts.append((time.perf_counter() - before) * 1000)
        connections.close_all()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        begun = time.monotonic()
        work()
        time.sleep(max(0.0, begun + _LEAST_SECONDS - time.monotonic()))
    finally:
        done.set()
        thread.join()
    stage.wait_for_ends(crew)
    steps = [row[0] * 1000 for row in stage.admin.execute(SQL["steps_since"], since)]
    return Stall(name, starts, steps)
