"""Random nestings against the reference interpreter, their tasks ended in random order and random groups."""

from __future__ import annotations

import random
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.comparing import Tasks, assert_same
from tests.engine.generator import Generator
from tests.engine.interpreter import Plans, work
from tests.engine.simulator import Run, evaluate
from workflows.engine.decider import decide
from workflows.engine.state import State, TaskView

GIVEN = {"x": "given"}
_CONTAINERS = ("JOIN", "DO_WHILE")
seeds = st.integers(0, 10**9)


def play(run: Run, plans: Plans, chance: random.Random, tasks: Tasks, prefix: str = "") -> Run:
    """Run it to its end; a pass may see one ended task, or several."""
    for _ in range(20_000):
        ready = [t for t in run.tasks.values() if not t.status.terminal and t.type not in _CONTAINERS]
        if run.end or not ready:
            tasks |= {(prefix + t.ref, t.iteration, t.attempt): (t.status.value, t.output) for t in run.tasks.values()}
            return run
        for task in chance.sample(ready, chance.randint(1, len(ready))):
            finish(run, task, plans, chance, tasks, prefix)
        run.step()
    raise AssertionError("the run does not end")


def finish(run: Run, task: TaskView, plans: Plans, chance: random.Random, tasks: Tasks, prefix: str) -> None:
    turn = tuple(int(number) for number in task.iteration.split(".") if number)
    status = plans[task.ref].status(turn, task.attempt) if task.ref in plans else "COMPLETED"
    if task.type == "SUB_WORKFLOW":
        inner = run.blueprint.nodes[task.ref].spec["subWorkflowParam"]["workflowDefinition"]
        below = play(
            Run(inner, task.input["workflowInput"]), plans, chance, tasks, f"{prefix}{task.ref}{task.iteration}/"
        )
        assert below.end is not None, below.stuck
        status, output = below.ended, below.end.output
    else:
        output = work(task.ref, turn, task.input)
    run.finish(task.ref, output, status, iteration=task.iteration, decide=False)


def compare(seed: int, order: int) -> None:
    generator = Generator(seed)
    tasks: Tasks = {}
    definition = generator.definition()
    run = play(Run(definition, GIVEN), generator.plans, random.Random(order), tasks)
    assert run.end is not None, run.stuck
    assert_same(
        definition, generator.plans, GIVEN,
        status=run.ended, output=run.end.output, variables=run.view.variables, tasks=tasks,
    )  # fmt: skip


@given(seed=seeds, order=seeds)
@settings(max_examples=250, deadline=None)
def test_every_nesting_runs_what_the_interpreter_runs(seed: int, order: int) -> None:
    compare(seed, order)


@pytest.mark.stress
@given(seed=seeds, order=seeds)
@settings(max_examples=5000, deadline=None)
def test_thousands_of_nestings_run_what_the_interpreter_runs(seed: int, order: int) -> None:
    compare(seed, order)


@given(seed=seeds, order=seeds)
@settings(max_examples=40, deadline=None)
def test_a_decision_does_not_depend_on_the_order_of_its_rows(seed: int, order: int) -> None:
    generator, chance = Generator(seed), random.Random(order)
    run = Run(generator.definition(), GIVEN)
    for _ in range(20):
        ready = [t for t in run.tasks.values() if not t.status.terminal and t.type not in _CONTAINERS]
        if run.end or not ready:
            return
        for task in chance.sample(ready, chance.randint(1, len(ready))):
            finish(run, task, generator.plans, chance, {}, "")
        decisions = []
        for _ in range(2):
            rows = list(run.tasks.values())
            chance.shuffle(rows)
            fresh = iter(range(10**6, 10**7))
            state = State(
                run.view, tuple(rows), frozenset(run.blueprint.nodes) | {t.ref for t in rows}, run.now, {},
                lambda fresh=fresh: UUID(int=next(fresh)),
            )  # fmt: skip
            decision = decide(run.blueprint, state, evaluate)
            decisions.append(replace(decision, commands=tuple(sorted(decision.commands, key=repr))))
        assert decisions[0] == decisions[1]
        run.step()


@pytest.mark.invariant("INV-10")
@given(seed=st.integers(0, 10**9), order=st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_a_run_that_loses_a_task_is_stuck_with_its_name_and_never_completed(seed: int, order: int) -> None:
    definition = Generator(seed, calm=True).definition()
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
        named = lost.ref if lost.spec is None else run.blueprint.nodes[lost.state["fork"]].join.ref
        assert named in run.stuck
