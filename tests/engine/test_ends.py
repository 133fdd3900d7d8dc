"""How a run ends: its status, reason, output and what is named as failed; and where one stands still."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import fork, loop, run, simple, switch, task
from tests.engine.simulator import Run


def end_of(r: Run) -> Any:
    assert r.end is not None
    return r.end.status, r.end.output, r.end.reason, r.end.failed_refs, r.end.failure_workflow


def failed_by(status: str, **fields: Any) -> Any:
    r = run(simple("a", retryCount=0), **fields)
    r.finish("a", {"n": 1}, status=status, reason="why")
    return r, end_of(r)


@pytest.mark.parametrize(
    ("status", "ends"),
    [
        ("FAILED", "FAILED"),
        ("FAILED_WITH_TERMINAL_ERROR", "FAILED"),
        ("TIMED_OUT", "TIMED_OUT"),
        ("CANCELED", "TERMINATED"),
    ],
)
def test_a_failed_task_ends_the_run(status: str, ends: str) -> None:
    r, end = failed_by(status)
    assert end == (ends, {}, f"Task {r.made[0].id} (a) ended {status}: why", ("a",), None)


def test_a_failed_run_puts_out_what_it_has_and_names_its_failure_workflow() -> None:
    _, end = failed_by("FAILED", outputParameters={"n": "${a.output.n}"}, failureWorkflow="f", failureWorkflowVersion=2)
    assert (end[1], end[4]) == ({"n": 1}, {"name": "f", "version": 2})
    done = run(simple("a"), failureWorkflow="f")
    done.finish("a", {"n": 1})
    assert end_of(done) == ("COMPLETED", {"n": 1}, None, (), None)


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("f", {}, "f"), ("${workflow.input.f}", {"f": "g"}, "g"), ("$workflow.input.f", {"f": "g"}, "g"),
        ("workflow.input.f", {"f": "g"}, "g"), ("$workflow.input.f", {}, None), ("$workflow.input.f", {"f": 5}, None),
        ("$workflow.input.f", {"f": ""}, None), ("", {}, None), (None, {}, None),
    ],
)  # fmt: skip
def test_the_name_of_a_failure_workflow(name: Any, given: dict[str, Any], wanted: str | None) -> None:
    r = run(simple("a", retryCount=0), input=given, failureWorkflow=name)
    r.finish("a", status="FAILED")
    assert end_of(r)[4] == (None if wanted is None else {"name": wanted, "version": None})


def test_failures_of_permissive_tasks_are_all_named_at_the_end() -> None:
    branches = [[simple(ref, permissive=True, retryCount=0)] for ref in ("a", "b", "c")]
    r = run(*fork("f", *branches), outputParameters={"x": "${c.output.x}"})
    r.finish("a", status="FAILED", reason="why")
    r.finish("b", status="FAILED")
    r.finish("c", {"x": 1})
    status, output, reason, failed, _ = end_of(r)
    assert (status, output, failed) == ("FAILED", {"x": 1}, ("a", "b"))
    assert reason == "Permissive tasks failed: a (FAILED: why), b (FAILED: no reason given)"
    assert r.status("f_join") == "COMPLETED_WITH_ERRORS"


def test_a_permissive_branch_made_at_run_time_counts_and_an_optional_one_does_not() -> None:
    for field, ends in (("permissive", "FAILED"), ("optional", "COMPLETED")):
        made = [simple("x", retryCount=0, **{field: True}), simple("y")]
        forked = task("FORK_JOIN_DYNAMIC", "f", dynamicForkTasksParam="t", inputParameters={"t": made})
        r = run(forked, task("JOIN", "j"), simple("z"))
        r.finish("x", status="FAILED")
        r.finish("y")
        r.finish("z")
        assert r.ended == ends
        assert end_of(r)[3] == (("x",) if ends == "FAILED" else ())


def test_the_output_of_a_run_without_parameters_is_that_of_its_last_task() -> None:
    r = run(simple("a"), simple("b", optional=True, retryCount=0))
    r.finish("a", {"n": 1})
    r.finish("b", {"m": 2}, status="FAILED")
    assert end_of(r)[:2] == ("COMPLETED", {"m": 2})
    r = run(simple("a"), switch("s", "x", {"y": [simple("b")]}))
    r.finish("a", {"n": 1})
    assert end_of(r)[1] == {"evaluationResult": ["x"], "selectedCase": "x"}


@pytest.mark.parametrize(
    ("cause", "policy", "ends", "attempts"),
    [
        ("TASK_TIMEOUT", "TIME_OUT_WF", "TIMED_OUT", 1), ("POLL_TIMEOUT", "TIME_OUT_WF", "TIMED_OUT", 1),
        ("RESPONSE_TIMEOUT", "TIME_OUT_WF", "RUNNING", 2), ("TASK_TIMEOUT", "RETRY", "RUNNING", 2),
        ("TASK_TIMEOUT", "ALERT_ONLY", "RUNNING", 2), ("TOTAL_TIMEOUT", "RETRY", "TIMED_OUT", 1),
    ],
)  # fmt: skip
def test_what_a_time_out_does(cause: str, policy: str, ends: str, attempts: int) -> None:
    r = run(simple("a", taskDefinition={"retryCount": 1, "timeoutPolicy": policy}))
    r.finish("a", status="TIMED_OUT", cause=cause)
    assert (r.ended, r.count("a")) == (ends, attempts)


def test_a_fatal_time_out_ends_the_run_even_of_an_optional_task() -> None:
    for field in ("optional", "permissive"):
        r = run(simple("a", taskDefinition={"timeoutPolicy": "TIME_OUT_WF"}, **{field: True}), simple("z"))
        r.finish("a", status="TIMED_OUT", cause="TASK_TIMEOUT")
        assert r.ended == "TIMED_OUT"


@pytest.mark.parametrize(("total", "again"), [(5, False), (6, True), (0, True)])
def test_a_retry_that_would_come_after_the_total_time_is_none(total: int, again: bool) -> None:
    policy = {"retryCount": 3, "retryDelaySeconds": 5, "totalTimeoutSeconds": total}
    r = run(simple("a", taskDefinition=policy))
    r.finish("a", status="FAILED")
    assert (r.ended, r.count("a")) == (("RUNNING", 2) if again else ("FAILED", 1))


def lost(r: Run, ref: str) -> tuple[str, ...]:
    """Take a row away, as no code of ours would, and decide."""
    r.tasks = {id: t for id, t in r.tasks.items() if t.ref != ref}
    r.step()
    assert r.end is None
    return r.stuck


def test_a_run_that_stands_still_names_where() -> None:
    r = run(simple("a"), simple("b"), simple("c"))
    r.finish("a")
    assert lost(r, "b") == ("b",)
    r = run(*fork("f", [simple("a")], [simple("b")]), simple("z"))
    r.finish("a")
    assert lost(r, "b") == ("b",)


def test_a_run_that_stands_still_in_a_case_or_a_turn_names_where() -> None:
    r = run(switch("s", "x", {"x": [simple("a"), simple("b")], "y": [simple("c")]}), simple("z"))
    r.finish("a")
    assert lost(r, "b") == ("b",)
    r = run(loop("l", 3, simple("a"), simple("b")), simple("z"))
    r.finish("a")
    r.finish("b")
    r.finish("a")
    assert lost(r, "b") == ("b",)
    nested = run(loop("o", 2, loop("i", 2, simple("a"), simple("b"))))
    nested.finish("a")
    assert lost(nested, "b") == ("b",)


def test_what_the_definition_does_not_know_ends_the_run() -> None:
    r = run(
        task("FORK_JOIN_DYNAMIC", "f", inputParameters={"forkTaskName": "n", "forkTaskInputs": [1]}), task("JOIN", "j")
    )
    made = r.open("_n_0")
    r.blueprint = run(simple("other")).blueprint
    r.finish("_n_0")
    assert end_of(r)[:4] == ("FAILED", {}, f"Task {made.id} (_n_0) is not in the definition of this run", ("_n_0",))


def test_a_skipped_task_is_passed_over() -> None:
    r = run(simple("a"), simple("z"))
    r.finish("a", status="SKIPPED")
    assert r.open_refs() == ["z"]
