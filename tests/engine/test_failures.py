"""Retries, time-outs, mistakes in values, and what a run that fails says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import fork, loop, run, simple, switch, task
from tests.engine.simulator import Run


def one(policy: dict[str, Any], **fields: Any) -> Run:
    return Run({"name": "w", "tasks": [simple("a", **fields)]}, {"x": 1}, tasks={"a": policy})


@pytest.mark.parametrize(
    ("logic", "delays"),
    [("FIXED", [3, 3, 3]), ("LINEAR_BACKOFF", [6, 12, 18]), ("EXPONENTIAL_BACKOFF", [3, 6, 12])],
)
def test_the_three_backoffs(logic: str, delays: list[int]) -> None:
    r = one({"retryCount": 3, "retryLogic": logic, "retryDelaySeconds": 3, "backoffScaleFactor": 2})
    for _ in delays:
        r.finish("a", status="FAILED")
    assert [made.delay_seconds for made in r.made[1:]] == delays
    assert [made.retried_task_id for made in r.made[1:]] == [made.id for made in r.made[:-1]]


def test_jitter_follows_from_the_task_and_stays_under_its_bound() -> None:
    policy = {"retryCount": 9, "retryDelaySeconds": 1, "backoffJitterMs": 500}
    first, second = one(policy), one(policy)
    for r in (first, second):
        for _ in range(9):
            r.finish("a", status="FAILED")
    delays = [made.delay_seconds for made in first.made[1:]]
    assert delays == [made.delay_seconds for made in second.made[1:]]
    assert len(set(delays)) > 1
    assert all(1 <= delay <= 1.5 for delay in delays)


def test_the_tasks_own_retry_count_wins_and_an_ad_hoc_task_has_three() -> None:
    r = one({"retryCount": 5}, retryCount=0)
    r.finish("a", status="FAILED")
    assert r.ended == "FAILED"
    r = run(simple("a"))
    for _ in range(3):
        r.finish("a", status="FAILED")
    assert r.ended == "RUNNING"
    r.finish("a", status="FAILED")
    assert r.ended == "FAILED"


def test_a_retry_resolves_its_input_again() -> None:
    b = simple("b", inputParameters={"v": "${workflow.variables.v}"})
    change = task("SET_VARIABLE", "s", inputParameters={"v": 2})
    r = run(*fork("f", [b], [simple("c"), change]), variables={"v": 1})
    assert r.open("b").input == {"v": 1}
    r.finish("c")
    r.finish("b", status="FAILED")
    assert r.open("b").input == {"v": 2}


def test_the_total_time_out_ends_retries_and_counts_from_the_first_attempt() -> None:
    r = one({"retryCount": 9, "retryDelaySeconds": 40, "totalTimeoutSeconds": 60})
    assert {timer.kind for timer in r.made[0].timers} == {"TOTAL"}
    r.finish("a", status="FAILED")
    assert r.made[1].timers[0].due == r.made[0].timers[0].due
    r.now = r.made[0].timers[0].due
    r.finish("a", status="FAILED")
    assert r.ended == "FAILED"


def test_a_canceled_task_terminates_the_run() -> None:
    r = run(simple("a"))
    r.finish("a", status="CANCELED")
    assert r.ended == "TERMINATED"


def test_a_container_is_never_retried_whatever_its_name_says() -> None:
    looped = loop("l", 2, simple("x", retryCount=0))
    looped["loopCondition"] = "nonsense("
    r = Run({"name": "w", "tasks": [looped]}, tasks={"l": {"retryCount": 5}})
    r.finish("x")
    assert (r.ended, r.count("l")) == ("FAILED", 1)


def test_a_dynamic_task_follows_the_definition_of_what_it_became() -> None:
    chosen = task("DYNAMIC", "d", dynamicTaskNameParam="which", inputParameters={"which": "${workflow.input.t}"})
    r = Run({"name": "w", "tasks": [chosen]}, {"t": "real"}, tasks={"real": {"retryCount": 1, "retryDelaySeconds": 7}})
    assert (r.made[0].name, r.made[0].type, r.made[0].queue) == ("real", "SIMPLE", "real")
    r.finish("d", status="FAILED")
    assert r.made[1].delay_seconds == 7
    r.finish("d", status="FAILED")
    assert r.ended == "FAILED"
    assert Run({"name": "w", "tasks": [chosen]}, {"t": None}).ended == "FAILED"
    assert Run({"name": "w", "tasks": [chosen]}, {"t": "HTTP"}).made[0].queue == "HTTP"


@pytest.mark.parametrize(
    "broken",
    [
        task("WAIT", "b", inputParameters={"duration": "soon"}),
        task("WAIT", "b", inputParameters={"duration": "1s", "until": "2026-01-01"}),
        task("SUB_WORKFLOW", "b"),
        task("START_WORKFLOW", "b"),
        task("TERMINATE", "b", inputParameters={"terminationStatus": "PERHAPS"}),
        task("FORK_JOIN", "b", forkTasks=[]),
        task("DO_WHILE", "b", loopCondition="true", loopOver=[]),
        task("SWITCH", "b", evaluatorType="javascript", expression="no(", decisionCases={"a": []}),
        task("SWITCH", "b", evaluatorType="oracle", expression="x", decisionCases={"a": []}),
        task("SET_VARIABLE", "b", inputParameters={"x": "y" * 300_000}),
        simple("b", inputParameters={"x": "${unclosed"}),
        simple("b", inputParameters="${workflow.input.list}"),
        task("DYNAMIC", "b"),
    ],
    ids=lambda broken: broken["type"],
)
def test_a_mistake_fails_its_task_with_a_reason_and_never_the_pass(broken: dict[str, Any]) -> None:
    r = run(broken, input={"list": [1]})
    assert (r.ended, r.status("b")) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR")
    assert r.end is not None
    assert r.end.reason
    assert r.tasks[r.made[0].id].reason
    passed_over = run({**broken, "optional": True}, simple("z"), input={"list": [1]})
    assert passed_over.open_refs() == ["z"]
    assert passed_over.status("b") == "COMPLETED_WITH_ERRORS"


def test_optional_mistakes_in_an_endless_loop_leave_the_pass_bounded() -> None:
    body = task("WAIT", "b", inputParameters={"duration": "soon"}, optional=True)
    r = run(loop("l", 1200, body))
    assert r.ended == "COMPLETED"
    assert r.passes > 2
    permissive = run(loop("l", 1200, {**body, "optional": False, "permissive": True}))
    assert permissive.ended == "FAILED"


def test_a_failed_task_shows_the_input_it_had() -> None:
    r = run(task("WAIT", "w", inputParameters={"duration": "${workflow.input.d}"}), input={"d": "soon"})
    assert r.made[0].input == {"duration": "soon"}


@pytest.mark.parametrize("name", ["cleanup", "$workflow.input.n", "${workflow.input.n}"])
def test_a_failed_run_names_its_failure_workflow(name: str) -> None:
    r = run(simple("a", retryCount=0), input={"n": "cleanup"}, failureWorkflow=name, failureWorkflowVersion=2)
    r.finish("a", status="FAILED")
    assert r.end is not None
    assert r.end.failure_workflow == {"name": "cleanup", "version": 2}


def test_a_task_that_left_the_definition_ends_the_run_and_says_so() -> None:
    r = run(simple("a"), simple("b"))
    r.blueprint = run(simple("b"), simple("c")).blueprint
    r.finish("a")
    assert r.ended == "FAILED"
    assert r.end is not None
    assert "not in the definition" in (r.end.reason or "")


def test_a_joined_ref_is_final_only_when_its_retries_are_over() -> None:
    r = run(*fork("f", [simple("a", retryCount=1), simple("a2")], [simple("b")], on=["a", "b"]), simple("z"))
    r.finish("b")
    r.finish("a", status="FAILED")
    assert r.open_refs() == ["a"]
    r.finish("a", {"n": 2})
    assert r.open_refs() == ["a2", "z"]
    assert r.output("f_join") == {"a": {"n": 2}, "b": {}}


def test_a_joined_ref_in_a_loop_is_final_when_the_loop_has_ended() -> None:
    branch = [loop("l", 2, simple("x")), simple("after")]
    r = run(*fork("f", branch, [simple("b")], on=["x"]), simple("z"))
    r.finish("x")
    assert r.open_refs() == ["b", "x@2"]
    r.finish("x", {"n": 2})
    assert r.open_refs() == ["after", "b", "z"]
    assert r.output("f_join") == {"x": {"n": 2}}


def test_the_finished_attempt_is_seen_while_a_retry_is_pending() -> None:
    b = simple("b", permissive=True, retryCount=1)
    r = run(*fork("f", [b], [simple("c"), simple("d", inputParameters={"b": "${b.output.n}"})]))
    r.finish("b", {"n": 1}, status="FAILED")
    r.finish("c")
    assert r.open("d").input == {"b": 1}


def test_a_script_chooses_a_case() -> None:
    script = "$.n > 2 ? 'big' : 'small'"
    chosen = switch("s", "x", {"big": [simple("b")], "small": []})
    chosen |= {"evaluatorType": "javascript", "expression": script, "inputParameters": {"n": "${workflow.input.n}"}}
    assert run(chosen, input={"n": 3}).open_refs() == ["b"]
    decision = task("DECISION", "s", caseValueParam="n", inputParameters={"n": "${workflow.input.n}"})
    decision |= {"decisionCases": {"1": [simple("b")], "2": []}, "defaultCase": [simple("d")]}
    assert run(decision, input={"n": 1}).open_refs() == ["b"]
    assert run(decision, input={"n": 2}).open_refs() == ["d"], "an empty case of a DECISION falls to the default"
