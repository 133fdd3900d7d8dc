"""The workloads of `manage.py bench`, on the real services and a real database."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from django.db import connections, transaction

from orchestrator.bench import bare, flatness
from orchestrator.bench.bare import Shape as BareShape
from orchestrator.bench.crew import Crew, Shape
from orchestrator.bench.meters import SQL, Figures, percentile
from orchestrator.bench.stage import Stage
from orchestrator.conf import conf
from orchestrator.db.ids import new_id
from workflows import start_workflow

_ONE = Shape()
_TWO = Shape(2, 2, 200)
_WEB = Shape(1, 0, 50, web=True)
_START_BATCH = 100
_RATE = 10
_KILOBYTE = "y" * 1000


@dataclass(frozen=True, slots=True)
class Workload:
    """One row of the table: how the engine is measured, and the bare pipeline beside it."""

    key: str
    title: str
    measure: Callable[[Stage], Figures]
    bare: Callable[[Stage], Figures] | None = None
    unit: str = "tasks"


def _chain(shape: Shape) -> Callable[[Stage], Figures]:
    return lambda stage: stage.drive(shape, "bench_chain_5", [{}] * stage.size(1000))


def _bare_chain(shape: Shape = _ONE, payload: int = 40) -> Callable[[Stage], Figures]:
    processes = max(1, shape.workers)
    return lambda stage: bare.run(
        stage.url, BareShape(stage.size(1000), payload=payload), batch=shape.batch, processes=processes
    )


def _bare_fan(runs: int, width: int) -> Callable[[Stage], Figures]:
    """Either one is made smaller where there is a choice: many runs, or the width of a single one."""

    def measure(stage: Stage) -> Figures:
        shape = BareShape(stage.size(runs), fan=width) if runs > 1 else BareShape(1, fan=stage.size(width, 10))
        return bare.run(stage.url, shape, batch=50, processes=1)

    return measure


def _fan(stage: Stage) -> Figures:
    return stage.drive(_ONE, "bench_fan_100", [{}] * stage.size(50))


def _dynamic(stage: Stage) -> Figures:
    return stage.drive(_ONE, "bench_dynamic", [{"items": [{"i": i} for i in range(stage.size(10_000, 10))]}])


def _mixed(stage: Stage) -> Figures:
    inputs = [{"id": i, "who": "Ann", "amount": i % 200, "text": _KILOBYTE} for i in range(stage.size(300))]
    return stage.drive(_ONE, "bench_mixed", inputs)


def _fan_in(stage: Stage) -> Figures:
    return stage.drive(Shape(4, 1), "bench_fan_1000", [{}] * stage.size(5))


def _starts(batch: int) -> Callable[[Stage], Figures]:
    def measure(stage: Stage) -> Figures:
        count = stage.size(20 if batch > 1 else 1000)
        stage.empty()
        stage.start("bench_waiting")
        with stage.meter({"client": [os.getpid()]}) as meter:
            for _ in range(count):
                if batch == 1:
                    stage.start("bench_waiting")
                    continue
                with transaction.atomic(using=conf().DATABASE):
                    for _ in range(batch):
                        start_workflow("bench_waiting")
        return meter.figures(count * batch)

    return measure


def _bare_starts(batch: int) -> Callable[[Stage], Figures]:
    return lambda stage: bare.starts(stage.url, stage.size(20 if batch > 1 else 1000) * batch, batch=batch)


def _starts_over_http(stage: Stage) -> Figures:
    crew, count = stage.crew(_WEB), stage.size(500)
    stage.empty()
    with closing(http.client.HTTPConnection("127.0.0.1", crew.port, timeout=30)) as client:
        _post(client, "/api/workflow/bench_waiting")
        with stage.meter({"web": crew.pids()["web"]}) as meter:
            for _ in range(count):
                _post(client, "/api/workflow/bench_waiting")
        return meter.figures(count)


def _post(client: http.client.HTTPConnection, path: str) -> None:
    client.request("POST", path, json.dumps({}), {"Content-Type": "application/json"})
    answer = client.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} answered {answer.status}: {body[:500]!r}")


def _starts_in_transaction(stage: Stage) -> Figures:
    """An order and its run in one transaction of the caller's."""
    stage.empty()
    stage.admin.execute(SQL["create_orders"])
    count = stage.size(500)
    with stage.meter({"client": [os.getpid()]}) as meter:
        for _ in range(count):
            with transaction.atomic(using=conf().DATABASE):
                _order()
                start_workflow("bench_waiting", {"order": "A-1"})
    return meter.figures(count)


def _bare_orders(stage: Stage) -> Figures:
    """The order alone."""
    stage.admin.execute(SQL["create_orders"])
    count = stage.size(500)
    with stage.meter({"client": [os.getpid()]}) as meter:
        for _ in range(count):
            with transaction.atomic(using=conf().DATABASE):
                _order()
    return meter.figures(count)


def _order() -> None:
    with connections[conf().DATABASE].cursor() as cursor:
        cursor.execute(SQL["order"], {"id": new_id()})


def _latency(stage: Stage) -> Figures:
    """Runs at a steady, low rate: from the end of a step to the start of the next, and from start to end."""
    crew, count = stage.crew(_ONE), stage.size(10 * _RATE, 5)
    stage.empty()
    stage.analyze()
    with stage.meter(crew.pids()) as meter, crew.working():
        begun = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, begun + number / _RATE - time.monotonic()))
            stage.start("bench_chain_5")
        stage.wait_for_ends(crew)
    steps, runs = ([row[0] * 1000 for row in stage.admin.execute(SQL[name])] for name in ("steps", "runs"))
    return meter.figures(
        stage.finished(),
        p50_ms=percentile(steps, 0.5), p99_ms=percentile(steps, 0.99), run_p50_ms=percentile(runs, 0.5),
    )  # fmt: skip


def _http(connections_: int, batch: int, runs: int) -> Callable[[Stage], Figures]:
    def measure(stage: Stage) -> Figures:
        crew: Crew = stage.crew(_WEB)
        with crew.http_workers(connections_, batch):
            return stage.drive(_WEB, "bench_chain_5", [{}] * stage.size(runs))

    return measure


WORKLOADS = (
    Workload("W1", f"chain of 5, {_ONE}", _chain(_ONE), _bare_chain()),
    Workload("W1x2", f"chain of 5, {_TWO}", _chain(_TWO), _bare_chain(_TWO)),
    Workload("W2", "50 x fan-out 100 + join", _fan, _bare_fan(50, 100)),
    Workload("W3", "starts, one client, single", _starts(1), _bare_starts(1), "starts"),
    Workload(
        "W3b", f"starts, one client, batch {_START_BATCH}", _starts(_START_BATCH), _bare_starts(_START_BATCH), "starts"
    ),
    Workload("W3h", "starts over HTTP, single", _starts_over_http, _bare_starts(1), "starts"),
    Workload("W4", "dynamic fork of 10,000", _dynamic, _bare_fan(1, 10_000)),
    Workload("W5", "mixed, 1 kB payloads", _mixed, _bare_chain(payload=1000)),
    Workload("W6", f"latency at {_RATE} runs/s", _latency),
    Workload("W7", "HTTP workers, batched", _http(2, 50, 600), _bare_chain()),
    Workload("W8", "HTTP workers, one by one, 64 connections", _http(64, 1, 300), _bare_chain()),
    Workload("W9", "chain of 200, pass by pass", flatness.chain),
    Workload("W9l", "run of 30,000 tasks, pass by pass", flatness.long_run),
    Workload("W10", "starts inside a caller's transaction", _starts_in_transaction, _bare_orders, "starts"),
    Workload("N2", f"chain of 5, {Shape(2, 1)}", _chain(Shape(2, 1)), _bare_chain()),
    Workload("N4", f"chain of 5, {Shape(4, 1)}", _chain(Shape(4, 1)), _bare_chain()),
    Workload("N4f", "fan-in of 1,000 with 4 deciders", _fan_in, _bare_fan(5, 1000)),
)
