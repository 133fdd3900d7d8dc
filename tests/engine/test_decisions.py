"""What decisions carry: determinism, reads, queues, children, deadlines, templates."""

from __future__ import annotations

import sys
from itertools import count
from typing import Any
from uuid import UUID

from tests.engine.definitions import fork, loop, run, simple, switch, task
from tests.engine.simulator import Run, evaluate
from workflows.engine.blueprint import compile
from workflows.engine.commands import Decision, ScheduleTask
from workflows.engine.decider import decide
from workflows.engine.state import State


def decision(r: Run) -> Decision:
    """The decision of a run as it stands, with ids counted from one."""
    numbers = count(1)
    state = State(
        r.view, tuple(r.tasks.values()), frozenset(r.blueprint.nodes), r.now, {}, lambda: UUID(int=next(numbers))
    )
    return decide(r.blueprint, state, evaluate)


def test_the_same_state_gives_the_same_decision() -> None:
    body = [*fork("f", [simple("a", inputParameters={"x": "${workflow.input.k}"})], [simple("b")]), simple("c")]
    r = run(loop("l", 2, *body), input={"k": {"deep": [1]}})
    r.finish("a", status="FAILED", decide=False)
    r.finish("b", decide=False)
    assert decision(r) == decision(r)
    assert decision(r).commands


def test_a_chain_reads_nothing_and_a_step_back_reads_what_it_names() -> None:
    r = run(*(simple(f"t{i}", inputParameters={"p": f"${{t{i - 1}.output}}"} if i else {}) for i in range(20)))
    r.drain()
    assert r.reads == 0
    r = run(simple("a"), simple("b"), simple("c", inputParameters={"x": "${a.output.n}"}))
    r.finish("a", {"n": 1})
    r.finish("b")
    assert (r.reads, r.open("c").input) == (1, {"x": 1})


def test_a_step_of_a_long_chain_costs_no_more_than_of_a_short_one() -> None:
    """Counted in calls, which no busy neighbour changes."""

    def cost(length: int) -> int:
        r = run(*(simple(f"t{i}") for i in range(length)))
        r.finish("t0", decide=False)
        state = State(r.view, tuple(r.tasks.values()), frozenset(), r.now, {}, lambda: UUID(int=1))
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            decide(r.blueprint, state, evaluate)
        finally:
            sys.setprofile(before)
        return calls

    assert cost(3000) == cost(3)


def test_queues_domains_deadlines_and_delays() -> None:
    definitions = {"a": {"pollTimeoutSeconds": 5, "responseTimeoutSeconds": 9, "timeoutSeconds": 11}}
    r = Run({"name": "w", "tasks": [simple("a", startDelay=3)]}, tasks=definitions)
    made = r.made[0]
    assert (made.queue, made.delay_seconds, made.response_seconds, made.timeout_seconds) == ("a", 3, 9, 11)
    assert [(timer.kind, (timer.due - r.now).total_seconds()) for timer in made.timers] == [("POLL", 8)]
    kinds = {"HTTP": "HTTP", "LAMBDA": "INLINE", "INLINE": "INLINE", "JSON_JQ_TRANSFORM": "JSON_JQ_TRANSFORM"}
    for type_, queue in kinds.items():
        made = run(task(type_, "t", inputParameters={"uri": "u"})).made[0]
        assert (made.type, made.queue) == (type_, queue)
    assert run(task("MY_OWN", "t")).made[0].queue == "t", "an unknown type is work for workers"


def test_a_task_definitions_template_fills_what_is_absent_or_null() -> None:
    template = {"inputTemplate": {"a": 1, "b": 2, "c": 3}}
    made = simple("t", inputParameters={"a": 9, "b": None})
    r = Run({"name": "w", "tasks": [made]}, tasks={"t": template})
    assert r.open("t").input == {"a": 9, "b": 2, "c": 3}
    assert Run({"name": "w", "tasks": [simple("t")]}, tasks={"t": template}).open("t").input == {"a": 1, "b": 2, "c": 3}


def test_a_child_given_inline_keeps_its_own_expressions() -> None:
    inner = {"name": "c", "tasks": [simple("x", inputParameters={"v": "${workflow.input.mine}"})]}
    child = task("SUB_WORKFLOW", "s", subWorkflowParam={"workflowDefinition": inner, "name": "${workflow.input.n}"})
    payload = run(child, input={"n": "named", "mine": 1}).made[0].effects[0].payload
    assert payload["definition"] == inner
    assert (payload["name"], payload["depth"], payload["input"]) == ("named", 1, {})
    by_expression = task("SUB_WORKFLOW", "s", subWorkflowParam={"workflowDefinition": "${workflow.input.d}"})
    payload = run(by_expression, input={"d": inner}).made[0].effects[0].payload
    assert (payload["definition"], payload["name"]) == (inner, "c")


def test_a_started_workflow_is_named_at_once_and_waited_for_only_until_it_has_started() -> None:
    start = task("START_WORKFLOW", "s", inputParameters={"startWorkflow": {"name": "other", "input": {"x": 1}}})
    r = run(start, simple("z", inputParameters={"id": "${s.output.workflowId}"}))
    effect = r.made[0].effects[0]
    assert (effect.topic, effect.payload["name"], effect.payload["input"]) == ("workflow.start", "other", {"x": 1})
    named = {"workflowId": str(effect.payload["workflow_id"])}
    assert (r.open("s").output, effect.payload["starter_task_id"]) == (named, r.open("s").id)
    r.finish("s", named)
    assert r.open("z").input == {"id": named["workflowId"]}


def test_wait_until_a_moment_and_iso_durations() -> None:
    r = run(task("WAIT", "w", inputParameters={"until": "2026-01-02 00:00 UTC"}))
    assert r.made[0].timers[0].due.isoformat() == "2026-01-02T00:00:00+00:00"
    past = run(task("WAIT", "w", inputParameters={"until": "2020-01-01"}), simple("z"))
    assert past.open_refs() == ["z"]
    iso = run(task("WAIT", "w", inputParameters={"duration": "PT1H30M"}))
    assert (iso.made[0].timers[0].due - iso.now).total_seconds() == 5400


def test_operators_settled_in_a_pass_are_born_consumed_and_one_pass_goes_through_them() -> None:
    inner = switch("s", "a", {"a": [task("NOOP", "n"), *fork("f", [simple("x")], [task("NOOP", "m")])]})
    r = run(loop("l", 1, inner))
    assert r.passes == 1
    assert {made.ref for made in r.made} == {"l", "s", "n", "f", "f_join", "x", "m"}
    assert all(made.consumed for made in r.made if made.status.terminal)


def test_an_output_names_null_for_what_did_not_run() -> None:
    outputs = {"x": "${x.output.v}", "w": "${workflow.input.k}", "t": "run ${workflow.workflowId}"}
    r = run(switch("s", "b", {"a": [simple("x")], "b": []}), input={"k": 1}, outputParameters=outputs)
    assert r.end is not None
    assert r.end.output == {"x": None, "w": 1, "t": f"run {r.view.id}"}


def test_the_newest_turn_is_seen_from_outside_a_loop_and_this_turn_from_inside() -> None:
    inside = simple("b", inputParameters={"a": "${a.output.n}", "n": "${inner.output.iteration}"})
    nested = loop("inner", 2, simple("a"), inside)
    r = run(loop("outer", 2, nested), simple("z", inputParameters={"a": "${a.output.n}"}))
    for number in range(4):
        r.finish("a", {"n": number})
        assert r.open("b").input == {"a": number, "n": number % 2 + 1}
        r.finish("b")
    assert r.open("z").input == {"a": 3}


def test_a_compiled_definition_is_shared_and_never_changed() -> None:
    definition: dict[str, Any] = {"name": "w", "tasks": [simple("a", inputParameters={"c": {"k": [1]}})]}
    blueprint = compile(definition, {})
    node = blueprint.nodes["a"]
    r = Run(definition)
    made = r.made[0]
    assert isinstance(made, ScheduleTask)
    assert made.input == {"c": {"k": [1]}}
    assert node.spec is definition["tasks"][0]
