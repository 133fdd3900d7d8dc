"""The saga: what a failing run undoes, in which order, and what it says in the end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import fork, loop, run, simple, switch, task
from tests.engine.simulator import Run
from workflows.engine.validation import validate


def step(ref: str, **fields: Any) -> dict[str, Any]:
    """A task with what undoes it, which is told what the task put out."""
    undo = simple(f"un_{ref}", retryCount=0, inputParameters={"of": f"${{{ref}.output.of}}"})
    return simple(ref, retryCount=0, compensateWith=undo, **fields)


def undo_all(r: Run) -> list[str]:
    """Complete what undoes, one after the other; the order."""
    order = []
    while r.ended == "RUNNING":
        (ref,) = r.open_refs()
        order.append(ref)
        r.finish(ref.partition("@")[0], {})
    return order


def test_completed_tasks_are_undone_newest_finished_first_one_at_a_time() -> None:
    r = run(*fork("f", [step("a")], [step("b")]), step("c"), simple("bad", retryCount=0))
    for ref in ("b", "a", "c"):
        r.finish(ref, {"of": ref})
    r.finish("bad", status="FAILED", reason="no stock")
    assert (r.ended, r.open_refs()) == ("RUNNING", ["un_c"])
    assert undo_all(r) == ["un_c", "un_a", "un_b"]
    assert [r.tasks[made.id].input for made in r.made if made.ref.startswith("un_")] == [
        {"of": "c"}, {"of": "a"}, {"of": "b"}
    ]  # fmt: skip
    assert r.end is not None and r.ended == "FAILED"
    assert r.end.reason is not None and "no stock" in r.end.reason
    assert r.end.reason.endswith("; undone: c, a, b")
    assert (r.end.failed_refs, r.status("COMPENSATION")) == (("bad",), "COMPLETED")


def test_what_never_completed_is_not_undone_and_what_is_open_is_cancelled() -> None:
    skipped = switch("s", "x", {"y": [step("never")]})
    optional = step("lost", optional=True)
    r = run(step("a"), skipped, optional, *fork("f", [step("slow")], [simple("bad", retryCount=0)]))
    r.finish("a", {"of": "a"})
    r.finish("lost", status="FAILED")
    r.finish("bad", status="FAILED")
    assert undo_all(r) == ["un_a"]
    assert (r.status("slow"), r.status("f_join"), r.status("lost")) == (
        "CANCELED", "CANCELED", "COMPLETED_WITH_ERRORS"
    )  # fmt: skip


def test_a_run_with_nothing_to_undo_ends_at_once() -> None:
    r = run(step("a"))
    r.finish("a", status="FAILED")
    assert (r.ended, r.status("COMPENSATION")) == ("FAILED", "-")


def test_each_turn_of_a_loop_is_undone_with_its_own_values() -> None:
    undo = simple("un_a", retryCount=0, inputParameters={"of": "${a.output.of}", "with": "${b.output.of}"})
    body = [simple("b"), simple("a", compensateWith=undo)]
    r = run(loop("l", 3, *body), simple("bad", retryCount=0))
    for turn in (1, 2, 3):
        r.finish("b", {"of": f"b{turn}"})
        r.finish("a", {"of": f"a{turn}"})
    r.finish("bad", status="FAILED")
    assert undo_all(r) == ["un_a@3", "un_a@2", "un_a@1"]
    given = [made.input for made in r.made if made.ref == "un_a"]
    assert given == [{"of": f"a{turn}", "with": f"b{turn}"} for turn in (3, 2, 1)]


def test_tasks_that_a_fork_made_at_run_time_are_undone() -> None:
    made = task(
        "FORK_JOIN_DYNAMIC", "d", dynamicForkTasksParam="t", dynamicForkTasksInputParamName="i",
        inputParameters={"t": "${workflow.input.t}", "i": {}},
    )  # fmt: skip
    r = run(made, task("JOIN", "j"), simple("bad", retryCount=0), input={"t": [step("x"), step("y")]})
    r.finish("x", {"of": "x"})
    r.finish("y", {"of": "y"})
    r.finish("bad", status="FAILED")
    assert undo_all(r) == ["un_y", "un_x"]
    assert r.end is not None and r.end.reason is not None and r.end.reason.endswith("undone: y, x")
    plain = run(made, task("JOIN", "j"), simple("bad", retryCount=0), input={"t": [simple("x")]})
    plain.finish("x")
    plain.finish("bad", status="FAILED")
    assert (plain.ended, plain.status("COMPENSATION")) == ("FAILED", "-")


def test_what_undoes_has_retries_of_its_own_and_its_failure_ends_the_run_with_both_reasons() -> None:
    undo = {**simple("un_a"), "retryCount": 2}
    r = run(step("first"), simple("a", compensateWith=undo), simple("bad", retryCount=0), failureWorkflow="clean_up")
    r.finish("first", {"of": 1})
    r.finish("a")
    r.finish("bad", status="FAILED", reason="no stock")
    for _ in range(2):
        r.finish("un_a", status="FAILED", reason="gateway down")
        assert r.ended == "RUNNING"
    r.finish("un_a", status="FAILED", reason="gateway down")
    assert r.end is not None and r.ended == "FAILED"
    assert r.end.reason is not None
    assert "no stock" in r.end.reason and "un_a, which undoes a, ended FAILED: gateway down" in r.end.reason
    assert r.end.failure_workflow == {"name": "clean_up", "version": None}
    assert (r.status("COMPENSATION"), r.count("un_first")) == ("FAILED", 0)


def test_an_optional_compensation_that_fails_is_passed_over_and_not_called_undone() -> None:
    undo = simple("un_b", retryCount=0, optional=True)
    r = run(step("a"), simple("b", compensateWith=undo), simple("bad", retryCount=0))
    r.finish("a")
    r.finish("b")
    r.finish("bad", status="FAILED")
    r.finish("un_b", status="FAILED")
    assert undo_all(r) == ["un_a"]
    assert r.end is not None and (r.end.reason or "").endswith("; undone: a")


@pytest.mark.parametrize(
    "failing",
    [
        simple("bad", inputParameters={"x": "${unclosed"}),
        task("SWITCH", "bad", evaluatorType="javascript", expression="no(", decisionCases={"a": []}),
        task("SUB_WORKFLOW", "bad"),
        task("TERMINATE", "bad", inputParameters={"terminationStatus": "FAILED"}),
        {**loop("bad", 2, simple("x", retryCount=0)), "loopCondition": "nonsense("},
    ],
    ids=lambda failing: failing["type"],
)
def test_every_failure_undoes_and_not_only_that_of_a_worker(failing: dict[str, Any]) -> None:
    r = run(step("a"), failing)
    r.finish("a", {"of": "a"})
    if failing["type"] == "DO_WHILE":
        r.finish("x")
    assert (r.ended, undo_all(r), r.ended) == ("RUNNING", ["un_a"], "FAILED")


def test_a_time_out_undoes_and_keeps_its_status() -> None:
    r = Run({"name": "w", "tasks": [step("a"), simple("bad")]}, tasks={"bad": {"timeoutPolicy": "TIME_OUT_WF"}})
    r.finish("a")
    r.finish("bad", status="TIMED_OUT", cause="TASK_TIMEOUT")
    assert (undo_all(r), r.ended) == (["un_a"], "TIMED_OUT")


@pytest.mark.parametrize("how", ["CANCELED", "TERMINATE"])
def test_a_run_that_is_terminated_undoes_nothing(how: str) -> None:
    end = task("TERMINATE", "t", inputParameters={"terminationStatus": "TERMINATED"})
    r = run(step("a"), simple("b"), end)
    r.finish("a")
    r.finish("b", status="CANCELED" if how == "CANCELED" else "COMPLETED")
    assert (r.ended, r.count("un_a")) == ("TERMINATED", 0)


def test_a_compensation_that_cannot_be_started_fails_with_its_reason() -> None:
    a = simple("a", compensateWith=task("SUB_WORKFLOW", "un_a"))
    r = run(a, simple("bad", retryCount=0))
    r.finish("a")
    r.finish("bad", status="FAILED")
    assert r.end is not None and r.ended == "FAILED"
    assert "un_a, which undoes a" in (r.end.reason or "")


def test_a_compensation_sees_why_the_run_failed() -> None:
    undo = simple("un_a", inputParameters={"why": "${COMPENSATION.input.reason}"})
    r = run(simple("a", compensateWith=undo), simple("bad", retryCount=0))
    r.finish("a")
    r.finish("bad", status="FAILED", reason="no stock")
    assert "no stock" in r.open("un_a").input["why"]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (simple("a", compensateWith="un_a"), "tasks[0].compensateWith"),
        (simple("a", compensateWith={}), "tasks[0].compensateWith.name"),
        (simple("a", compensateWith=simple("a")), "tasks[0].compensateWith.taskReferenceName"),
        (simple("a", compensateWith=task("TERMINATE", "u")), "tasks[0].compensateWith.type"),
        (simple("a", compensateWith=simple("u", compensateWith=simple("v"))), "tasks[0].compensateWith.compensateWith"),
        (
            task("SWITCH", "a", evaluatorType="value-param", expression="v", inputParameters={"v": 1},
                 decisionCases={"x": [simple("b")]}, compensateWith=simple("u")),
            "tasks[0].compensateWith",
        ),
        (simple("a", compensateWith=simple("u", inputParameters={"x": "${nobody.output}"})),
         "tasks[0].compensateWith.inputParameters.x"),
        (simple("COMPENSATION"), "tasks[0].taskReferenceName"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_place(given: dict[str, Any], path: str) -> None:
    assert path in [problem.path for problem in validate({"name": "w", "tasks": [given]})]


def test_a_saga_may_be_registered() -> None:
    assert validate({"name": "w", "tasks": [step("a"), simple("b")]}) == []
