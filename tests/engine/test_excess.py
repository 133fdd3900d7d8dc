"""Values that are too large to be kept: what made one fails, and nothing of it is kept."""

from __future__ import annotations

import pytest

from tests.engine.definitions import fork, loop, run, simple, task
from workflows import payloads

BIG = "BIG"


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "excess", lambda what, value: f"{what} is too large" if BIG in str(value) else None)


def test_an_input_over_the_limit_is_not_kept() -> None:
    r = run(simple("a", inputParameters={"x": "${workflow.input.x}"}), input={"x": BIG})
    (made,) = r.made
    assert (made.status, made.reason, made.input, made.queue) == (
        "FAILED_WITH_TERMINAL_ERROR",
        "task input is too large",
        {},
        None,
    )
    assert r.ended == "FAILED"


def test_variables_over_the_limit_change_nothing() -> None:
    r = run(task("SET_VARIABLE", "v", inputParameters={"a": "x"}, optional=True), simple("z"), variables={"b": BIG})
    assert (r.status("v"), r.view.variables, r.open_refs()) == ("COMPLETED_WITH_ERRORS", {"b": BIG}, ["z"])


def test_a_join_over_the_limit_fails() -> None:
    r = run(*fork("f", [simple("a")], on=["a"]), simple("z"))
    r.finish("a", {"x": BIG})
    join = next(t for t in r.tasks.values() if t.ref == "f_join")
    assert (join.status, join.reason, join.consumed, join.output) == (
        "FAILED_WITH_TERMINAL_ERROR", "task output is too large", True, None,
    )  # fmt: skip
    assert (r.ended, r.count("z")) == ("FAILED", 0)


def test_a_loop_over_the_limit_fails_or_is_passed_over() -> None:
    r = run(loop("l", 2, simple("a")), simple("z"))
    r.finish("a", {"x": BIG})
    assert (r.status("l"), r.ended, r.count("a")) == ("FAILED_WITH_TERMINAL_ERROR", "FAILED", 1)
    r = run({**loop("l", 2, simple("a")), "optional": True}, simple("z"))
    r.finish("a", {"x": BIG})
    assert (r.status("l"), r.open_refs()) == ("COMPLETED_WITH_ERRORS", ["z"])


def test_an_exclusive_join_over_the_limit_fails() -> None:
    join = task("EXCLUSIVE_JOIN", "e", joinOn=["b"])
    r = run(*fork("f", [simple("a")], [simple("b")], on=["a"]), join, simple("z"))
    r.finish("a")
    r.finish("b", {"x": BIG})
    assert (r.status("e"), r.ended, r.count("z")) == ("FAILED_WITH_TERMINAL_ERROR", "FAILED", 0)


@pytest.mark.parametrize(
    ("status", "reason"), [("COMPLETED", "workflow output is too large"), ("FAILED", "workflow output is too large")]
)
def test_an_output_of_the_run_over_the_limit_is_left_out(status: str, reason: str) -> None:
    r = run(simple("a", retryCount=0), outputParameters={"x": "${workflow.input.x}"}, input={"x": BIG})
    r.finish("a", status=status)
    assert r.end is not None
    assert (r.end.status, r.end.output) == ("FAILED", {})
    assert str(r.end.reason).endswith(reason)
    if status == "FAILED":
        assert str(r.end.reason).startswith("Task ")


def test_the_elements_of_a_loop_over_the_limit_fail_it() -> None:
    r = run(task("DO_WHILE", "l", items="${workflow.input.x}", loopOver=[simple("a")]), input={"x": [BIG]})
    assert (r.ended, r.count("a"), r.status("l")) == ("FAILED", 0, "FAILED_WITH_TERMINAL_ERROR")
    assert r.made[0].reason == "task input is too large"
