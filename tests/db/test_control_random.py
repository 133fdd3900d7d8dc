"""Random definitions that fail at random: retried until they complete, nothing is lost and nothing runs twice."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests import flows
from tests.flows import complete, drain, fork, lease, register, simple, start, status, unique
from workflows.models import Task
from workflows.services import control

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE
Leaves = Counter[tuple[str, str]]


class Maker:
    """Makes nested definitions, and says which leaves must have run well at their end."""

    def __init__(self, random: Random, queue: str) -> None:
        self.random = random
        self.queue = queue
        self.count = 0

    def ref(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def block(self, depth: int, iterations: list[str]) -> tuple[list[dict[str, Any]], Leaves]:
        tasks: list[dict[str, Any]] = []
        leaves: Leaves = Counter()
        for _ in range(self.random.randint(1, 3)):
            made, more = self.node(depth, iterations)
            tasks += made
            leaves += more
        return tasks, leaves

    def node(self, depth: int, iterations: list[str]) -> tuple[list[dict[str, Any]], Leaves]:
        kind = self.random.choice(["leaf", "leaf", "fork", "switch", "loop"] if depth else ["leaf"])
        if kind == "leaf":
            ref = self.ref("t")
            return [simple(ref, self.queue)], Counter({(ref, iteration): 1 for iteration in iterations})
        if kind == "fork":
            blocks = [self.block(depth - 1, iterations) for _ in range(self.random.randint(1, 3))]
            leaves: Leaves = Counter()
            for _, more in blocks:
                leaves += more
            return fork(self.ref("f"), *(tasks for tasks, _ in blocks)), leaves
        if kind == "switch":
            taken, leaves = self.block(depth - 1, iterations)
            ref = self.ref("s")
            other = simple(self.ref("t"), self.queue)
            return [{
                "name": ref, "taskReferenceName": ref, "type": "SWITCH", "evaluatorType": "value-param",
                "expression": "k", "inputParameters": {"k": "yes"}, "decisionCases": {"yes": taken, "no": [other]},
            }], leaves  # fmt: skip
        ref = self.ref("l")
        turns = [f"{outer}.{turn}".lstrip(".") for outer in iterations for turn in (1, 2)]
        body, leaves = self.block(depth - 1, turns)
        return [{
            "name": ref, "taskReferenceName": ref, "type": "DO_WHILE", "inputParameters": {},
            "loopCondition": f"$.{ref}['iteration'] < 2", "loopOver": body,
        }], leaves  # fmt: skip


def work_off(run: UUID, queue: str, random: Random, failing: float) -> int:
    """Report tasks in random order and groups, some as failed; retries the run until it completes."""
    retries = 0
    for _ in range(2000):
        drain()
        if status(run) == "COMPLETED":
            return retries
        if status(run) != "RUNNING":
            control.retry(NS, run, actor="ann")
            retries += 1
            continue
        tasks = lease(queue)
        assert tasks, f"nothing to do, but the run is {status(run)}: {flows.statuses(run)}"
        random.shuffle(tasks)
        while tasks:
            group = [tasks.pop() for _ in range(min(len(tasks), random.randint(1, 3)))]
            bad = [task for task in group if random.random() < failing]
            complete([task for task in group if task not in bad])
            if bad:
                complete(bad, status="FAILED_WITH_TERMINAL_ERROR")
                break
            if random.random() < 0.5:
                drain()
        if tasks:
            drain()
    raise AssertionError("the run does not come to an end")


def succeeded(run: UUID) -> Leaves:
    rows = Task.objects.filter(workflow_id=run, type="SIMPLE", status="COMPLETED")
    return Counter(rows.values_list("ref", "iteration"))


@pytest.mark.parametrize("seed", range(25))
def test_retries_lose_nothing_and_repeat_nothing(seed: int) -> None:
    random, queue = Random(seed), unique("q")
    tasks, leaves = Maker(random, queue).block(3, [""])
    run = start(register(*tasks))
    work_off(run, queue, random, failing=0.25)
    assert succeeded(run) == leaves


@pytest.mark.parametrize("seed", range(25))
def test_reruns_from_any_task_end_with_every_task_done_once(seed: int) -> None:
    random, queue = Random(1000 + seed), unique("q")
    tasks, leaves = Maker(random, queue).block(3, [""])
    run = start(register(*tasks))
    work_off(run, queue, random, failing=0)
    for _ in range(3):
        target = random.choice(list(Task.objects.filter(workflow_id=run).order_by("ref", "iteration", "attempt")))
        plan = control.preview_rerun(NS, run, target.id)
        before = {(t.ref, t.iteration): t.id for t in Task.objects.filter(workflow_id=run)}
        control.rerun(NS, run, task_id=target.id, actor="ann")
        work_off(run, queue, random, failing=0.1)
        assert succeeded(run) == leaves, f"rerun from {target.ref}@{target.iteration}"
        after = {(t.ref, t.iteration): t.id for t in Task.objects.filter(workflow_id=run)}
        for name in plan.kept:
            ref, _, iteration = name.partition("@")
            assert after[ref, iteration] == before[ref, iteration], f"{name} was promised to be kept"
