"""Processes are killed without warning while runs are under way; every run reaches its right end."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests import flows
from tests.processes import LOOPS, Processes
from tests.support import eventually
from workflows.models import Execution, Task
from workflows.services import definitions
from workflows.services.sweeping import invariant_report, sweep

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.timeout(300)]
WORKER = ["run_worker", "tests.chaos.tasks", "--idle-seconds", "0.1", "--threads", "4"]
ROLES = ("decider", "relay", "timekeeper", "worker", "web")


def mixed() -> tuple[str, int]:
    """A definition with a bit of everything, and how many of its tasks have a side effect."""
    definitions.register_tasks(
        flows.NAMESPACE,
        [
            {"name": "chaos_step", "retryCount": 5, "retryDelaySeconds": 0, "responseTimeoutSeconds": 60},
            {"name": "chaos_flaky", "retryCount": 5, "retryDelaySeconds": 0, "responseTimeoutSeconds": 60},
        ],
    )
    leaf = flows.register(flows.simple("leaf", "chaos_step"))
    switch = {
        "name": "s", "taskReferenceName": "s", "type": "SWITCH", "evaluatorType": "value-param", "expression": "v",
        "inputParameters": {"v": "${a.output.n}"}, "decisionCases": {"1": [flows.simple("one", "chaos_step")]},
        "defaultCase": [flows.simple("never", "nobody")],
    }  # fmt: skip
    loop = {
        "name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "$.l['iteration'] < 2",
        "loopOver": [flows.simple("body", "chaos_step")],
    }  # fmt: skip
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1 second"}}
    branches = [[flows.simple("flaky", "chaos_flaky"), switch], [flows.child("child", leaf)], [loop], [wait]]
    return flows.register(flows.simple("a", "chaos_step"), *flows.fork("f", *branches)), 6


@pytest.mark.parametrize(
    ("runs", "rounds"), [(20, 1), pytest.param(200, 5, marks=pytest.mark.stress)], ids=["short", "full"]
)
def test_killed_processes_lose_and_double_nothing(tmp_path: Path, runs: int, rounds: int) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    name, effects = mixed()
    ledger = tmp_path / "ledger"
    ledger.touch()
    environment = {"CHAOS_LEDGER": str(ledger), "OSTINATO_LEASE_SECONDS": "3", "OSTINATO_DEMO_OPEN": "true"}
    with Processes(**environment) as processes:
        for role, command in {**LOOPS, "worker": WORKER}.items():
            processes.start(role, *command)
        processes.start_web()
        ids = [processes.request("POST", f"/api/workflow/{name}", {"i": i})[1] for i in range(runs)]
        assert len(set(ids)) == runs
        for _ in range(rounds):
            for role in chance.sample(ROLES, len(ROLES)):
                before = Task.objects.filter(ended_at__isnull=False).count()
                eventually(lambda: Task.objects.filter(ended_at__isnull=False).count() > before or done(name), 30)  # noqa: B023
                processes.kill(role)
                processes.start(role)
        eventually(lambda: done(name), 120)
    assert Counter(Execution.objects.filter(name=name).values_list("status", flat=True)) == {"COMPLETED": runs}
    lines = ledger.read_text().splitlines()
    assert len(lines) == len(set(lines)), "a hand-out ran twice"
    worked = Task.objects.filter(name__in=["chaos_step", "chaos_flaky"], status="COMPLETED").count()
    assert worked == runs * effects
    assert {name: rows for name, rows in invariant_report().items() if rows} == {}
    assert sweep() == 0


def done(name: str) -> bool:
    return not Execution.objects.filter(name=name, ended_at=None).exists()


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
