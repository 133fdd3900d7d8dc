"""Wide fans on several deciders: the wake-up that is lost is the last one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import flows
from tests.chaos.campaign import WORKER
from tests.processes import LOOPS, Processes
from tests.support import eventually
from workflows.models import Execution
from workflows.services.sweeping import invariant_report

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.timeout(300)]


@pytest.mark.parametrize("rounds", [4, pytest.param(40, marks=pytest.mark.stress)], ids=["short", "full"])
def test_wide_fans_on_four_deciders_strand_no_run(tmp_path: Path, rounds: int) -> None:
    name = flows.register(*flows.fork("f", *[[flows.simple(f"b{i}", "chaos_step")] for i in range(40)]))
    environment = {"CHAOS_LEDGER": str(tmp_path / "ledger")}
    with Processes(**environment) as processes:
        for number in range(4):
            processes.start(f"decider-{number}", *LOOPS["decider"])
        for number in range(2):
            processes.start(f"worker-{number}", *WORKER)
        for _ in range(rounds):
            run = flows.start(name)
            eventually(lambda: flows.status(run) == "COMPLETED", 30)  # noqa: B023
    assert Execution.objects.filter(name=name, status="COMPLETED").count() == rounds
    assert {name: rows for name, rows in invariant_report().items() if rows} == {}
