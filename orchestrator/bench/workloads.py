"""Workloads of `manage.py bench`: what is measured, on the real services and a real database."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connections

from orchestrator.bench.children import cpu_seconds, decide, work
from orchestrator.conf import conf
from orchestrator.db.ids import new_id
from workflows.models import Execution
from workflows.services import definitions
from workflows.services.starting import StartRequest, start

_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Result:
    """One workload's figures; CPU is Python's own, PostgreSQL's is not in it."""

    workload: str
    items: int
    seconds: float
    python_us: float
    wal_bytes: float

    @property
    def per_second(self) -> float:
        return self.items / self.seconds


def chain(runs: int, batch: int, processes: int = 1) -> Result:
    """W1: chains of five steps, each its own task, with `processes` deciders and as many workers."""
    tag = new_id().hex[-8:]
    steps = [
        {"name": f"bench_{tag}", "taskReferenceName": f"s{i}", "type": "SIMPLE", "inputParameters": {"i": i, "p": "x" * 40}}
        for i in range(5)
    ]
    return _drive("W1 chain of 5", f"bench_chain_{tag}", f"bench_{tag}", steps, runs, 5, batch, processes)


def fan_out(runs: int, width: int, batch: int, processes: int = 1) -> Result:
    """W2: one fork of `width` branches and a join."""
    tag = new_id().hex[-8:]
    branches = [[{"name": f"bench_{tag}", "taskReferenceName": f"b{i}", "type": "SIMPLE"}] for i in range(width)]
    tasks: list[dict[str, Any]] = [
        {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": branches},
        {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": []},
    ]
    name = f"W2 {runs} x fan-out {width} + join"
    return _drive(name, f"bench_fan_{tag}", f"bench_{tag}", tasks, runs, width, batch, processes)


def starts(count: int) -> Result:
    """W3: starts, one by one, from one client."""
    name = f"bench_start_{new_id().hex[-8:]}"
    _register(name, [{"name": "s", "taskReferenceName": "s", "type": "SIMPLE"}])
    wal, cpu, begun = _wal(), cpu_seconds(), time.perf_counter()
    for _ in range(count):
        start(StartRequest(name, namespace=conf().DEFAULT_NAMESPACE))
    return _result("W3 starts, single", count, begun, cpu_seconds() - cpu, wal)


def _drive(
    workload: str, name: str, queue: str, tasks: list[dict[str, Any]], runs: int, each: int, batch: int, processes: int
) -> Result:
    _register(name, tasks)
    for _ in range(runs):
        start(StartRequest(name, namespace=conf().DEFAULT_NAMESPACE))
    stop, ready, cpu = _SPAWN.Event(), _SPAWN.Barrier(2 * processes + 1), _SPAWN.Queue()
    targets: list[tuple[Callable[..., None], Any]] = [(decide, None), (work, queue)] * processes
    children = [_SPAWN.Process(target=target, args=(argument, batch, stop, ready, cpu)) for target, argument in targets]
    for child in children:
        child.start()
    ready.wait(60)
    wal, begun = _wal(), time.perf_counter()
    while Execution.objects.filter(name=name, ended_at=None).exists():
        time.sleep(0.02)
    seconds = time.perf_counter() - begun
    stop.set()
    used = sum(cpu.get(timeout=30) for _ in children)
    for child in children:
        child.join(30)
    total = runs * each
    return Result(workload, total, seconds, used / total * 1e6, (_wal() - wal) / total)


def _register(name: str, tasks: list[dict[str, Any]]) -> None:
    definitions.register(conf().DEFAULT_NAMESPACE, {"name": name, "version": 1, "tasks": tasks}, overwrite=True)


def _result(workload: str, items: int, begun: float, cpu: float, wal: int) -> Result:
    seconds = time.perf_counter() - begun
    return Result(workload, items, seconds, cpu / items * 1e6, (_wal() - wal) / items)


def _wal() -> int:
    with connections[conf().DATABASE].cursor() as cursor:
        cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
        return int(cursor.fetchone()[0])
