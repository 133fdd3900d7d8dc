"""Operators and their nestings, decided in memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import fork, loop, run, simple, switch, task
from tests.engine.simulator import Run


def test_a_chain_runs_in_order_and_ends_with_the_last_output() -> None:
    r = run(simple("a"), simple("b", inputParameters={"x": "${a.output.n}"}))
    r.finish("a", {"n": [1, None]})
    assert r.open("b").input == {"x": [1, None]}
    assert r.reads == 0, "a step that names its predecessor needs no further read"
    r.finish("b", {"done": True})
    assert (r.ended, r.end and r.end.output) == ("COMPLETED", {"done": True})


def test_an_untaken_branch_never_starts_and_the_next_task_waits_for_the_taken_one() -> None:
    r = run(
        switch("s", "${workflow.input.k}", {"x": [simple("x1"), simple("x2")], "y": [simple("y1"), simple("y2")]}),
        simple("z"), input={"k": "y"},
    )  # fmt: skip
    assert r.open_refs() == ["y1"]
    r.finish("y1")
    assert r.open_refs() == ["y2"]
    r.finish("y2")
    assert r.open_refs() == ["z"]
    r.finish("z")
    assert r.ended == "COMPLETED"
    assert r.count("x1") == r.count("x2") == 0


@pytest.mark.parametrize(
    ("value", "expected"), [("a", "ca"), ("none", "cd"), (1, "c1"), (1.0, "c1"), (True, "ct"), ("empty", "z")]
)
def test_cases_compare_as_text_and_an_empty_case_does_nothing(value: Any, expected: str) -> None:
    cases = {"a": [simple("ca")], "1": [simple("c1")], "true": [simple("ct")], "empty": []}
    r = run(switch("s", "${workflow.input.k}", cases, [simple("cd")]), simple("z"), input={"k": value})
    assert r.open_refs() == [expected]


def test_a_join_waits_for_whole_branches_and_collects_their_tips() -> None:
    r = run(
        *fork("f", [simple("a1"), simple("a2")], [simple("b1")]), simple("z", inputParameters={"j": "${f_join.output}"})
    )
    r.finish("b1", {"b": 1})
    r.finish("a1")
    assert r.open_refs() == ["a2"]
    r.finish("a2", {"a": 2})
    assert r.open("z").input == {"j": {"a2": {"a": 2}, "b1": {"b": 1}}}


def test_a_join_on_a_part_goes_on_and_the_run_waits_for_the_rest() -> None:
    r = run(*fork("f", [simple("a")], [simple("b")], on=["a"]), simple("z"))
    r.finish("a", {"n": 1})
    assert r.open_refs() == ["b", "z"]
    r.finish("z")
    assert r.ended == "RUNNING"
    r.finish("b")
    assert r.ended == "COMPLETED"


def test_a_joined_ref_in_an_untaken_case_counts_as_done() -> None:
    branch = [switch("s", "n", {"y": [simple("never")]}, [simple("d")])]
    r = run(*fork("f", branch, [simple("b")], on=["never", "b"]))
    r.finish("b")
    r.finish("d")
    assert r.ended == "COMPLETED"


@pytest.mark.parametrize(
    "tip",
    [
        [switch("s", "x", {"x": [simple("t1"), simple("t2")]})],
        [loop("l", 2, simple("t1"), simple("t2"))],
        fork("g", [simple("t1")], [simple("t2")]),
        [simple("t0"), switch("s", "nothing", {"x": [simple("t1")]})],
        [],
    ],
    ids=["switch", "loop", "fork", "empty case", "empty branch"],
)  # fmt: skip
def test_whatever_ends_a_branch_the_join_fires_once_all_of_it_has_ended(tip: list[dict[str, Any]]) -> None:
    r = run(*fork("f", tip, [simple("b")]), simple("z"))
    r.finish("b")
    while r.open_refs() != ["z"]:
        assert "z" not in r.open_refs()
        r.finish(r.open_refs()[0].split("@")[0])
    r.finish("z")
    assert r.ended == "COMPLETED"


def test_nested_loops_run_the_inner_body_four_times_and_the_task_after_it_twice() -> None:
    r = run(loop("outer", 2, simple("before"), loop("inner", 2, simple("body")), simple("after")))
    r.drain()
    assert (r.count("before"), r.count("body"), r.count("after"), r.ended) == (2, 4, 2, "COMPLETED")
    assert sorted(t.iteration for t in r.tasks.values() if t.ref == "body") == ["1.1", "1.2", "2.1", "2.2"]


def test_a_fork_in_a_loop_joins_this_turns_branches() -> None:
    r = run(
        loop("l", 3, *fork("f", [simple("a")], [simple("b")]), simple("c", inputParameters={"j": "${f_join.output}"}))
    )
    for turn in range(1, 4):
        r.finish("a", {"turn": turn})
        r.finish("b", {"turn": turn})
        assert r.open("c").input == {"j": {"a": {"turn": turn}, "b": {"turn": turn}}}
        r.finish("c")
    assert r.ended == "COMPLETED"
    assert r.output("l")["3"]["a"] == {"turn": 3}


def test_a_loop_of_operators_alone_and_with_nothing_after_it() -> None:
    body = task("SET_VARIABLE", "v", inputParameters={"n": "${l.output.iteration}"})
    r = run(loop("l", 700, body), outputParameters={"n": "${workflow.variables.n}", "i": "${l.output.iteration}"})
    assert (r.ended, r.end and r.end.output) == ("COMPLETED", {"n": 700, "i": 700})
    assert r.passes > 1, "a pass is bounded"


def test_a_list_loop_hands_out_items() -> None:
    body = simple("b", inputParameters={"item": "${l.output.loopItem}", "index": "${l.output.loopIndex}"})
    r = run(task("DO_WHILE", "l", items="${workflow.input.all}", loopOver=[body]), input={"all": ["x", "y"]})
    assert r.open("b").input == {"item": "x", "index": 0}
    r.finish("b")
    assert r.open("b").input == {"item": "y", "index": 1}
    r.finish("b")
    assert r.ended == "COMPLETED"
    empty = run(task("DO_WHILE", "l", items="${workflow.input.all}", loopOver=[body]), input={"all": []})
    assert (empty.ended, empty.output("l")) == ("COMPLETED", {"iteration": 0})


def test_a_broken_loop_condition_fails_the_loop() -> None:
    r = run(task("DO_WHILE", "l", loopCondition="nonsense(", loopOver=[simple("a")]))
    r.finish("a")
    assert r.ended == "FAILED"
    assert r.end
    assert "loopCondition" in (r.end.reason or "")


def test_a_variable_is_visible_to_the_next_task_of_the_same_pass() -> None:
    r = run(
        task("SET_VARIABLE", "v", inputParameters={"x": 7}),
        simple("a", inputParameters={"x": "${workflow.variables.x}"}),
    )
    assert r.open("a").input == {"x": 7}
    assert r.view.variables == {"x": 7}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "TERMINATED"])
def test_terminate_ends_the_run_from_inside_a_branch(status: str) -> None:
    end = task(
        "TERMINATE", "t", inputParameters={"terminationStatus": status, "workflowOutput": {"o": "${a.output.x}"}}
    )
    r = run(*fork("f", [simple("a"), end], [simple("b")]), failureWorkflow="cleanup")
    r.finish("a", {"x": 5})
    assert r.end is not None
    assert (r.ended, r.end.output) == (status, {"o": 5})
    assert (r.end.failure_workflow is not None) == (status != "COMPLETED")


def test_a_sub_workflow_names_its_child_and_a_retry_names_another() -> None:
    r = run(task("SUB_WORKFLOW", "s", subWorkflowParam={"name": "child"}, inputParameters={"x": 1}, retryCount=1))
    first = r.made[0]
    assert first.effects[0].topic == "workflow.start_child"
    assert first.effects[0].payload["child_id"] == first.sub_workflow_id
    assert first.effects[0].payload["input"] == {"x": 1}
    r.finish("s", status="FAILED")
    second = r.made[1]
    assert (second.attempt, second.sub_workflow_id != first.sub_workflow_id) == (1, True)
    assert second.effects[0].payload["attempt"] == 1
    r.finish("s", {"out": 1})
    assert r.ended == "COMPLETED"


def test_wait_has_a_timer_or_waits_for_a_signal() -> None:
    r = run(task("WAIT", "w", inputParameters={"duration": "1 hour 30m"}), task("WAIT", "s"))
    assert (r.made[0].timers[0].due - r.now).total_seconds() == 5400
    r.finish("w")
    assert r.made[1].timers == ()
    r.finish("s")
    assert r.ended == "COMPLETED"


def test_a_bad_value_at_run_time_fails_the_task_not_the_pass() -> None:
    r = run(task("WAIT", "w", inputParameters={"duration": "${workflow.input.d}"}), input={"d": "soon"})
    assert (r.ended, r.status("w")) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR")
    assert r.end
    assert "soon" in (r.end.reason or "")


def test_an_input_never_resolves_silently_to_another_task() -> None:
    r = run(
        simple("a"),
        simple("b", inputParameters={"x": "${a.output.missing.deep}", "t": "${a.output.n} of ${a.output.o}"}),
    )
    r.finish("a", {"n": 3, "o": {"k": [1]}})
    assert r.open("b").input == {"x": None, "t": '3 of {"k":[1]}'}


# Failures


def test_retries_back_off_and_then_fail_the_run() -> None:
    definition = {"name": "w", "tasks": [simple("a")]}
    policy = {"retryCount": 3, "retryLogic": "EXPONENTIAL_BACKOFF", "retryDelaySeconds": 2, "maxRetryDelaySeconds": 5}
    r = Run(definition, tasks={"a": policy})
    for _ in range(4):
        r.finish("a", status="FAILED", reason="boom")
    assert [made.delay_seconds for made in r.made] == [0, 2, 4, 5]
    assert r.ended == "FAILED"
    assert r.end
    assert r.end.failed_refs == ("a",)
    assert "boom" in (r.end.reason or "")


def test_linear_backoff_and_a_terminal_error() -> None:
    policy = {"retryCount": 2, "retryLogic": "LINEAR_BACKOFF", "retryDelaySeconds": 3, "backoffScaleFactor": 2}
    r = Run({"name": "w", "tasks": [simple("a")]}, tasks={"a": policy})
    r.finish("a", status="FAILED")
    r.finish("a", status="FAILED")
    assert [made.delay_seconds for made in r.made] == [0, 6, 12]
    r.finish("a", status="FAILED_WITH_TERMINAL_ERROR")
    assert r.ended == "FAILED"


@pytest.mark.parametrize(
    ("cause", "policy", "ended"), [
        ("RESPONSE_TIMEOUT", "TIME_OUT_WF", "RUNNING"), ("TASK_TIMEOUT", "TIME_OUT_WF", "TIMED_OUT"),
        ("TASK_TIMEOUT", "RETRY", "RUNNING"), ("TOTAL_TIMEOUT", "RETRY", "TIMED_OUT"),
    ],
)  # fmt: skip
def test_time_out_policies_with_the_default_retry_count(cause: str, policy: str, ended: str) -> None:
    r = Run({"name": "w", "tasks": [simple("a")]}, tasks={"a": {"timeoutPolicy": policy}})
    r.finish("a", status="TIMED_OUT", cause=cause)
    assert r.ended == ended


def test_an_optional_failure_is_passed_over_after_its_retries() -> None:
    r = run(*fork("f", [simple("a", optional=True, retryCount=1)], [simple("b")]), simple("z"))
    r.finish("a", status="FAILED")
    r.finish("a", status="FAILED")
    assert r.status("a") == "COMPLETED_WITH_ERRORS"
    r.finish("b")
    assert r.status("f_join") == "COMPLETED_WITH_ERRORS"
    r.finish("z")
    assert r.ended == "COMPLETED"


def test_a_permissive_failure_lets_the_others_finish_and_fails_the_run_at_its_end() -> None:
    r = run(*fork("f", [simple("a", permissive=True, retryCount=0)], [simple("b")]))
    r.finish("a", status="FAILED", reason="boom")
    assert r.ended == "RUNNING"
    r.finish("b")
    assert r.ended == "FAILED"
    assert r.end
    assert "a (FAILED: boom)" in (r.end.reason or "")


@pytest.mark.invariant("INV-10")
def test_a_lost_branch_is_reported_stuck_and_never_completed() -> None:
    r = run(*fork("f", [simple("a")], [simple("b")]), simple("z"))
    for ref in ("b", "f_join"):
        del r.tasks[r.open(ref).id]
    r.finish("a")
    assert r.ended == "RUNNING"
    assert r.stuck == ("b",)


def test_two_completions_in_one_pass_join_once() -> None:
    r = run(*fork("f", [simple("a")], [simple("b")]), simple("z"))
    r.finish("a", decide=False)
    r.finish("b")
    assert r.open_refs() == ["z"]
