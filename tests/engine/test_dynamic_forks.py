"""Branches made at run time, in the three styles of their input, and joins that take one of several."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.engine.definitions import fork, loop, run, simple, switch, task
from tests.engine.simulator import Run


def dynamic(ref: str, inputs: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [task("FORK_JOIN_DYNAMIC", ref, inputParameters=inputs, **fields), task("JOIN", f"{ref}_join")]


def listed(tasks: Any, inputs: Any = None) -> list[dict[str, Any]]:
    names = {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "inputs"}
    return dynamic("f", {"tasks": tasks, "inputs": inputs}, **names)


def test_one_task_for_many_inputs() -> None:
    made = dynamic("f", {"forkTaskName": "resize", "forkTaskInputs": "${workflow.input.all}"})
    r = run(*made, simple("z", inputParameters={"j": "${f_join.output}"}), input={"all": [{"w": 1}, 7]})
    assert r.open_refs() == ["_resize_0", "_resize_1"]
    assert r.open("_resize_0").input == {"w": 1, "__index": 0}
    assert r.open("_resize_1").input == {"input": 7, "__index": 1}
    assert [made.queue for made in r.made if made.queue] == ["resize", "resize"]
    r.finish("_resize_1", {"b": 2})
    assert r.open_refs() == ["_resize_0"]
    r.finish("_resize_0", {"a": 1})
    assert r.open("z").input == {"j": {"_resize_0": {"a": 1}, "_resize_1": {"b": 2}}}
    r.finish("z")
    assert r.ended == "COMPLETED"


def test_a_list_of_tasks_and_a_map_of_inputs() -> None:
    tasks = [simple("x", inputParameters={"own": "${a.output.n}", "both": 1}), {**simple("y"), "type": "HUMAN"}]
    r = run(simple("a"), *listed("${a.output.tasks}", {"x": {"both": 2}}))
    r.finish("a", {"n": 5, "tasks": tasks})
    assert r.open("x").input == {"own": 5, "both": 2}
    r.finish("x")
    r.finish("y")
    assert r.ended == "COMPLETED"


def test_what_came_from_data_is_not_resolved_again() -> None:
    r = run(*listed("${workflow.input.t}", "${workflow.input.i}"), input={
        "t": [simple("x")], "i": {"x": {"v": "${workflow.input.t}"}},
    })  # fmt: skip
    assert r.open("x").input == {"v": "${workflow.input.t}"}


def test_the_older_form_and_children() -> None:
    item = {"taskName": "x", "referenceName": "rx", "input": {"k": 1}}
    child = {"workflowName": "c", "referenceName": "rc", "type": "SUB_WORKFLOW"}
    given = {"p": {"dynamicTasks": [item, child]}}
    r = run(*dynamic("f", given, dynamicForkJoinTasksParam="p"))
    assert r.open("rx").input == {"k": 1}
    assert [made.effects[0].payload["name"] for made in r.made if made.effects] == ["c"]
    r.drain()
    assert r.ended == "COMPLETED"


def test_no_branches_at_all_complete_at_once() -> None:
    r = run(*listed([], {}), simple("z"))
    assert r.open_refs() == ["z"]
    assert r.output("f_join") == {}


def test_branches_have_their_definitions_retries_and_keep_their_input() -> None:
    definition = {"name": "w", "tasks": dynamic("f", {"forkTaskName": "x", "forkTaskInputs": [1]})}
    r = Run(definition, tasks={"x": {"retryCount": 1, "retryDelaySeconds": 4}})
    r.finish("_x_0", status="FAILED")
    assert (r.made[-1].attempt, r.made[-1].delay_seconds, r.made[-1].input) == (1, 4, {"input": 1, "__index": 0})
    r.finish("_x_0", status="FAILED")
    assert r.ended == "FAILED"


def test_in_a_loop_each_turn_has_its_own_branches() -> None:
    made = dynamic("f", {"forkTaskName": "x", "forkTaskInputs": ["${l.output.iteration}"]})
    r = run(loop("l", 2, *made, simple("c", inputParameters={"j": "${f_join.output}"})))
    for turn in (1, 2):
        assert r.open("_x_0").input == {"input": turn, "__index": 0}
        r.finish("_x_0", {"turn": turn})
        assert r.open("c").input == {"j": {"_x_0": {"turn": turn}}}
        r.finish("c")
    assert r.ended == "COMPLETED"


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        ("no list", "expected a list of tasks"),
        ([{"name": "x"}], "no task with a taskReferenceName"),
        ([simple("x"), simple("x")], "duplicate task reference name 'x'"),
        ([simple("f_join")], "duplicate task reference name"),
        ([task("SWITCH", "s")], "put it into a SUB_WORKFLOW"),
    ],
)
def test_what_cannot_be_forked_fails_the_fork(tasks: Any, reason: str) -> None:
    r = run(*listed("${workflow.input.t}", {}), input={"t": tasks})
    assert r.ended == "FAILED"
    assert r.end is not None
    assert reason in (r.end.reason or "")


def test_two_forks_do_not_take_each_others_names() -> None:
    first = dynamic("f", {"forkTaskName": "x", "forkTaskInputs": [1]})
    second = dynamic("g", {"forkTaskName": "x", "forkTaskInputs": [1]})
    r = run(*first, *second)
    r.finish("_x_0")
    assert r.open_refs() == ["_g_x_0"]
    r.finish("_g_x_0")
    assert r.ended == "COMPLETED"


def test_a_thousand_branches_cost_the_join_a_counter_each() -> None:
    r = run(*dynamic("f", {"forkTaskName": "x", "forkTaskInputs": list(range(1000))}))
    join = r.open("f_join")
    assert join.state == {"left": 1000}
    started = time.process_time()
    for index in range(1000):
        r.finish(f"_x_{index}", decide=False)
    r.step()
    assert r.ended == "COMPLETED"
    assert time.process_time() - started < 10


def test_an_exclusive_join_takes_what_ran() -> None:
    def made(case: str) -> Run:
        chosen = switch("s", case, {"a": [simple("a")], "b": [simple("b")]})
        join = task("EXCLUSIVE_JOIN", "e", joinOn=["a", "b"], defaultExclusiveJoinTask=["s"])
        return run(chosen, join, simple("z", inputParameters={"e": "${e.output}"}))

    r = made("b")
    r.finish("b", {"from": "b"})
    assert r.open("z").input == {"e": {"from": "b"}}
    assert made("neither").open("z").input["e"]["selectedCase"] == "neither"


def test_an_exclusive_join_waits_for_a_branch_that_still_runs() -> None:
    join = task("EXCLUSIVE_JOIN", "e", joinOn=["b"])
    r = run(*fork("f", [simple("a")], [simple("b")], on=["a"]), join, simple("z"))
    r.finish("a")
    assert r.open_refs() == ["b", "e"]
    r.finish("b", {"n": 1})
    assert (r.open_refs(), r.output("e")) == (["z"], {"n": 1})
    r.finish("z")
    assert r.ended == "COMPLETED"


def test_a_permissive_branch_that_fails_fails_the_run_at_its_end() -> None:
    r = run(*listed([simple("x", permissive=True, retryCount=0), simple("y")]), simple("z"))
    r.finish("x", status="FAILED", reason="broken")
    r.finish("y")
    assert r.status("f_join") == "COMPLETED_WITH_ERRORS"
    r.finish("z")
    assert r.ended == "FAILED"
    assert r.end is not None and "x (FAILED: broken)" in (r.end.reason or "")
