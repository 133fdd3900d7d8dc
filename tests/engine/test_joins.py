"""Joins: what they wait for, pass by pass, and what they hand on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import fork, run, simple, task


def dynamic(inputs: list[Any]) -> list[dict[str, Any]]:
    fields = {"forkTaskName": "x", "forkTaskInputs": inputs}
    return [task("FORK_JOIN_DYNAMIC", "f", inputParameters=fields), task("JOIN", "f_join", joinOn=[])]


def test_branches_made_at_run_time_that_end_in_three_passes_join_after_the_last() -> None:
    r = run(*dynamic([{}, {}, {}]), simple("z", inputParameters={"j": "${f_join.output}"}))
    for index in (1, 2, 0):
        assert "z" not in r.open_refs()
        r.finish(f"_x_{index}", {"n": index})
    assert r.open("z").input == {"j": {f"_x_{index}": {"n": index} for index in range(3)}}


@pytest.mark.parametrize("on", [None, ["o", "m"]], ids=["all", "named"])
def test_an_optional_branch_that_fails_first_does_not_end_the_join(on: list[str] | None) -> None:
    r = run(
        *fork("f", [simple("o", optional=True, retryCount=0)], [simple("m")], on=on),
        simple("z", inputParameters={"v": "${m.output.v}"}),
    )  # fmt: skip
    r.finish("o", status="FAILED_WITH_TERMINAL_ERROR")
    assert r.open_refs() == ["m"]
    r.finish("m", {"v": 1})
    assert r.open("z").input == {"v": 1}


@pytest.mark.parametrize("on", [None, ["s", "b"]], ids=["all", "named"])
def test_a_join_hands_on_a_branch_that_ended_in_its_own_pass(on: list[str] | None) -> None:
    quick = task("SET_VARIABLE", "s", inputParameters={"k": 1})
    r = run(*fork("f", [quick], [simple("b")], on=on), simple("z", inputParameters={"j": "${f_join.output}"}))
    r.finish("b", {"n": 2})
    found = r.open("z").input
    assert found is not None and found["j"]["b"] == {"n": 2} and "s" in found["j"]
