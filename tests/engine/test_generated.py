"""Random nestings against the reference interpreter, their tasks ended in random order and random groups."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.definitions import fork, loop, simple, switch, task
from tests.engine.interpreter import Interpreter
from tests.engine.simulator import Run


class Generator:
    """Makes a definition from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = 0

    def ref(self, stem: str) -> str:
        self.number += 1
        return f"{stem}{self.number}"

    def block(self, depth: int, least: int = 0) -> list[dict[str, Any]]:
        return [made for _ in range(self.random.randint(least, 3)) for made in self.tasks(depth)]

    def tasks(self, depth: int) -> list[dict[str, Any]]:
        kind = self.random.choice(["simple", "simple", "set"] + ["switch", "fork", "loop"] * (depth > 0))
        if kind == "simple":
            return [simple(self.ref("t"), optional=self.random.random() < 0.2)]
        if kind == "set":
            ref = self.ref("v")
            return [task("SET_VARIABLE", ref, inputParameters={ref: True})]
        if kind == "switch":
            case = self.random.choice(["a", "b", "none"])
            cases = {"a": self.block(depth - 1), "b": self.block(depth - 1)}
            return [switch(self.ref("s"), case, cases, self.block(depth - 1))]
        if kind == "loop":
            turns, ref = self.random.randint(1, 3), self.ref("l")
            return [{**loop(ref, turns, *self.block(depth - 1, least=1)), "turns": turns}]
        branches = [self.block(depth - 1) for _ in range(self.random.randint(1, 3))]
        inside = [made["taskReferenceName"] for branch in branches for made in branch if made["type"] != "JOIN"]
        named = self.random.choice([[], self.random.sample(inside, len(inside) // 2)])
        return fork(self.ref("f"), *branches, on=named)


def play(definition: dict[str, Any], seed: int) -> Run:
    """Run it to its end; a pass may see one ended task, or several."""
    chance = random.Random(seed)
    run = Run(definition, tasks={})
    for _ in range(20_000):
        ready = [t for t in run.tasks.values() if not t.status.terminal and t.type not in ("JOIN", "DO_WHILE")]
        if run.end or not ready:
            return run
        group = chance.sample(ready, chance.randint(1, len(ready)))
        for task_ in group:
            run.finish(task_.ref, {"n": task_.iteration}, iteration=task_.iteration, decide=False)
        run.step()
    raise AssertionError("the run does not end")


@given(seed=st.integers(0, 10**9), order=st.integers(0, 10**9))
@settings(max_examples=150, deadline=None)
def test_every_nesting_runs_what_the_interpreter_runs(seed: int, order: int) -> None:
    definition = {"name": "w", "tasks": Generator(seed).block(3, least=1)}
    expected = Interpreter(definition).ran
    run = play(definition, order)
    assert run.ended == "COMPLETED", run.stuck
    assert Counter(t.ref for t in run.tasks.values()) == expected
    assert all(t.status.terminal and t.consumed for t in run.tasks.values())


@pytest.mark.invariant("INV-10")
@given(seed=st.integers(0, 10**9), order=st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_a_run_that_loses_a_task_is_stuck_with_its_name_and_never_completed(seed: int, order: int) -> None:
    definition = {"name": "w", "tasks": Generator(seed).block(3, least=1)}
    run = Run(definition)
    chance = random.Random(order)
    lost = None
    while not run.end:
        ready = [t for t in run.tasks.values() if not t.status.terminal and t.type not in ("JOIN", "DO_WHILE")]
        if not ready:
            break
        chosen = chance.choice(ready)
        if lost is None and chance.random() < 0.3 and len(ready) > 1:
            lost = chosen
            del run.tasks[chosen.id]
        else:
            run.finish(chosen.ref, iteration=chosen.iteration)
    if lost is None:
        assert run.ended == "COMPLETED"
    elif not lost.iteration:
        assert run.end is None
        assert lost.ref in run.stuck
