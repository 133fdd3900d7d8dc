"""Reads of people and clients on tables of real size: lists, searches, one run's page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.bench.filling import Sample
from orchestrator.bench.meters import percentile
from orchestrator.conf import conf
from orchestrator.errors import LimitExceeded
from workflows.services import browsing, reading
from workflows.services.searching import RUNS, TASKS, Search, Searchable, search

MOST_MS = 300.0
"""What the slowest in twenty reads may take."""
NEWEST = "startTime:DESC"
Read = Callable[[str, Sample], object]


def _search(what: Searchable, namespace: str, query: str, sort: str = "") -> object:
    return search(what, namespace, Search(query, sort=sort))


READS: dict[str, Read] = {
    "list: newest runs": lambda ns, s: browsing.list_runs(ns),
    "list: failed runs": lambda ns, s: browsing.list_runs(ns, status="FAILED"),
    "list: runs of a name": lambda ns, s: browsing.list_runs(ns, query=s.name),
    "list: a correlation id": lambda ns, s: browsing.list_runs(ns, query=s.correlation_id),
    "list: part of a name": lambda ns, s: browsing.list_runs(ns, query=s.name[6:]),
    "search: newest runs": lambda ns, s: _search(RUNS, ns, "", NEWEST),
    "search: name and status": lambda ns, s: _search(RUNS, ns, f"workflowType={s.name} AND status=FAILED", NEWEST),
    "search: running runs": lambda ns, s: _search(RUNS, ns, "status=RUNNING", NEWEST),
    "search: a correlation id": lambda ns, s: _search(RUNS, ns, f"correlationId={s.correlation_id}"),
    "search: a run's id": lambda ns, s: _search(RUNS, ns, f"workflowId={s.id}"),
    "search: tasks of a run": lambda ns, s: _search(TASKS, ns, f"workflowId={s.id}"),
    "search: failed tasks": lambda ns, s: _search(TASKS, ns, "status=FAILED", NEWEST),
    "client: running runs of a name": lambda ns, s: reading.running(ns, s.name, None),
    "client: runs by correlation id": lambda ns, s: reading.correlated(ns, s.name, s.correlation_id, closed=True),
    "detail: a run with its tasks": lambda ns, s: reading.get_whole_run(ns, s.id),
    "detail: a run's page": lambda ns, s: (
        browsing.get_run(ns, s.id),
        browsing.list_tasks(s.id),
        browsing.list_events(s.id),
    ),
}


@dataclass(frozen=True, slots=True)
class Timing:
    """One kind of read, over the samples."""

    read: str
    p50_ms: float
    p95_ms: float

    @property
    def met(self) -> bool:
        return self.p95_ms <= MOST_MS


def time_reads(samples: Sequence[Sample]) -> list[Timing]:
    """Each read for each sample."""
    namespace = conf().DEFAULT_NAMESPACE
    found = []
    for name, read in READS.items():
        times = []
        for sample in samples:
            begun = time.perf_counter()
            with suppress(LimitExceeded):  # it was cut off for its length, which is in the figure
                read(namespace, sample)
            times.append((time.perf_counter() - begun) * 1000)
        found.append(Timing(name, percentile(times, 0.5), percentile(times, 0.95)))
    return found
