"""What a measurement is made of: time, CPU of PostgreSQL and of our processes, WAL, memory, latencies."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import psycopg

from orchestrator.db.sql import load

SQL = {name: statement.text for name, statement in load("orchestrator.bench", "meters.sql").statements.items()}


@dataclass(frozen=True, slots=True)
class Figures:
    """One measurement of one workload; CPU and WAL are for each item, `memory` is each role's peak in bytes."""

    items: int
    seconds: float
    postgres_us: float
    python_us: float
    wal_bytes: float
    memory: dict[str, int] = field(default_factory=dict)
    more: dict[str, float] = field(default_factory=dict)
    """Further figures by name: p50_ms, p99_ms, flatness."""

    @property
    def per_second(self) -> float:
        return self.items / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.postgres_us + self.python_us


class Meter:
    """Measures a block. `roles` are our processes by role; offspring counts as well, and so does this process if named.

    PostgreSQL's CPU is its postmaster's and its children's, so the server must run on this machine.
    """

    def __init__(self, admin: psycopg.Connection[Any], roles: Mapping[str, Sequence[int]]) -> None:
        self._admin = admin
        self._roles = {role: [psutil.Process(pid) for pid in pids] for role, pids in roles.items()}

    def __enter__(self) -> Meter:
        self._wal, self._postmaster = _server(self._admin)
        self._before = self._cpu()
        self._begun = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._seconds = time.perf_counter() - self._begun
        if error is None:
            self._after = self._cpu()
            self._wal = _server(self._admin)[0] - self._wal
            self._memory = {
                role: max((peak_memory(one) for root in roots for one in family(root)), default=0)
                for role, roots in self._roles.items()
            }

    def figures(self, items: int, **more: float) -> Figures:
        """The block's figures, for each of `items`."""
        postgres, python = (after - before for before, after in zip(self._before, self._after, strict=True))
        return Figures(
            items, self._seconds, postgres / items * 1e6, python / items * 1e6, self._wal / items, self._memory, more
        )

    def _cpu(self) -> tuple[float, float]:
        ours = [one for roots in self._roles.values() for root in roots for one in family(root)]
        return sum(map(cpu_seconds, family(self._postmaster))), sum(map(cpu_seconds, ours))


def family(root: psutil.Process) -> list[psutil.Process]:
    """A process and its offspring."""
    try:
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(process: psutil.Process) -> float:
    """CPU a process has used, with that of its children who have ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + getattr(times, "children_user", 0) + getattr(times, "children_system", 0))


def peak_memory(process: psutil.Process) -> int:
    """The most memory a process has had resident; the present size where the system does not keep the peak."""
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _server(admin: psycopg.Connection[Any]) -> tuple[int, psutil.Process]:
    """(bytes of WAL so far, the postmaster)."""
    row = admin.execute(SQL["wal"]).fetchone()
    assert row is not None
    backend = psutil.Process(row[1])
    postmaster = backend.parent()
    assert postmaster is not None
    return int(row[0]), postmaster
