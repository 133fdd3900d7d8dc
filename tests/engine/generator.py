"""Random nested definitions, with a plan of how their tasks end.

Expressions name only what has surely ended before, so that their values do not depend on the order of parallel things.
"""

from __future__ import annotations

import random
from typing import Any

from tests.engine.definitions import fork, loop, switch, task
from tests.engine.interpreter import Plan, Plans, blocks_of

Tasks = list[dict[str, Any]]


class Generator:
    """Makes a definition from a seed; `queue` names its workers' tasks, `calm` ones hold nothing that ends the run."""

    def __init__(self, seed: int, queue: str = "", *, calm: bool = False) -> None:
        self.random = random.Random(seed)
        self.queue = queue
        self.calm = calm
        self.number = 0
        self.plans: Plans = {}
        self.known: list[str] = []

    def ref(self, stem: str) -> str:
        self.number += 1
        return f"{stem}{self.number}"

    def definition(self, depth: int = 3, name: str = "w") -> dict[str, Any]:
        tasks = self.block(depth, least=1)
        return {"name": name, "version": 1, "tasks": tasks, "outputParameters": {"x": self.expression(), "y": 1}}

    def expression(self) -> Any:
        if not self.known:
            return self.random.choice([7, "${workflow.input.x}", "in ${workflow.input.x}"])
        source = self.random.choice(self.known)
        return self.random.choice([source, f"<{source}>", f"{source}/{self.random.choice(self.known)}"])

    def block(self, depth: int, least: int = 0, most: int = 3) -> Tasks:
        return [made for _ in range(self.random.randint(least, most)) for made in self.tasks(depth)]

    def tasks(self, depth: int) -> Tasks:
        leaves = ["simple"] * 4 + ["set", "dynamic"] + ["terminate"] * (not self.calm and self.random.random() < 0.2)
        nested = ["switch", "fork", "loop", "child"] * 2 if depth else []
        made: Tasks = getattr(self, self.random.choice(leaves + nested))(depth)
        return made

    def worker(self, stem: str = "t") -> dict[str, Any]:
        ref, retries = self.ref(stem), self.random.randint(0, 2)
        made = task(
            "SIMPLE", ref, name=self.queue or ref, retryCount=retries, taskDefinition={"retryDelaySeconds": 0},
            inputParameters={},
        )  # fmt: skip
        fate = self.random.random()
        turn = self.random.choice([None, 1, 2])
        if fate < 0.15:
            self.plans[ref] = Plan(["FAILED"] * retries, turn)
        elif fate < 0.3 or (fate < 0.33 and not self.calm):
            if fate < 0.3:
                made["permissive" if fate < 0.2 and not self.calm else "optional"] = True
            self.plans[ref] = Plan(
                self.random.choice([["FAILED"] * (retries + 1), ["FAILED_WITH_TERMINAL_ERROR"]]), turn
            )
        return made

    def simple(self, depth: int) -> Tasks:
        made = self.worker()
        made["inputParameters"] = {"x": self.expression()}
        self.known.append(f"${{{made['taskReferenceName']}.output.{self.random.choice(['of', 'pick'])}}}")
        return [made]

    def set(self, depth: int) -> Tasks:
        ref = self.ref("v")
        made = task("SET_VARIABLE", ref, inputParameters={ref: self.expression()})
        self.known.append(f"${{workflow.variables.{ref}}}")
        return [made]

    def terminate(self, depth: int) -> Tasks:
        status = self.random.choice(["COMPLETED", "FAILED", "TERMINATED"])
        given = {"terminationStatus": status, "workflowOutput": {"t": self.expression()}}
        return [task("TERMINATE", self.ref("end"), inputParameters=given)]

    def dynamic(self, depth: int) -> Tasks:
        ref = self.ref("d")
        made = [self.worker("b") for _ in range(self.random.choice([0, 1, 3]))]
        self.known += [f"${{{ref}_join.output.{b['taskReferenceName']}.of}}" for b in made]
        return [
            task("FORK_JOIN_DYNAMIC", ref, dynamicForkTasksParam="tasks", dynamicForkTasksInputParamName="inputs",
                 inputParameters={"tasks": made, "inputs": {b["taskReferenceName"]: {"x": 3} for b in made}}),
            task("JOIN", f"{ref}_join", joinOn=[]),
        ]  # fmt: skip

    def switch(self, depth: int) -> Tasks:
        picks = [source for source in self.known if source.endswith("pick}")]
        case = self.random.choice(["a", "b", "none", *picks])
        cases = {key: self.block(depth - 1) for key in ("a", "b")}
        return [switch(self.ref("s"), case, cases, self.block(depth - 1))]

    def loop(self, depth: int) -> Tasks:
        ref, turns = self.ref("l"), self.random.randint(0, 3)
        made = loop(ref, max(turns, 1), *self.block(depth - 1, least=1, most=2))
        if self.random.random() < 0.4:
            made["items"] = [f"item{number}" for number in range(turns)]
            del made["loopCondition"]
        self.known.append(f"${{{ref}.output.iteration}}")
        return [made]

    def fork(self, depth: int) -> Tasks:
        before = list(self.known)
        branches, seen = [], []
        for _ in range(self.random.randint(1, 3)):
            self.known = list(before)  # branches run side by side: none sees another
            branches.append(self.block(depth - 1))
            seen += self.known[len(before) :]
        named = [ref for branch in branches for ref in _nameable(branch)]
        on = self.random.sample(named, len(named) // 2) if self.random.random() < 0.4 else []
        self.known = before if on else before + seen
        return fork(self.ref("f"), *branches, on=on)

    def child(self, depth: int) -> Tasks:
        ref, outer, calm = self.ref("c"), self.known, self.calm
        given = {"x": self.expression()}
        self.known, self.calm = [], True
        inner = self.definition(depth - 1, name=ref)
        self.known, self.calm = [*outer, f"${{{ref}.output.x}}"], calm
        return [
            task(
                "SUB_WORKFLOW", ref, subWorkflowParam={"name": ref, "workflowDefinition": inner}, inputParameters=given
            )
        ]


def _nameable(block: Tasks) -> list[str]:
    """Refs that a join may wait for: tasks and switches of a branch, those of cases too, at its own turn."""
    found = [
        made["taskReferenceName"]
        for made in block
        if made["type"] not in ("FORK_JOIN", "FORK_JOIN_DYNAMIC", "TERMINATE")
    ]
    return found + [ref for made in block if made["type"] == "SWITCH" for b in blocks_of(made) for ref in _nameable(b)]
