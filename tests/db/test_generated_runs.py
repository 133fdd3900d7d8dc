"""Random nestings on PostgreSQL, through the real services, against the reference interpreter."""

from __future__ import annotations

from json import dumps
from random import Random
from typing import Any
from uuid import UUID

import pytest

from dispatch.services import dispatching
from dispatch.services.dispatching import TaskReport
from tests import flows
from tests.engine.comparing import Tasks, assert_same
from tests.engine.generator import Generator
from tests.engine.interpreter import Plans, work
from tests.flows import drain, lease, unique
from workflows.models import Execution, Task
from workflows.services import starting
from workflows.services.replaying import replay
from workflows.services.starting import StartRequest

pytestmark = pytest.mark.usefixtures("committed")
GIVEN = {"x": "given"}


def work_off(run: UUID, queue: str, plans: Plans, chance: Random) -> None:
    """Report leased tasks as planned, in random order and groups, until the run has ended."""
    for _ in range(2000):
        drain()
        if flows.status(run) != "RUNNING":
            return
        tasks = lease(queue, batch=chance.randint(1, 4))
        assert tasks, f"nothing to do, but the run goes on: {flows.statuses(run)}"
        chance.shuffle(tasks)
        reports = []
        for task in tasks:
            turn = tuple(int(number) for number in task.iteration.split(".") if number)
            status = plans[task.ref].status(turn, task.attempt) if task.ref in plans else "COMPLETED"
            output = work(task.ref, turn, task.input)
            reports.append(TaskReport(task.id, task.workflow_id, status, lease_token=task.lease_token, output=output))
        dispatching.report(reports, strict=True)
    raise AssertionError("the run does not come to an end")


def made(run: UUID, prefix: str = "") -> Tasks:
    """The tasks of a run and of its children."""
    found: Tasks = {}
    for task in Task.objects.filter(workflow_id=run):
        found[prefix + task.ref, task.iteration, task.attempt] = (task.status, task.output)
        if task.sub_workflow_id and Execution.objects.filter(id=task.sub_workflow_id).exists():
            found |= made(task.sub_workflow_id, f"{prefix}{task.ref}{task.iteration}/")
    return found


def compare(seed: int) -> None:
    generator = Generator(seed, unique("g"))
    definition: dict[str, Any] = generator.definition(depth=2, name=unique("generated"))
    run = starting.start(StartRequest(definition["name"], input=GIVEN, definition=definition))
    work_off(run, generator.queue, generator.plans, Random(seed))
    ended = Execution.objects.get(id=run)
    assert_same(
        definition, generator.plans, GIVEN,
        status=ended.status, output=ended.output, variables=ended.variables, tasks=made(run),
    )  # fmt: skip
    if '"joinOn": ["' not in dumps(definition):  # the order of what no join waits for is not recorded
        assert replay(run) == []


@pytest.mark.parametrize("seed", range(25))
def test_every_nesting_runs_what_the_interpreter_runs(seed: int) -> None:
    compare(seed)


@pytest.mark.stress
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_thousands_of_nestings_run_what_the_interpreter_runs(first: int) -> None:
    for seed in range(first, first + 100):
        compare(1000 + seed)
