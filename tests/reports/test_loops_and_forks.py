"""Public bug reports about loops, forks, joins and switches, as they would have to go here."""

from __future__ import annotations

from typing import Any

import pytest

from tests import flows
from tests.reports.story import Story, fork, inline, loop, of, switch, times, wait
from workflows.services import control, definitions

pytestmark = pytest.mark.usefixtures("committed")


def simple(ref: str, **fields: Any) -> dict[str, Any]:
    return of("SIMPLE", ref, **fields)


def test_b001_a_task_behind_an_inner_loop_has_its_turn_of_the_outer_one() -> None:
    story = Story(times("o", 2, times("i", 2, inline("x", "1")), inline("sib", "2")))
    assert story.status == "COMPLETED"
    assert [t.iteration for t in story.rows("x")] == ["1.1", "1.2", "2.1", "2.2"]
    assert [t.iteration for t in story.rows("sib")] == ["1", "2"]
    assert story.row("o").output["iteration"] == 2


def test_b003_a_turn_is_over_when_its_whole_body_is() -> None:
    jq = of("JSON_JQ_TRANSFORM", "jq", inputParameters={"queryExpression": ".a", "a": 1})
    story = Story(times("l", 2, switch("sw", "go", {"go": [jq, simple("work")]}), simple("tail")))
    (work,) = story.poll("work")
    assert {t.iteration for t in story.rows() if t.ref != "l"} == {"1"}
    flows.complete([work])
    story.rest()
    story.end("tail")
    assert {t.iteration for t in story.rows("work")} == {"1", "2"}


@pytest.mark.parametrize("items", [[], None])
def test_b005_a_loop_over_nothing_runs_no_body(items: Any) -> None:
    story = Story(of("DO_WHILE", "l", items="${workflow.input.xs}", loopOver=[simple("a")]), input={"xs": items})
    assert story.status == "COMPLETED"
    assert story.rows("a") == []
    assert story.row("l").output["iteration"] == 0


def test_b006_a_loop_over_items_hands_out_each_with_its_index() -> None:
    items = ["a", None, {}, [[1]]]
    body = simple("a", inputParameters={"item": "${l.output.loopItem}", "idx": "${l.output.loopIndex}"})
    story = Story(of("DO_WHILE", "l", items="${workflow.input.xs}", loopOver=[body]), input={"xs": items})
    for _ in items:
        story.end("a")
    assert [(t.input["item"], t.input["idx"]) for t in story.rows("a")] == [(x, i) for i, x in enumerate(items)]
    assert story.status == "COMPLETED"


def test_b008_a_loop_judges_the_newest_attempt() -> None:
    story = Story(
        times("l", 2, simple("a")),
        policies={
            "a": {"responseTimeoutSeconds": 1, "timeoutPolicy": "RETRY", "retryCount": 1, "retryDelaySeconds": 0}
        },
    )
    story.poll("a")
    flows.time_out()
    story.rest()
    story.end("a")
    story.end("a")
    assert story.status == "COMPLETED"
    assert [f"{t.iteration}:{t.attempt}:{t.status}" for t in story.rows("a")] == [
        "1:0:TIMED_OUT", "1:1:COMPLETED", "2:0:COMPLETED",
    ]  # fmt: skip


def test_b011_what_follows_a_loop_is_not_looped() -> None:
    story = Story(loop("l", "$.l['iteration'] < $.n", inline("a", "1"), inputParameters={"n": 3}), inline("b", "2"))
    assert [t.ref for t in story.rows() if t.ref in "ab"] == ["a", "a", "a", "b"]


def test_b012_the_present_turn_is_readable_in_the_body() -> None:
    story = Story(times("l", 3, inline("a", "$.n", n="${l.output.iteration}")))
    assert [t.input["n"] for t in story.rows("a")] == [1, 2, 3]


def test_b013_a_wait_in_a_loop_is_ended_by_its_reference() -> None:
    story = Story(times("l", 2, wait("w")))
    assert story.signal("w", iteration="2") is None
    story.signal("w")
    story.signal("w", iteration="2")
    assert story.signal("w") is None
    assert [t.status for t in story.rows("w")] == ["COMPLETED", "COMPLETED"]
    assert story.status == "COMPLETED"


def test_b014_the_end_of_a_wait_in_a_loop_wakes_its_run_at_once() -> None:
    story = Story(times("l", 2, simple("a"), wait("w")))
    story.end("a")
    story.signal("w")
    assert "a@2" in story.open()


def test_b018_a_join_without_names_waits_for_every_branch() -> None:
    story = Story(*fork("f", [wait("w1")], [wait("w2")]))
    story.signal("w1")
    assert "j" in story.open()
    story.signal("w2")
    assert story.status == "COMPLETED"


def dynamic(tasks: str, inputs: str = "${workflow.input.in}") -> list[dict[str, Any]]:
    return [
        of(
            "FORK_JOIN_DYNAMIC", "f", dynamicForkTasksParam="tasks", dynamicForkTasksInputParamName="inputs",
            inputParameters={"tasks": tasks, "inputs": inputs},
        ),
        of("JOIN", "j", joinOn=[]),
    ]  # fmt: skip


def test_b020_a_fork_of_no_tasks_goes_on_and_one_of_null_fails_by_name() -> None:
    story = Story(inline("plan", "[]"), *dynamic("${plan.output.result}", "${workflow.input.no}"), simple("after"))
    assert (story.row("f").status, story.row("j").status, story.row("j").output) == ("COMPLETED", "COMPLETED", {})
    assert story.open() == {"after"}
    broken = Story(inline("plan", "null"), *dynamic("${plan.output.result}"), simple("after"))
    assert broken.status == "FAILED"
    assert "tasks" in str(broken.row("f").reason)


def test_b021_an_optional_failure_does_not_end_the_join() -> None:
    after = simple("after", inputParameters={"v": "${m.output.v}"})
    story = Story(*fork("f", [simple("o", optional=True)], [simple("m")], join=["o", "m"]), after, policies={"o": {}})
    story.fail("o")
    assert {"j", "m"} <= story.open()
    story.end("m", {"v": 1})
    assert story.row("j").status == "COMPLETED_WITH_ERRORS"
    assert story.row("after").input == {"v": 1}


def test_b023_a_join_waits_while_a_branch_has_retries_left() -> None:
    story = Story(*fork("f", [simple("a")], [simple("b")]), policies={"a": {"retryCount": 2, "retryDelaySeconds": 0}})
    story.fail("a")
    assert {"j", "a"} <= story.open()
    story.end("a")
    story.end("b")
    assert story.status == "COMPLETED"


def test_b024_a_join_is_judged_anew_after_a_retry_of_its_run() -> None:
    refs = ("a", "b", "c")
    story = Story(*fork("f", *[[simple(ref)] for ref in refs]), policies={ref: {} for ref in refs})
    story.fail("a")
    assert story.status == "FAILED"
    control.retry(flows.NAMESPACE, story.run, actor="ann")
    story.rest()
    for ref in refs:
        story.end(ref)
    assert story.status == "COMPLETED"


@pytest.mark.parametrize("default", [[], [inline("d", "1")]])
def test_b025_a_branch_through_the_default_of_a_switch_lets_its_join_end(default: list[Any]) -> None:
    story = Story(
        *fork(
            "f",
            [simple("a"), switch("s", "${a.output.k}", {"x": [simple("bx")]}, default)],
            [simple("c")],
            join=["s", "c"],
        )
    )
    story.end("c")
    story.end("a", {"k": "zzz"})
    assert story.status == "COMPLETED"


def test_b027_an_exclusive_join_in_a_branch_lets_it_go_on() -> None:
    chosen = switch("s", "b", {"a": [inline("x", "1")], "b": [inline("y", "2")]})
    story = Story(
        *fork("f", [chosen, of("EXCLUSIVE_JOIN", "ex", joinOn=["x", "y"])], [inline("q", "3")], join=["ex", "q"])
    )
    assert story.status == "COMPLETED"
    assert story.row("ex").output["result"] == 2


def test_b028_each_branch_goes_on_by_itself() -> None:
    story = Story(*fork("f", [wait("w4"), wait("w5")], [wait("w2"), wait("w3")], join=["w3", "w5"]))
    story.signal("w4")
    assert story.open() == {"w5", "w2", "j"}
    for ref in ("w2", "w3", "w5"):
        story.signal(ref)
    assert story.status == "COMPLETED"


def test_b033_optional_holds_for_children_made_at_run_time() -> None:
    child = flows.register(of("TERMINATE", "t", inputParameters={"terminationStatus": "${workflow.input.s}"}))
    tasks = [of("SUB_WORKFLOW", ref, optional=True, subWorkflowParam={"name": child}) for ref in ("c1", "c2")]
    story = Story(
        *dynamic("${workflow.input.tasks}"),
        input={"tasks": tasks, "in": {"c1": {"s": "FAILED"}, "c2": {"s": "COMPLETED"}}},
    )
    assert story.status == "COMPLETED"
    assert [story.row(ref).status for ref in ("c1", "c2", "j")] == [
        "COMPLETED_WITH_ERRORS",
        "COMPLETED",
        "COMPLETED_WITH_ERRORS",
    ]


def test_b034_one_task_is_forked_over_many_inputs() -> None:
    inputs = [{"n": 1}, {"n": 2}, 7, None]
    queue = flows.unique("add_one")
    fork_ = of("FORK_JOIN_DYNAMIC", "f", inputParameters={"forkTaskName": queue, "forkTaskInputs": inputs})
    run = flows.start(flows.register(fork_, of("JOIN", "j", joinOn=[])))
    flows.drain()
    found = sorted(flows.lease(queue), key=lambda task: task.ref)
    assert len({task.ref for task in found}) == 4
    plain = [{k: v for k, v in task.input.items() if k != "__index" and k != "index"} for task in found]
    assert plain == [{"n": 1}, {"n": 2}, {"input": 7}, {}]
    flows.complete(found)
    flows.drain()
    assert flows.status(run) == "COMPLETED"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_b035_a_joins_output_has_one_shape_for_any_number_of_branches(count: int) -> None:
    tasks = [inline(f"b{i}", "1") for i in range(count)]
    story = Story(
        *dynamic("${workflow.input.tasks}"), inline("after", "$.r", r="${j.output}"),
        input={"tasks": tasks, "in": {f"b{i}": {"expression": f"{i}", "evaluatorType": "javascript"} for i in range(count)}},
    )  # fmt: skip
    assert story.status == "COMPLETED"
    (after,) = story.rows("after")
    assert {ref: out["result"] for ref, out in after.input["r"].items()} == {f"b{i}": i for i in range(count)}


def test_b037_an_empty_case_that_matches_is_taken() -> None:
    failing = of("TERMINATE", "t", inputParameters={"terminationStatus": "FAILED"})
    story = Story(switch("s", "${workflow.input.k}", {"true": []}, [failing]), simple("after"), input={"k": "true"})
    assert story.open() == {"after"}
    assert story.rows("t") == []


@pytest.mark.parametrize(
    ("value", "taken"), [
        (1, "one"), ("1", "one"), (1.0, "one"), (0, "z"), (True, "t"), (None, "d"), ("", "d"), ([1], "d"), ({"a": 1}, "d"),
    ],
)  # fmt: skip
def test_b039_values_of_every_type_choose_a_case(value: Any, taken: str) -> None:
    cases = {"0": [inline("z", "1")], "1": [inline("one", "1")], "true": [inline("t", "1")]}
    story = Story(switch("s", "${workflow.input.n}", cases, [inline("d", "1")]), input={"n": value})
    assert story.status == "COMPLETED"
    assert [t.ref for t in story.rows() if t.ref != "s"] == [taken]
    assert "evaluationResult" in story.row("s").output


def test_b040_a_task_skipped_ahead_of_its_turn_is_passed_over() -> None:
    story = Story(
        simple("t1"), switch("d", "${t1.output.k}", {"true": [simple("t2"), simple("t3")], "false": [simple("t4")]})
    )
    control.skip_task(flows.NAMESPACE, story.run, "t2", actor="ann")
    story.end("t1", {"k": "true"})
    assert (story.row("t2").status, story.open()) == ("SKIPPED", {"t3"})


def test_b060_a_run_of_optional_tasks_that_all_fail_completes() -> None:
    story = Story(simple("a", optional=True), simple("b", optional=True), policies={"a": {}, "b": {}})
    story.fail("a")
    story.fail("b")
    assert (story.status, [t.status for t in story.rows()]) == ("COMPLETED", ["COMPLETED_WITH_ERRORS"] * 2)


def test_b126_two_approvals_in_parallel_are_both_waited_for() -> None:
    story = Story(*fork("f", [of("HUMAN", "h1")], [of("HUMAN", "h2")]), simple("after"))
    story.signal("h1")
    assert "after" not in story.open()
    story.signal("h2")
    assert story.open() == {"after"}


def test_b116_variables_are_kept_to_the_end() -> None:
    given = {"user": "u", "n": None, "m": {"a": [1]}}
    story = Story(
        of("SET_VARIABLE", "s", inputParameters=given),
        switch("d", "x", {"x": [inline("i", "1")]}),
        *fork(
            "f",
            [of("SET_VARIABLE", "s1", inputParameters={"one": 1})],
            [of("SET_VARIABLE", "s2", inputParameters={"two": 2})],
        ),
        inline("x", "$.u", u="${workflow.variables.user}"),
    )
    assert story.row("x").output["result"] == "u"
    assert story.execution().variables == {**given, "one": 1, "two": 2}


def test_b121_an_open_run_keeps_the_definition_it_began_with() -> None:
    story = Story(simple("a"), simple("b"))
    tasks = [{**simple("a"), "name": story.queue("a")}, {**simple("c"), "name": story.queue("c")}]
    definitions.register(flows.NAMESPACE, {"name": story.name, "version": 1, "tasks": tasks}, overwrite=True)
    story.end("a")
    assert story.open() == {"b"}
    story.end("b")
    control.restart(flows.NAMESPACE, story.run, actor="ann", use_latest_definitions=True)
    story.rest()
    story.end("a")
    assert story.open() == {"c"}
