"""Every field of a definition changes something, or is refused by name; none is accepted and inert."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.definitions import fork, loop, run, simple, switch, task
from tests.engine.simulator import Run
from workflows.engine import fields
from workflows.engine.validation import validate, validate_task_definition


def problems(*tasks: dict[str, Any], **more: Any) -> list[str]:
    found = validate({"name": "w", "version": 1, "tasks": list(tasks), **more})
    return [f"{problem.path}: {problem.message}" for problem in found]


Case = Callable[[], tuple[Any, Any]]
"""What happens without the field, and with it."""


def _first(with_: dict[str, Any], without: dict[str, Any], see: Callable[[Run], Any], **more: Any) -> tuple[Any, Any]:
    return see(run(without, simple("z"), **more)), see(run(with_, simple("z"), **more))


def _failed(field: dict[str, Any], status: str = "FAILED_WITH_TERMINAL_ERROR") -> str:
    r = run(simple("a", **field), simple("z"))
    r.finish("a", status=status)
    return f"{r.ended} {r.status('a')} {r.open_refs()}"


def _schedule(r: Run) -> Any:
    made = r.made[0]
    return made.name, made.delay_seconds, made.type, made.input, made.timeout_seconds


def _switched(**change: Any) -> list[str]:
    node = switch("s", "a", {"a": [simple("x")]}, [simple("y")]) | change
    return run(node).open_refs()


def _decided(**change: Any) -> list[str]:
    node = task(
        "DECISION", "d", caseValueParam="v", inputParameters={"v": "a", "w": "b"}, decisionCases={"a": [simple("x")]}
    )
    return run({**node, **change}, simple("z")).open_refs()


def _turns(**change: Any) -> Any:
    r = run({**loop("l", 1, simple("x")), **change})
    r.drain()
    return r.count("x"), r.count("y"), r.ended


def _joined(**join: Any) -> list[str]:
    opened, closed = fork("f", [simple("a")], [simple("b")])
    r = run(opened, closed | join, simple("z"))
    r.finish("a")
    return r.open_refs()


def _forked(input: dict[str, Any], **node: Any) -> Any:
    r = run(task("FORK_JOIN_DYNAMIC", "f", inputParameters=input, **node), task("JOIN", "j"), simple("z"))
    return r.open_refs(), [t.input for t in r.tasks.values() if t.ref == "b"]


def _excluded(**change: Any) -> Any:
    r = run(simple("a"), simple("b"), task("EXCLUSIVE_JOIN", "e", joinOn=["a"]) | change)
    r.finish("a", {"n": "a"})
    r.finish("b", {"n": "b"})
    return r.output("e")


def _two_joins(mode: str) -> list[str]:
    return problems(*fork("f", [simple("a")])[:1], task("JOIN", "j", joinMode=mode))


_BRANCH = [simple("b")]
_LEGACY = {"dynamicTasks": [{"taskName": "b", "referenceName": "b"}]}
TASK_CASES: dict[str, Case] = {
    "name": lambda: _first(simple("a", name="n"), simple("a"), _schedule),
    "taskReferenceName": lambda: _first(simple("b"), simple("a"), Run.open_refs),
    "type": lambda: _first(simple("a", type="NOOP"), simple("a"), Run.open_refs),
    "inputParameters": lambda: _first(simple("a", inputParameters={"x": 1}), simple("a"), _schedule),
    "optional": lambda: (_failed({}), _failed({"optional": True})),
    "permissive": lambda: (_failed({}), _failed({"permissive": True})),
    "startDelay": lambda: _first(simple("a", startDelay=5), simple("a"), _schedule),
    "retryCount": lambda: (_failed({"retryCount": 0}, "FAILED"), _failed({"retryCount": 1}, "FAILED")),
    "taskDefinition": lambda: _first(simple("a", taskDefinition={"timeoutSeconds": 9}), simple("a"), _schedule),
    "onStateChange": lambda: _first(
        simple("a", onStateChange={"onScheduled": [{"type": "x"}]}), simple("a"), lambda r: r.made[0].effects
    ),
    "compensateWith": lambda: (_undone({}), _undone({"compensateWith": simple("u")})),
    "evaluatorType": lambda: (
        _switched(expression="v == 'a'"),
        _switched(evaluatorType="javascript", expression="$.v == 'a' ? 'a' : 'b'"),
    ),
    "expression": lambda: (_switched(), _switched(expression="w")),
    "decisionCases": lambda: (_switched(), _switched(decisionCases={"b": [simple("x")]})),
    "defaultCase": lambda: (_switched(expression="w"), _switched(expression="w", defaultCase=[simple("q")])),
    "caseValueParam": lambda: (_decided(), _decided(caseValueParam="w")),
    "caseExpression": lambda: (_decided(), _decided(caseExpression="$.w")),
    "forkTasks": lambda: (
        run(*fork("f", [simple("a")])).open_refs(),
        run(*fork("f", [simple("a")], [simple("b")])).open_refs(),
    ),
    "joinOn": lambda: (_joined(), _joined(joinOn=["a"])),
    "joinMode": lambda: (_two_joins("ASYNC"), _two_joins("SOMETIMES")),
    "defaultExclusiveJoinTask": lambda: (
        _excluded(joinOn=["never"]),
        _excluded(joinOn=["never"], defaultExclusiveJoinTask=["b"]),
    ),
    "loopOver": lambda: (_turns(), _turns(loopOver=[simple("y")])),
    "loopCondition": lambda: (_turns(), _turns(loopCondition="$.l.iteration < 3")),
    "items": lambda: (_turns(loopCondition=None), _turns(loopCondition=None, items=[1, 2])),
    "dynamicForkTasksParam": lambda: (
        _forked({"t": [], "u": _BRANCH, "i": {}}, dynamicForkTasksParam="t", dynamicForkTasksInputParamName="i"),
        _forked({"t": [], "u": _BRANCH, "i": {}}, dynamicForkTasksParam="u", dynamicForkTasksInputParamName="i"),
    ),
    "dynamicForkTasksInputParamName": lambda: (
        _forked({"u": _BRANCH, "i": {}}, dynamicForkTasksParam="u", dynamicForkTasksInputParamName="i"),
        _forked({"u": _BRANCH, "k": {"b": {"n": 1}}}, dynamicForkTasksParam="u", dynamicForkTasksInputParamName="k"),
    ),
    "dynamicForkJoinTasksParam": lambda: (
        _forked({"n": {"dynamicTasks": []}, "l": _LEGACY}, dynamicForkJoinTasksParam="n"),
        _forked({"n": {"dynamicTasks": []}, "l": _LEGACY}, dynamicForkJoinTasksParam="l"),
    ),
    "subWorkflowParam": lambda: _first(
        task("SUB_WORKFLOW", "s", subWorkflowParam={"name": "b"}),
        task("SUB_WORKFLOW", "s", subWorkflowParam={"name": "a"}),
        lambda r: r.made[0].effects[0].payload["name"],
    ),
    "dynamicTaskNameParam": lambda: _first(
        task("DYNAMIC", "d", inputParameters={"a": "one", "b": "two"}, dynamicTaskNameParam="b"),
        task("DYNAMIC", "d", inputParameters={"a": "one", "b": "two"}, dynamicTaskNameParam="a"),
        _schedule,
    ),
}


def _undone(field: dict[str, Any]) -> list[str]:
    r = run(simple("a", **field), simple("b", retryCount=0))
    r.finish("a")
    r.finish("b", status="FAILED")
    return r.open_refs()


SCHEMAS = {"inputSchema", "outputSchema", "enforceSchema"}
"""Fields that `test_schemas.py` tests."""
_ELSEWHERE = {"sink", "asyncComplete"}
"""Fields of types that have tests of their own."""


@pytest.mark.parametrize("name", sorted((fields.TASK | frozenset().union(*fields.TYPED.values())) - _ELSEWHERE))
def test_an_accepted_field_of_a_task_changes_what_happens(name: str) -> None:
    without, with_ = TASK_CASES[name]()
    assert without != with_


def _ended(input: dict[str, Any] | None = None, **more: Any) -> Any:
    r = run(simple("a", retryCount=0), input=input, **more)
    r.finish("a", {"n": 1, "null": None}, status="FAILED" if more.get("failureWorkflow") else "COMPLETED")
    assert r.end is not None
    return r.end.output, r.end.failure_workflow


_NULL = {"outputParameters": {"t": "<${a.output.null}>"}}
WORKFLOW_CASES: dict[str, Case] = {
    "tasks": lambda: (run(simple("a")).open_refs(), run(simple("b")).open_refs()),
    "outputParameters": lambda: (_ended(), _ended(outputParameters={"x": "${a.output.n}"})),
    "variables": lambda: (
        _ended(outputParameters={"v": "${workflow.variables.v}"}),
        _ended(outputParameters={"v": "${workflow.variables.v}"}, variables={"v": 1}),
    ),
    "failureWorkflow": lambda: (_ended(failureWorkflow=""), _ended(failureWorkflow="f")),
    "failureWorkflowVersion": lambda: (
        _ended(failureWorkflow="f"),
        _ended(failureWorkflow="f", failureWorkflowVersion=2),
    ),
    "schemaVersion": lambda: (_ended(schemaVersion=2, **_NULL), _ended(schemaVersion=3, **_NULL)),
}
_BY_SERVICES = {
    "name", "version", "inputTemplate", "restartable", "timeoutSeconds", "timeoutPolicy", "rateLimitConfig",
    "maxConcurrentTasks", "searchAttributes", "inputParameters", "workflowStatusListenerEnabled",
    "workflowStatusListenerSink", "maskedFields", *SCHEMAS,
}  # fmt: skip
"""Fields that act when a run is started, admitted, timed out, restarted or shown: tested there. `inputParameters` names
inputs."""


@pytest.mark.parametrize("name", sorted(fields.WORKFLOW - _BY_SERVICES))
def test_an_accepted_field_of_a_workflow_changes_what_happens(name: str) -> None:
    without, with_ = WORKFLOW_CASES[name]()
    assert without != with_


REFUSED = [
    ("cacheConfig", {"key": "k", "ttlInSecond": 5}), ("rateLimited", True),
    ("joinStatus", "COMPLETED"), ("inputExpression", {"expression": "x"}), ("optionl", True), ("sink", "conductor"),
    ("forkTasks", [[simple("x")]]), ("loopCondition", "true"), ("joinOn", ["a"]), ("scriptExpression", "1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_field_that_would_change_nothing_is_refused_by_name(name: str, value: Any) -> None:
    found = problems(simple("a", **{name: value}))
    assert [line.split(":")[0] for line in found] == [f"tasks[0].{name}"], found


@pytest.mark.parametrize(
    "name",
    ["cacheConfig", "timoutSeconds"],
)
def test_a_field_of_a_workflow_that_would_change_nothing_is_refused_by_name(name: str) -> None:
    found = problems(simple("a"), **{name: {"any": 1}})
    assert [line.split(":")[0] for line in found] == [name], found


_BY_DISPATCH = {
    "name", "concurrentExecLimit", "rateLimitPerFrequency", "rateLimitFrequencyInSeconds", "semaphores",
    "responseTimeoutSeconds", "inputKeys", "outputKeys", *SCHEMAS,
}  # fmt: skip
"""Fields that act where a task is handed out: tested there. The keys name what goes in and out."""
DEFINED: dict[str, Any] = {
    "retryCount": 1, "retryLogic": "FIXED", "retryDelaySeconds": 7, "backoffScaleFactor": 3,
    "maxRetryDelaySeconds": 5, "backoffJitterMs": 900, "timeoutSeconds": 9, "timeoutPolicy": "RETRY",
    "totalTimeoutSeconds": 8, "pollTimeoutSeconds": 6, "inputTemplate": {"x": 1},
}  # fmt: skip


def _second_attempt(**more: Any) -> Any:
    """How the second failure of a task goes on, and how its attempts were made."""
    definition = {"retryLogic": "LINEAR_BACKOFF", "retryCount": 2, "timeoutPolicy": "TIME_OUT_WF"} | more
    r = run(simple("a", taskDefinition=definition))
    r.finish("a", status="FAILED")
    if r.end is None:
        r.finish("a", status="TIMED_OUT", cause="TASK_TIMEOUT")
    made = [(m.delay_seconds, m.timeout_seconds, [(t.kind, t.due) for t in m.timers], m.input) for m in r.made]
    return r.ended, made


@pytest.mark.parametrize("name", sorted(fields.TASK_DEFINITION - _BY_DISPATCH))
def test_an_accepted_field_of_a_task_definition_changes_what_happens(name: str) -> None:
    # A later attempt needs a policy that makes one.
    base = {"timeoutPolicy": "RETRY"} if name != "timeoutPolicy" else {}
    assert _second_attempt(**base) != _second_attempt(**base, **{name: DEFINED[name]})


@pytest.mark.parametrize(
    "name", ["isolationGroupId", "executionNameSpace", "runtimeMetadata", "baseType", "retryCuont"]
)
def test_a_field_of_a_task_definition_that_would_change_nothing_is_refused_by_name(name: str) -> None:
    found = validate_task_definition({"name": "t", name: "any"})
    assert [problem.path for problem in found] == [name]
    embedded = problems(simple("a", taskDefinition={name: "any"}))
    assert [line.split(":")[0] for line in embedded] == [f"tasks[0].taskDefinition.{name}"]


def test_a_misspelt_field_is_told_what_is_meant() -> None:
    assert problems(simple("a", optionl=True)) == [
        "tasks[0].optionl: a SIMPLE has no field 'optionl'; is 'optional' meant?"
    ]


@pytest.mark.parametrize("empty", [None, False, 0, "", [], {}])
def test_defaults_that_clients_send_are_no_fields(empty: Any) -> None:
    names = ["cacheConfig", "onStateChange", "joinStatus", "forkTasks", "sink", "rateLimited", "scriptExpression"]
    found = problems(simple("a", **dict.fromkeys(names, empty)))
    assert not [line for line in found if "expected" not in line], "the shape of a field is another matter"


@pytest.mark.parametrize(("said", "refused"), [(["a", "b"], False), (["a"], True), ([], True), (None, True)])
def test_a_fork_may_repeat_the_list_of_its_join_as_sdks_do(said: list[str] | None, refused: bool) -> None:
    forking = task("FORK_JOIN", "f", forkTasks=[[simple("a")], [simple("b")]], joinOn=["a", "b"])
    found = problems(forking, *([] if said is None else [task("JOIN", "j", joinOn=said)]))
    assert ([line for line in found if line.startswith("tasks[0].joinOn: expected what the JOIN")] != []) == refused


def test_only_what_others_complete_may_complete_asynchronously() -> None:
    assert problems(simple("a", asyncComplete=True)) == []
    given = {"uri": "http://x"}
    assert problems(task("HTTP", "h", inputParameters=given, asyncComplete=True)) == []
    inline = task("INLINE", "i", inputParameters={"expression": "1"}, asyncComplete=True)
    assert problems(inline)[0].startswith("tasks[0].asyncComplete: a INLINE ends by itself")


@pytest.mark.parametrize(("value", "fits"), [(True, True), ("${workflow.input.a}", True), ("yes", False), (1, False)])
def test_an_input_that_decides_whether_others_complete_is_true_or_false(value: Any, fits: bool) -> None:
    found = problems(task("HTTP", "h", inputParameters={"uri": "http://x", "asyncComplete": value}))
    assert [line.split(":")[0] for line in found] == ([] if fits else ["tasks[0].inputParameters.asyncComplete"])
