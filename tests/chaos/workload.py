"""Definitions to run under chaos, each with what must come of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tests import flows
from tests.engine.comparing import Tasks, assert_same
from tests.engine.generator import Generator
from tests.engine.interpreter import Interpreter, Plan, Plans
from workflows.services import definitions

GIVEN = {"x": "given"}
_MOST_TASKS = 14


@dataclass(frozen=True)
class Ended:
    """What a run came to."""

    status: str
    output: Any
    variables: dict[str, Any]
    tasks: Tasks


@dataclass(frozen=True)
class Generated:
    """A random nesting, judged by the reference interpreter."""

    definition: dict[str, Any]
    plans: Plans

    def judge(self, ended: Ended) -> None:
        """Raise AssertionError when a run ended otherwise than it had to."""
        assert_same(
            self.definition, self.plans, GIVEN,
            status=ended.status, output=ended.output, variables=ended.variables, tasks=ended.tasks,
        )  # fmt: skip


@dataclass(frozen=True)
class Mixed:
    """A bit of everything that takes time: a timer, a program, a failing first attempt, a child, a loop."""

    definition: dict[str, Any]
    effects: int

    def judge(self, ended: Ended) -> None:
        assert ended.status == "COMPLETED"
        worked = [i for i, (status, out) in ended.tasks.items() if status == "COMPLETED" and set(out or ()) == {"n"}]
        assert len(worked) == self.effects, ended.tasks


Judged = Generated | Mixed


def generated(chance: random.Random, count: int) -> Iterator[Generated]:
    """Registered random definitions of 3 to 14 tasks."""
    while count:
        seed = chance.randrange(10**9)
        generator = Generator(seed, "chaos_planned")
        definition = generator.definition(depth=2, name=f"chaos_{seed}")
        if 3 <= len(Interpreter(definition, generator.plans, GIVEN).tasks) <= _MOST_TASKS:
            _write_plans(definition["tasks"], generator.plans)
            definitions.register(flows.NAMESPACE, definition, overwrite=True)
            yield Generated(definition, generator.plans)
            count -= 1


def _write_plans(tasks: list[dict[str, Any]], plans: Plans) -> None:
    """Put into each worker's input how its attempts end."""

    def write(ref: str, given: dict[str, Any]) -> None:
        given["plan"] = asdict(plans.get(ref, Plan([])))

    for task in tasks:
        if task["type"] == "SIMPLE":
            write(task["taskReferenceName"], task["inputParameters"])
        elif task["type"] == "FORK_JOIN_DYNAMIC":
            for ref, given in task["inputParameters"]["inputs"].items():
                write(ref, given)
        elif task["type"] == "SUB_WORKFLOW":
            _write_plans(task["subWorkflowParam"]["workflowDefinition"]["tasks"], plans)
        blocks = [*task.get("decisionCases", {}).values(), *task.get("forkTasks", [])]
        for block in [*blocks, task.get("defaultCase", []), task.get("loopOver", [])]:
            _write_plans(block, plans)


def mixed() -> Mixed:
    """Registered."""
    common = {"retryCount": 5, "retryDelaySeconds": 0, "responseTimeoutSeconds": 600}
    definitions.register_tasks(flows.NAMESPACE, [{"name": n, **common} for n in ("chaos_step", "chaos_flaky")])
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
    program = {
        "name": "j", "taskReferenceName": "j", "type": "JSON_JQ_TRANSFORM",
        "inputParameters": {"of": "${a.output.n}", "queryExpression": ".of + 1"},
    }  # fmt: skip
    branches = [[flows.simple("flaky", "chaos_flaky"), switch], [flows.child("child", leaf)], [loop], [wait, program]]
    name = flows.register(flows.simple("a", "chaos_step"), *flows.fork("f", *branches))
    return Mixed({"name": name}, 6)
