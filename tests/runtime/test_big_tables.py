"""The fill of the bench makes what the engine would have made, and the engine goes on from there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from orchestrator.bench import definitions
from orchestrator.bench.crew import QUEUE_NAME
from orchestrator.bench.filling import NAMES, STEPS, Sample, fill
from orchestrator.bench.plans import check_plans
from orchestrator.bench.reads import READS, time_reads
from orchestrator.bench.stage import Stage
from orchestrator.runtime.wakeup import direct_conninfo
from tests import flows
from workflows.models import Execution, HistoryEvent, Task
from workflows.services.sweeping import invariant_report


@pytest.fixture
def stage(committed: None) -> Iterator[Stage]:
    definitions.register_all()
    found = Stage(direct_conninfo())
    yield found
    found.close()


def test_filled_runs_keep_the_invariants_and_go_on(stage: Stage) -> None:
    said: list[str] = []
    samples = fill(stage.admin, 200, said.append)
    assert said[-1].startswith("200 of 200 runs")
    assert Execution.objects.count() == 200
    counts = {status: Execution.objects.filter(status=status).count() for status in ("COMPLETED", "FAILED", "RUNNING")}
    assert counts == {"COMPLETED": 194, "FAILED": 4, "RUNNING": 2}
    assert Task.objects.count() == 194 * STEPS + 4 * (STEPS // 2) + 2 * (STEPS // 3 + 1)
    assert len({event.id for event in HistoryEvent.objects.all()}) == HistoryEvent.objects.count()
    assert not any(invariant_report().values())
    check_samples(samples)
    running = list(Execution.objects.filter(status="RUNNING").values_list("id", flat=True))
    flows.finish([QUEUE_NAME])
    assert [flows.status(run) for run in running] == ["COMPLETED"] * 2
    assert not any(invariant_report().values())


def check_samples(samples: list[Sample]) -> None:
    assert len(samples) == 50
    for sample in samples:
        run: Any = Execution.objects.get(id=sample.id)
        assert (run.name, run.correlation_id) == (sample.name, sample.correlation_id)
    assert len({sample.name for sample in samples}) <= NAMES
    assert UUID(int=0) not in {sample.id for sample in samples}


def test_reads_find_what_was_filled(stage: Stage) -> None:
    samples = fill(stage.admin, 100, lambda line: None)
    assert [one.read for one in time_reads(samples[:2])] == list(READS)
    assert READS["list: a correlation id"]("default", samples[3]).runs[0].id == samples[3].id  # type: ignore[attr-defined]


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_no_statement_reads_a_large_table_whole(stage: Stage) -> None:
    fill(stage.admin, 20_000, lambda line: None)
    plans = check_plans(stage.admin)
    assert len(plans) >= 40
    assert not [plan for plan in plans if plan.scanned]


@pytest.mark.stress
def test_a_lost_index_is_noticed(stage: Stage) -> None:
    """The check checks: without its index a statement is named."""
    fill(stage.admin, 2000, lambda line: None)
    stage.admin.execute("SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off")
    scanned = {table for plan in check_plans(stage.admin) for table in plan.scanned}
    assert any(table.startswith("workflows_task_p") for table in scanned)
