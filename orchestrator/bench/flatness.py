"""W9: whether a pass costs as much at the end of a long run as at its beginning."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from django.core.management.base import CommandError

from orchestrator.bench.crew import QUEUE_NAME
from orchestrator.bench.meters import Figures
from orchestrator.bench.stage import Stage
from orchestrator.bench.worker import work_once
from orchestrator.db.sql import OBSERVERS
from workflows.services.evaluation import evaluate_next_batch

_BATCH = 50


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: its time, and the statements it sent."""

    seconds: float
    statements: int


def chain(stage: Stage) -> Figures:
    """One chain of 200 steps."""
    return _drive(stage, "bench_chain_200", {})


def long_run(stage: Stage) -> Figures:
    """One run of 30,000 tasks: a fan of 100, again and again."""
    return _drive(stage, "bench_turns", {"turns": stage.size(300, 8)})


def _drive(stage: Stage, name: str, given: dict[str, Any]) -> Figures:
    """Decider and worker take turns in this process, so that each pass can be timed by itself."""
    stage.empty()
    stage.start(name, given)
    stage.analyze()
    with stage.meter({"bench": [os.getpid()]}) as meter:
        passes = _run_to_the_end(stage)
    time_ratio, statement_ratio = (
        _last_to_first([getattr(one, field) for one in passes]) for field in ("seconds", "statements")
    )
    statements = fmean(one.statements for one in passes)
    return meter.figures(stage.finished(), flat_time=time_ratio, flat_statements=statement_ratio, statements=statements)


def _run_to_the_end(stage: Stage) -> list[Pass]:
    passes: list[Pass] = []
    sent: list[str] = []

    def note(name: str, _: dict[str, Any]) -> None:
        sent.append(name)

    OBSERVERS.append(note)
    try:
        while True:
            sent.clear()
            begun = time.perf_counter()
            claimed = evaluate_next_batch()
            if claimed:
                passes.append(Pass(time.perf_counter() - begun, len(sent)))
            elif not work_once(QUEUE_NAME, _BATCH):
                break
    finally:
        OBSERVERS.remove(note)
    if stage.unended():
        raise CommandError("bench: the run came to rest before its end")
    return passes


def _last_to_first(values: list[float]) -> float:
    """The mean of the last quarter over that of the first; the very first and last pass are apart."""
    middle = values[1:-1]
    quarter = max(1, len(middle) // 4)
    return fmean(middle[-quarter:]) / fmean(middle[:quarter])
