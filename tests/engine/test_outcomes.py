"""What operators put out and show, and how a run ends by them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import fork, loop, run, simple, switch, task
from tests.engine.simulator import Run
from workflows.engine.conditions import as_case, is_true


@pytest.mark.parametrize(
    ("value", "case"),
    [(None, "null"), (True, "true"), (False, "false"), (2.0, "2"), (2.5, "2.5"), (3, "3"), ("x", "x"), ([1], "[1]")],
)
def test_the_case_that_a_value_chooses(value: Any, case: str) -> None:
    assert as_case(value) == case


@pytest.mark.parametrize(
    ("value", "holds"),
    [(True, True), (False, False), (1, True), (0.5, True), (0, False), (-1, False), ("true", False), (None, False)],
)
def test_what_a_loop_takes_for_true(value: Any, holds: bool) -> None:
    assert is_true(value) is holds


def test_what_a_switch_shows() -> None:
    r = run(switch("s", "x", {"x": [simple("a")]}))
    made = r.made[0]
    assert made.output == {"evaluationResult": ["x"], "selectedCase": "x"}
    assert (made.input, made.state, made.status) == ({"v": "x", "case": "x"}, {"block": "case:x"}, "COMPLETED")
    node = task(
        "DECISION", "d", caseValueParam="v", inputParameters={"v": "y"}, decisionCases={"x": [simple("a")], "y": []}
    )
    r = run({**node, "defaultCase": [simple("b")]})
    made = r.made[0]
    assert made.output == {"evaluationResult": ["y"], "selectedCase": "y", "caseOutput": ["y"]}
    assert (made.state, r.open_refs()) == ({"block": "default"}, ["b"]), "an empty case of a DECISION is none"
    r = run(switch("s", "y", {"y": []}, [simple("b")]), simple("z"))
    assert r.open_refs() == ["z"], "an empty case of a SWITCH is taken"


@pytest.mark.parametrize("evaluator", ["javascript", "graaljs"])
def test_a_switch_by_a_script(evaluator: str) -> None:
    node = switch("s", "x", {"2": [simple("a")]}) | {"evaluatorType": evaluator, "expression": "$.v.length + 1"}
    assert run(node).open_refs() == ["a"]
    broken = run({**node, "expression": "nothing("})
    assert broken.ended == "FAILED"
    assert f"the {evaluator} expression failed" in str(broken.made[0].reason)
    unknown = run({**node, "evaluatorType": "python"})
    assert "got 'python'" in str(unknown.made[0].reason)
    assert run({**node, "expression": None}).made[0].state == {"block": "default"}


def test_a_decision_by_a_script_or_by_nothing() -> None:
    node = task("DECISION", "d", caseExpression="$.v + 1", inputParameters={"v": 1}, decisionCases={"2": [simple("a")]})
    assert run(node).open_refs() == ["a"]
    bare = run({**node, "caseExpression": None, "defaultCase": [simple("b")]})
    assert (bare.open_refs(), bare.made[0].output["selectedCase"]) == (["b"], "null")


def ended(given: dict[str, Any]) -> Any:
    r = run(simple("a"), task("TERMINATE", "t", inputParameters=given), simple("z"))
    r.finish("a", {"n": 1})
    assert r.end is not None
    return r.end.status, r.end.output, r.end.reason, r.end.failed_refs


@pytest.mark.parametrize(
    ("given", "status", "output", "reason", "failed"),
    [
        ({"terminationStatus": "COMPLETED", "workflowOutput": {"x": 1}}, "COMPLETED", {"x": 1}, None, ()),
        ({"terminationStatus": "COMPLETED", "workflowOutput": [1]}, "COMPLETED", {"output": [1]}, None, ()),
        ({"terminationStatus": "COMPLETED"}, "COMPLETED", {}, None, ()),
        ({"terminationStatus": "COMPLETED", "terminationReason": "done"}, "COMPLETED", {}, "done", ()),
        ({"terminationStatus": "FAILED", "terminationReason": "bad"}, "FAILED", {}, "bad", ("t",)),
        ({"terminationStatus": "TERMINATED"}, "TERMINATED", {}, "Workflow is TERMINATED by TERMINATE task t", ("t",)),
    ],
)  # fmt: skip
def test_how_a_terminate_ends_the_run(
    given: dict[str, Any], status: str, output: Any, reason: Any, failed: Any
) -> None:
    assert ended(given) == (status, output, reason, failed)


def test_a_terminate_without_a_known_status_fails() -> None:
    status, _, reason, failed = ended({"terminationStatus": "DONE"})
    assert (status, failed) == ("FAILED", ("t",))
    assert "got 'DONE'" in reason


def test_what_a_terminate_and_a_noop_show() -> None:
    r = run(
        task("NOOP", "n", inputParameters={"x": 1}),
        task("TERMINATE", "t", inputParameters={"terminationStatus": "COMPLETED"}),
    )
    assert [(m.input, m.output, m.status) for m in r.made] == [
        ({"x": 1}, {}, "COMPLETED"), ({"terminationStatus": "COMPLETED"}, {}, "COMPLETED"),
    ]  # fmt: skip


def turned(turns: int, keep: Any = None) -> Run:
    r = run(loop("l", turns, simple("a")) | {"inputParameters": {"keepLastN": keep}}, simple("z"))
    for n in range(turns):
        r.finish("a", {"n": n + 1})
    return r


def test_a_loop_puts_out_its_turns_or_the_last_of_them() -> None:
    assert turned(3).output("l") == {"1": {"a": {"n": 1}}, "2": {"a": {"n": 2}}, "3": {"a": {"n": 3}}, "iteration": 3}
    assert turned(3, 2).output("l") == {"2": {"a": {"n": 2}}, "3": {"a": {"n": 3}}, "iteration": 3}
    assert turned(2, 1).output("l") == {"2": {"a": {"n": 2}}, "iteration": 2}
    for nothing in (0, -1, "2"):
        assert list(turned(2, nothing).output("l")) == ["iteration", "1", "2"]


def test_a_loop_over_a_list_shows_its_element() -> None:
    node = task(
        "DO_WHILE", "l", items=["x", "y"], loopOver=[simple("a")], loopCondition="$.loopItem != 'y' && $.loopIndex < 5"
    )
    r = run(node)
    assert (r.made[0].output, r.made[0].state) == (
        {"iteration": 1, "loopItem": "x", "loopIndex": 0}, {"iteration": 1, "items": ["x", "y"]},
    )  # fmt: skip
    r.finish("a")
    assert r.output("l") == {"iteration": 2, "loopItem": "y", "loopIndex": 1, "1": {"a": {}}}
    r.finish("a")
    assert (r.ended, r.count("a")) == ("COMPLETED", 2)
    by_index = run({**node, "items": [1, 2, 3], "loopCondition": "$.loopIndex < 1"})
    by_index.drain()
    assert by_index.count("a") == 2
    by_item = run({**node, "items": [1, 2, 3], "loopCondition": "$.loopItem < 2"})
    by_item.drain()
    assert by_item.count("a") == 2


@pytest.mark.parametrize(
    ("node", "turns"),
    [
        ({"items": "one"}, 1), ({"items": []}, 0), ({"items": "${workflow.input.none}"}, 0),
        ({"inputParameters": {"_items": [1, 2]}, "loopCondition": "true"}, 2), ({"inputParameters": {"items": [1, 2]}}, 2),
        ({"inputParameters": {"items": [1, 2]}, "loopCondition": "$.l.iteration < 3"}, 3),
    ],
)  # fmt: skip
def test_where_the_elements_of_a_loop_come_from(node: dict[str, Any], turns: int) -> None:
    r = run(task("DO_WHILE", "l", loopOver=[simple("a")], **node), simple("z"))
    for _ in range(turns):
        r.finish("a")
    assert (r.count("a"), r.open_refs()) == (turns, ["z"])


def test_a_condition_sees_the_loops_input_and_what_ran_in_the_turn() -> None:
    node = loop("l", 0, simple("a")) | {"loopCondition": "$.a.n < $.most", "inputParameters": {"most": 2}}
    r = run(node)
    r.finish("a", {"n": 1})
    r.finish("a", {"n": 2})
    assert (r.ended, r.count("a")) == ("COMPLETED", 2)


@pytest.mark.parametrize("node", [task("EXCLUSIVE_JOIN", "e", joinOn=["b"]), loop("e", 1, simple("x"))])
def test_the_output_of_the_last_task_is_that_of_the_run(node: dict[str, Any]) -> None:
    r = run(*fork("f", [simple("a")], [simple("b")], on=["a"]), node)
    r.finish("a")
    r.finish("b", {"n": 1})
    if r.end is None:
        r.finish("x", {"m": 1})
    assert r.end is not None
    assert r.end.output == ({"n": 1} if node["type"] == "EXCLUSIVE_JOIN" else {"1": {"x": {"m": 1}}, "iteration": 1})


def test_an_exclusive_join_takes_this_turns_task_and_shows_what_it_waited_for() -> None:
    join = task("EXCLUSIVE_JOIN", "e", joinOn=["b"], inputParameters={"p": 1})
    body = [*fork("f", [simple("a")], [simple("b")], on=["a"]), join]
    r = run(loop("l", 2, *body), simple("z"))
    for turn in (1, 2):
        r.finish("a")
        assert (r.open("e").input, r.open("e").state) == ({"p": 1, "joinOn": ["b"]}, {"pending": ["b"]})
        r.finish("b", {"turn": turn})
        assert r.output("e") == {"turn": turn}
    assert r.open_refs() == ["z"]
    nothing = run(task("EXCLUSIVE_JOIN", "e", joinOn=["never"]), simple("z"))
    assert (nothing.output("e"), nothing.open_refs()) == ({}, ["z"])


def made_of(given: dict[str, Any], **fields: Any) -> list[tuple[Any, ...]]:
    r = run(task("FORK_JOIN_DYNAMIC", "f", inputParameters=given, **fields), task("JOIN", "j"), simple("z"))
    return [(m.ref, m.name, m.type, m.input) for m in r.made if m.ref not in ("f", "j", "z")]


@pytest.mark.parametrize(
    ("given", "ref", "name", "type"),
    [
        ({"forkTaskName": "n"}, "_n_0", "n", "SIMPLE"), ({}, "_f_0", "f", "SIMPLE"),
        ({"forkTaskType": "HTTP"}, "_HTTP_0", "HTTP", "HTTP"), ({"forkTaskType": "HUMAN"}, "_HUMAN_0", "HUMAN", "HUMAN"),
        ({"forkTaskType": "MINE"}, "_f_0", "f", "MINE"), ({"forkTaskName": "n", "forkTaskType": "HTTP"}, "_n_0", "n", "HTTP"),
        ({"forkTaskWorkflow": "c"}, "_c_0", "c", "SUB_WORKFLOW"),
        ({"forkTaskWorkflow": "c", "forkTaskName": "n"}, "_n_0", "n", "SUB_WORKFLOW"),
    ],
)  # fmt: skip
def test_what_the_branches_of_one_task_are_called(given: dict[str, Any], ref: str, name: str, type: str) -> None:
    assert [made[:3] for made in made_of({"forkTaskInputs": [{}], **given})] == [(ref, name, type)]


def test_the_inputs_of_branches() -> None:
    made = made_of({"forkTaskName": "n", "forkTaskInputs": [{"a": 1}, None, 5, [1]]})
    assert [given for *_, given in made] == [
        {"a": 1, "__index": 0}, {"__index": 1}, {"input": 5, "__index": 2}, {"input": [1], "__index": 3},
    ]  # fmt: skip


def test_the_children_of_a_fork() -> None:
    inputs = [{"a": 1, "taskToDomain": {"t": "d"}}, {"b": 2}]
    given = {
        "forkTaskWorkflow": "c",
        "forkTaskWorkflowVersion": 4,
        "forkTaskInputs": inputs,
    }
    r = run(task("FORK_JOIN_DYNAMIC", "f", inputParameters=given), task("JOIN", "j"))
    sent = [m.effects[0].payload for m in r.made if m.effects]
    assert [(p["name"], p["version"], p["task_to_domain"], p["input"]) for p in sent] == [
        ("c", 4, {"t": "d"}, {"a": 1, "__index": 0}), ("c", 4, {}, {"b": 2, "__index": 1}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("item", "name", "type"),
    [
        ({"taskName": "t", "workflowName": "w"}, "t", "SIMPLE"), ({"workflowName": "w"}, "w", "SIMPLE"), ({}, "r", "SIMPLE"),
        ({"taskName": "t", "type": "HTTP"}, "t", "HTTP"), ({"taskName": "t", "type": "SUB_WORKFLOW"}, "t", "SUB_WORKFLOW"),
    ],
)  # fmt: skip
def test_the_names_of_the_older_form(item: dict[str, Any], name: str, type: str) -> None:
    listed = {"l": {"dynamicTasks": [{"referenceName": "r", **item, "input": {"k": 1}}]}}
    ((ref, named, kind, given),) = made_of(listed, dynamicForkJoinTasksParam="l")
    assert (ref, named, kind) == ("r", name, type)
    if type == "SUB_WORKFLOW":
        assert given["subWorkflowName"] == "t"
    else:
        assert given == {"k": 1}


@pytest.mark.parametrize(
    ("given", "fields", "said"),
    [
        ({}, {}, "expected a list in inputParameters.forkTaskInputs"),
        ({"l": 5}, {"dynamicForkJoinTasksParam": "l"}, "input 'l': expected an object with a list"),
        ({"l": {"dynamicTasks": [{"taskName": "t"}]}}, {"dynamicForkJoinTasksParam": "l"}, "element 0 has no referenceName"),
        ({"l": {"dynamicTasks": [5]}}, {"dynamicForkJoinTasksParam": "l"}, "element 0 has no referenceName"),
        ({"t": 5}, {"dynamicForkTasksParam": "t"}, "input 't': expected a list of tasks, got int"),
        ({"t": [], "i": 5}, {"dynamicForkTasksParam": "t", "dynamicForkTasksInputParamName": "i"}, "input 'i': expected"),
        ({"t": [{"name": "n"}]}, {"dynamicForkTasksParam": "t"}, "element 0 is no task"),
        ({"t": [{"taskReferenceName": 5}]}, {"dynamicForkTasksParam": "t"}, "element 0 is no task"),
    ],
)  # fmt: skip
def test_why_a_fork_has_no_branches(given: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    r = run(task("FORK_JOIN_DYNAMIC", "f", inputParameters=given, **fields), task("JOIN", "j"))
    assert (r.ended, r.status("f"), r.count("j")) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR", 0)
    assert said in str(r.made[0].reason)


def test_what_a_dynamic_fork_shows() -> None:
    r = run(
        task("FORK_JOIN_DYNAMIC", "f", inputParameters={"forkTaskName": "n", "forkTaskInputs": [1]}, optional=True),
        task("JOIN", "j"),
    )
    shown = r.made[0]
    assert (shown.type, shown.output, shown.input["forkedTasks"]) == ("FORK", {}, ["_n_0"])
    branch = next(m for m in r.made if m.ref == "_n_0")
    assert (branch.spec["optional"], branch.state) == (True, {"fork": "f"})
    assert r.open("j").input == {"joinOn": ["_n_0"]}


def test_a_task_of_a_branch_is_named_after_its_reference_when_it_has_no_name() -> None:
    given = {"t": [{"taskReferenceName": "r", "type": "SIMPLE"}]}
    assert made_of(given, dynamicForkTasksParam="t")[0][:2] == ("r", "r")


def test_a_person_is_reminded_at_the_deadline() -> None:
    r = run(task("HUMAN", "h", inputParameters={"deadlineSeconds": 60, "assignee": "ann"}))
    (made,) = r.made
    assert [t.kind for t in made.timers] == ["DEADLINE"]
    assert (made.inbox.assignee, made.inbox.workflow_name) == ("ann", "w")
    assert run(task("HUMAN", "h")).made[0].timers == ()
