"""What may be registered and what may not: each mistake is told once, at its path, and the rest of the definition too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import fork, loop, simple, switch, task
from workflows.engine.validation import validate, validate_task_definition

MOST = 2**31 - 1
JOIN = task("JOIN", "j")


def problems(*tasks: Any, **fields: Any) -> list[tuple[str, str]]:
    return [(p.path, p.message) for p in validate({"name": "w", "tasks": list(tasks), **fields})]


def one(found: list[tuple[str, str]], path: str, said: str) -> None:
    assert [at for at, _ in found] == [path]
    assert said in found[0][1], found


INPUT = {"inputParameters": {"p": 1}}
SOUND = [
    simple("a", startDelay=0, retryCount=0, optional=False, description="d"),
    simple("a", startDelay=MOST, retryCount=MOST),
    simple("a", type=None),
    simple("a", taskDefinition={"retryCount": 0, "retryLogic": "FIXED"}),
    switch("s", "x", {"x": [simple("a")]}),
    switch("s", "x", {"x": []}, [simple("a")]),
    task("SWITCH", "s", evaluatorType="javascript", expression="$.v", decisionCases={"x": [simple("a")]}),
    task("SWITCH", "s", evaluatorType="graaljs", expression="$.v", decisionCases={"x": [simple("a")]}),
    task("DECISION", "d", caseValueParam="p", decisionCases={"x": [simple("a")]}, **INPUT),
    task("DECISION", "d", caseExpression="$.p", decisionCases={"x": [simple("a")]}, **INPUT),
    loop("l", 2, simple("a")),
    task("DO_WHILE", "l", items=[1], loopOver=[simple("a")]),
    task("DO_WHILE", "l", inputParameters={"_items": [1]}, loopOver=[simple("a")]),
    task("DO_WHILE", "l", inputParameters={"items": [1]}, loopOver=[simple("a")]),
    task("DO_WHILE", "l", loopCondition="true", evaluatorType="javascript", loopOver=[simple("a")]),
    task("DO_WHILE", "l", loopCondition="true", evaluatorType="graaljs", loopOver=[simple("a")]),
    task("DO_WHILE", "l", loopCondition="true", evaluatorType="", loopOver=[simple("a")]),
    task("SUB_WORKFLOW", "s", subWorkflowParam={"name": "x"}),
    task("SUB_WORKFLOW", "s", subWorkflowParam={"workflowDefinition": {"name": "x", "tasks": [simple("s")]}}),
    task("SUB_WORKFLOW", "s", subWorkflowParam={"workflowDefinition": "${workflow.input.d}"}),
    task("TERMINATE", "t", inputParameters={"terminationStatus": "COMPLETED"}),
    task("TERMINATE", "t", inputParameters={"terminationStatus": "FAILED"}),
    task("TERMINATE", "t", inputParameters={"terminationStatus": "TERMINATED"}),
    task("TERMINATE", "t", inputParameters={"terminationStatus": "${workflow.input.s}"}),
    task("WAIT", "w"),
    task("WAIT", "w", inputParameters={"duration": "5s"}),
    task("WAIT", "w", inputParameters={"until": "2026-01-01"}),
    task("WAIT", "w", inputParameters={"duration": "${workflow.input.d}"}),
    task("WAIT", "w", inputParameters={"duration": "", "until": None}),
    task("INLINE", "i", inputParameters={"expression": "1"}),
    task("LAMBDA", "i", inputParameters={"scriptExpression": "1"}),
    task("JSON_JQ_TRANSFORM", "i", inputParameters={"queryExpression": "."}),
    task("START_WORKFLOW", "i", inputParameters={"startWorkflow": {"name": "x"}}),
    task("GET_WORKFLOW", "i", inputParameters={"id": "x"}),
    task("DYNAMIC", "d", dynamicTaskNameParam="p", **INPUT),
    task("HTTP", "h", inputParameters={"http_request": {"uri": "http://x"}}),
    task("HTTP", "h", inputParameters={"uri": "http://x", "asyncComplete": True}),
    task("HTTP", "h", inputParameters={"uri": "http://x", "asyncComplete": "${workflow.input.a}"}),
    task("HTTP", "h", taskDefinition={"inputTemplate": {"uri": "http://x"}}),
    task("HTTP", "h", taskDefinition={"inputTemplate": {"http_request": {"uri": "http://x"}}}),
    task("HTTP_POLL", "h", inputParameters={"http_request": {"uri": "http://x", "terminationCondition": "true"}}),
    task("HTTP_POLL", "h", inputParameters={"uri": "http://x", "terminationCondition": "true"}),
    task("HTTP_POLL", "h", inputParameters={"http_request": "${workflow.input.r}"}),
    task("HTTP_POLL", "h", inputParameters={"uri": "x"}, taskDefinition={"inputTemplate": {"terminationCondition": "true"}}),
    task("BUSINESS_RULE", "b", inputParameters={"rules": [{"then": 1}]}),
    task("UPDATE_TASK", "u", inputParameters={"taskId": "x"}),
    task("UPDATE_TASK", "u", inputParameters={"workflowId": "x", "taskRefName": "y"}),
    task("PULL_WORKFLOW_MESSAGES", "p"),
    task("PULL_WORKFLOW_MESSAGES", "p", inputParameters={"batchSize": 100, "blocking": False}),
    task("PULL_WORKFLOW_MESSAGES", "p", inputParameters={"batchSize": 1, "blocking": None}),
    task("PULL_WORKFLOW_MESSAGES", "p", inputParameters={"batchSize": "${workflow.input.n}", "blocking": "${CPEWF_TASK_ID}"}),
    task("EVENT", "e", sink="conductor"),
    task("EVENT", "e", sink="conductor:x", asyncComplete=True),
    task("EVENT", "e", sink="${workflow.input.s}"),
    simple("a", inputParameters={"x": "${workflow.input.y}", "y": "${CPEWF_TASK_ID}", "z": ["${workflow.env.E}"]}),
]  # fmt: skip


@pytest.mark.parametrize("node", SOUND, ids=lambda node: str(node["type"]))
def test_a_task_that_may_be_registered(node: dict[str, Any]) -> None:
    assert problems(node) == []


AT, GIVEN = "tasks[0]", "tasks[0].inputParameters"
WRONG: list[tuple[dict[str, Any], str, str]] = [
    (simple("a", name=""), f"{AT}.name", "cannot be empty"),
    (simple("a", name=5), f"{AT}.name", "cannot be empty"),
    (simple("a", taskReferenceName=""), f"{AT}.taskReferenceName", "cannot be empty"),
    (simple("a", taskReferenceName=5), f"{AT}.taskReferenceName", "cannot be empty"),
    (simple("workflow"), f"{AT}.taskReferenceName", "reserved"),
    (simple("COMPENSATION"), f"{AT}.taskReferenceName", "reserved"),
    (simple("a", type=5), f"{AT}.type", "expected a text, got 5"),
    (task("KAFKA_PUBLISH", "k"), f"{AT}.type", "KAFKA_PUBLISH is not supported"),
    (simple("a", retryCount=-1), f"{AT}.retryCount", f"expected 0 to {MOST}, got -1"),
    (simple("a", startDelay=MOST + 1), f"{AT}.startDelay", f"got {MOST + 1}"),
    (simple("a", retryCount="3"), f"{AT}.retryCount", "expected a whole number, got str '3'"),
    (simple("a", optional=1), f"{AT}.optional", "expected true or false, got int '1'"),
    (simple("a", inputParameters=[1]), f"{AT}.inputParameters", "expected an object, got list '[1]'"),
    (simple("a", taskDefinition={"retryCount": -1}), f"{AT}.taskDefinition.retryCount", "got -1"),
    (simple("a", compensateWith=[1]), f"{AT}.compensateWith", "expected an object"),
    (simple("a", inputParameters={"x": ["${nobody.output}"]}), f"{GIVEN}.x[0]", "${nobody.output} (at character 0): there"),
    (simple("a", inputParameters={"x": {"y": "${workflow.inptu}"}}), f"{GIVEN}.x.y", "a workflow has no 'inptu'"),
    (simple("a", inputParameters={"x": "${workflow"}), f"{GIVEN}.x", "(at character "),
    (switch("s", "x", {}), f"{AT}.decisionCases", "cannot be empty"),
    (switch("s", "x", {"x": [5]}), f"{AT}.decisionCases.x[0]", "expected a task, got int"),
    (switch("s", "x", {"x": 5}), f"{AT}.decisionCases.x", "expected a list of tasks, got int"),
    (switch("s", "x", {"x": []}, [5]), f"{AT}.defaultCase[0]", "expected a task, got int"),
    (switch("s", "x", {"x": []}) | {"evaluatorType": "python"}, f"{AT}.evaluatorType", "got 'python'"),
    (switch("s", "x", {"x": []}) | {"expression": ""}, f"{AT}.expression", "needs an expression"),
    (switch("s", "x", {"x": []}) | {"expression": "q"}, f"{AT}.expression", "got 'q'"),
    (task("DECISION", "d", decisionCases={"x": []}, **INPUT), f"{AT}.caseValueParam", "needs a caseValueParam"),
    (loop("l", 1), f"{AT}.loopOver", "at least one task"),
    (loop("l", 1, simple("")), f"{AT}.loopOver[0].name", "cannot be empty"),
    (task("DO_WHILE", "l", loopOver=[simple("a")]), f"{AT}.loopCondition", "needs a loopCondition or items"),
    (loop("l", 1, simple("a")) | {"evaluatorType": "python"}, f"{AT}.evaluatorType", "got 'python'"),
    (task("SUB_WORKFLOW", "s"), f"{AT}.subWorkflowParam", "needs a subWorkflowParam"),
    (task("SUB_WORKFLOW", "s", subWorkflowParam={"version": 1}), f"{AT}.subWorkflowParam", "needs a subWorkflowParam"),
    (task("SUB_WORKFLOW", "s", subWorkflowParam={"workflowDefinition": "x"}),
     f"{AT}.subWorkflowParam.workflowDefinition", "an object"),
    (task("SUB_WORKFLOW", "s", subWorkflowParam={"workflowDefinition": {"name": "x"}}),
     f"{AT}.subWorkflowParam.workflowDefinition.tasks", "cannot be empty"),
    (task("SUB_WORKFLOW", "s", subWorkflowParam={"name": "${nobody.output}"}), f"{AT}.subWorkflowParam.name", "there is no"),
    (task("TERMINATE", "t"), f"{GIVEN}.terminationStatus", "got None"),
    (task("TERMINATE", "t", inputParameters={"terminationStatus": "DONE"}), f"{GIVEN}.terminationStatus", "got 'DONE'"),
    (task("TERMINATE", "t", inputParameters={"terminationStatus": "FAILED"}, optional=True), f"{AT}.optional", "optional"),
    (task("WAIT", "w", inputParameters={"duration": "5s", "until": "2026-01-01"}), GIVEN, "not both"),
    (task("WAIT", "w", inputParameters={"duration": "soon"}), f"{GIVEN}.duration", "'soon' is not a duration"),
    (task("WAIT", "w", inputParameters={"until": "soon"}), f"{GIVEN}.until", "'soon' is not a date"),
    (task("INLINE", "i"), f"{GIVEN}.expression", "a INLINE needs expression"),
    (task("LAMBDA", "i"), f"{GIVEN}.scriptExpression", "a LAMBDA needs"),
    (task("JSON_JQ_TRANSFORM", "i"), f"{GIVEN}.queryExpression", "needs queryExpression"),
    (task("START_WORKFLOW", "i"), f"{GIVEN}.startWorkflow", "needs startWorkflow"),
    (task("GET_WORKFLOW", "i"), f"{GIVEN}.id", "needs id"),
    (task("DYNAMIC", "d"), f"{AT}.dynamicTaskNameParam", "needs a dynamicTaskNameParam"),
    (task("HTTP", "h"), f"{GIVEN}.http_request", "needs an http_request"),
    (task("HTTP", "h", inputParameters={"uri": "x", "asyncComplete": 1}), f"{GIVEN}.asyncComplete", "got 1"),
    (task("HTTP", "h", inputParameters={"uri": "x", "asyncComplete": "yes"}), f"{GIVEN}.asyncComplete", "got 'yes'"),
    (task("HTTP_POLL", "h", inputParameters={"uri": "x"}), f"{GIVEN}.http_request.terminationCondition", "needs a termination"),
    (task("HTTP_POLL", "h", inputParameters={"http_request": {"uri": "x"}}), f"{GIVEN}.http_request.terminationCondition", ""),
    (task("BUSINESS_RULE", "b"), f"{GIVEN}.rules", "needs rules"),
    (task("BUSINESS_RULE", "b", inputParameters={"rules": [1], "ruleFileLocation": "f"}), f"{GIVEN}.ruleFileLocation", "list"),
    (task("UPDATE_TASK", "u"), GIVEN, "needs a taskId"),
    (task("UPDATE_TASK", "u", inputParameters={"workflowId": "x"}), GIVEN, "needs a taskId"),
    (task("UPDATE_TASK", "u", inputParameters={"taskRefName": "x"}), GIVEN, "needs a taskId"),
    (task("PULL_WORKFLOW_MESSAGES", "p", inputParameters={"batchSize": 0}), f"{GIVEN}.batchSize", "from 1 to 100, got 0"),
    (task("PULL_WORKFLOW_MESSAGES", "p", inputParameters={"batchSize": 101}), f"{GIVEN}.batchSize", "got 101"),
    (task("PULL_WORKFLOW_MESSAGES", "p", inputParameters={"batchSize": True}), f"{GIVEN}.batchSize", "got True"),
    (task("PULL_WORKFLOW_MESSAGES", "p", inputParameters={"blocking": 1}), f"{GIVEN}.blocking", "true or false, got 1"),
    (task("PULL_WORKFLOW_MESSAGES", "p", inputParameters={"blocking": "no"}), f"{GIVEN}.blocking", "got 'no'"),
    (task("EVENT", "e"), f"{AT}.sink", "needs a sink"),
    (task("EVENT", "e", sink=5), f"{AT}.sink", "got 5"),
    (task("EVENT", "e", sink="kafka:x"), f"{AT}.sink", "'kafka:x' is not available"),
    (task("EVENT", "e", sink="conductor:${nobody.output.x}"), f"{AT}.sink", "there is no task"),
    (task("EXCLUSIVE_JOIN", "x"), f"{AT}.joinOn", "needs a joinOn"),
    (task("EXCLUSIVE_JOIN", "x", joinOn=["n"]), f"{AT}.joinOn[0]", "there is no task 'n'"),
    (task("JOIN", "x", joinOn=[5]), f"{AT}.joinOn[0]", "expected a task reference, got 5"),
    (task("JOIN", "x", joinMode="LATER"), f"{AT}.joinMode", "got 'LATER'"),
    (task("FORK_JOIN", "f", forkTasks=[[simple("a")]]), AT, "must be followed by a JOIN"),
    (task("DO_WHILE", "l", items="${nobody.output}", loopOver=[simple("a")]), f"{AT}.items", "there is no task"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "path", "said"), WRONG, ids=lambda v: v if isinstance(v, str) else "")
def test_a_mistake_in_a_task_is_told_at_its_path(node: dict[str, Any], path: str, said: str) -> None:
    found = problems(node)
    assert path in [at for at, _ in found]
    assert any(at == path and said in message for at, message in found), found
    # What stands inside is told for itself; nothing else is wrong.
    assert {at for at, _ in found} <= {path, "tasks[0].loopOver[0].taskReferenceName"}


def test_a_fork_needs_branches_and_a_join() -> None:
    one(problems(task("FORK_JOIN", "f"), JOIN), "tasks[0].forkTasks", "at least one branch")
    one(problems(task("FORK_JOIN", "f", forkTasks=[5]), JOIN), "tasks[0].forkTasks[0]", "expected a list of tasks")
    one(problems(*fork("f", [simple("a")], [simple("a")])), "tasks[0].forkTasks[1][0].taskReferenceName",
        "'a' is not unique: it stands at tasks[0].forkTasks[0][0] too")  # fmt: skip
    one(
        problems(task("FORK_JOIN", "f", forkTasks=[[simple("a")]]), simple("j")),
        "tasks[0]",
        "a FORK_JOIN must be followed",
    )
    assert problems(*fork("f", [simple("a")], on=["a"])) == []
    one(problems(*fork("f", [simple("a")], on=["a", "b"])), "tasks[1].joinOn[1]", "there is no task 'b'")


def forked(given: Any = None, following: dict[str, Any] = JOIN, **fields: Any) -> list[tuple[str, str]]:
    return problems(task("FORK_JOIN_DYNAMIC", "f", inputParameters=given or {}, **fields), following)


def test_a_dynamic_fork_says_where_its_branches_come_from() -> None:
    named = {"dynamicForkTasksParam": "t", "dynamicForkTasksInputParamName": "i"}
    assert forked({"t": 1, "i": 1}, **named) == []
    assert forked({"forkTaskInputs": []}) == []
    assert forked({"l": 1}, dynamicForkJoinTasksParam="l") == []
    at = "tasks[0].dynamicForkTasksParam"
    one(forked(), at, "needs a dynamicForkTasksParam")
    one(forked({"i": 1}, **named), at, "expected the name of an input parameter, got 't'")
    one(forked({"t": 1}, dynamicForkTasksParam="t"), "tasks[0].dynamicForkTasksInputParamName", "needs a")
    legacy = "tasks[0].dynamicForkJoinTasksParam"
    one(forked(dynamicForkJoinTasksParam="l"), legacy, "got 'l'")
    one(forked({"t": 1, "i": 1, "l": 1}, **named, dynamicForkJoinTasksParam="l"), legacy, "exclude one another")
    one(forked({"forkTaskInputs": []}, simple("j")), "tasks[0]", "a FORK_JOIN_DYNAMIC must be followed")
    assert forked({"forkTaskInputs": []}, task("JOIN", "j", joinOn=["made_later"])) == []


@pytest.mark.parametrize(
    ("fields", "path", "said"),
    [
        ({"name": " "}, "name", "cannot be null or empty"), ({"name": 5}, "name", "cannot be null or empty"),
        ({"version": 0}, "version", "got 0"), ({"version": True}, "version", "got True"),
        ({"version": 2**31}, "version", "got 2147483648"), ({"version": "1"}, "version", "got '1'"),
        ({"timeoutSeconds": MOST + 1}, "timeoutSeconds", f"up to {MOST}, got {MOST + 1}"),
        ({"timeoutSeconds": "5"}, "timeoutSeconds", "expected a whole number, got str '5'"),
        ({"timeoutPolicy": "RETRY"}, "timeoutPolicy", "got 'RETRY'"),
        ({"inputParameters": {}}, "inputParameters", "expected a list, got dict"),
        ({"outputParameters": []}, "outputParameters", "expected an object, got list"),
        ({"inputTemplate": []}, "inputTemplate", "expected an object"), ({"variables": []}, "variables", "expected an object"),
        ({"schemaVersion": "2"}, "schemaVersion", "expected a whole number"),
        ({"restartable": 1}, "restartable", "expected true or false"), ({"enforceSchema": 1}, "enforceSchema", "true or false"),
        ({"description": 5}, "description", "expected a text, got int '5'"),
        ({"failureWorkflow": 5}, "failureWorkflow", "expected a text"), ({"ownerEmail": 5}, "ownerEmail", "expected a text"),
        ({"outputParameters": {"x": ["${b.output}"]}}, "outputParameters.x[0]", "there is no task 'b'"),
        ({"description": ["x" * 100]}, "description", "got list " + repr("['" + "x" * 58)),
    ],
)  # fmt: skip
def test_a_mistake_of_a_workflow_is_told_at_its_field(fields: dict[str, Any], path: str, said: str) -> None:
    one(problems(simple("a"), **fields), path, said)


def test_the_edges_of_what_a_workflow_may_say() -> None:
    for fields in (
        {"version": 1}, {"version": MOST}, {"version": None}, {"timeoutSeconds": MOST}, {"timeoutPolicy": "TIME_OUT_WF"},
        {"timeoutPolicy": "ALERT_ONLY"}, {"outputParameters": {"x": "${a.output.y}"}},
    ):  # fmt: skip
        assert problems(simple("a"), **fields) == []


def test_what_is_no_workflow() -> None:
    assert [(p.path, p.message) for p in validate([1])] == [("", "expected an object, got list")]
    assert [p.path for p in validate({})] == ["name", "tasks"]
    assert [p.path for p in validate({"name": "w", "tasks": {}})] == ["tasks"]
    assert [p.path for p in validate({"name": "w", "tasks": []})] == ["tasks"]


def test_every_mistake_is_told_and_not_only_the_first() -> None:
    found = problems(
        simple("a", name="", retryCount=-1),
        5,
        simple("a"),
        simple("c", inputParameters={"x": "${d.output}"}),
        version=0,
    )
    assert [path for path, _ in found] == [
        "version", "tasks[0].name", "tasks[0].retryCount", "tasks[1]", "tasks[2].taskReferenceName",
        "tasks[3].inputParameters.x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("node", "path", "said"),
    [
        (loop("l", 1, simple("a")), "compensateWith", "a DO_WHILE cannot be undone"),
        (
            task("TERMINATE", "t", inputParameters={"terminationStatus": "FAILED"}),
            "compensateWith",
            "a TERMINATE cannot",
        ),
    ],
)
def test_what_cannot_be_undone(node: dict[str, Any], path: str, said: str) -> None:
    one(problems({**node, "compensateWith": simple("u")}), f"tasks[0].{path}", said)


@pytest.mark.parametrize(
    ("undo", "path", "said"),
    [
        (task("NOOP", "u"), "type", "a NOOP cannot undo a task"),
        (task("SET_VARIABLE", "u"), "type", "a SET_VARIABLE cannot undo"),
        (simple("u", compensateWith=simple("v")), "compensateWith", "cannot be undone itself"),
        (simple("a"), "taskReferenceName", "'a' is not unique"),
        (simple("u", inputParameters={"x": "${nobody.output}"}), "inputParameters.x", "there is no task"),
    ],
)
def test_what_cannot_undo(undo: dict[str, Any], path: str, said: str) -> None:
    one(problems(simple("a", compensateWith=undo)), f"tasks[0].compensateWith.{path}", said)


def test_a_definition_inside_another_brings_its_schemas_and_has_its_own_names() -> None:
    inner = {
        "name": "i",
        "tasks": [simple("s", inputParameters={"x": "${outer.output}"})],
        "inputSchema": {"name": "n"},
    }
    node = task("SUB_WORKFLOW", "outer", subWorkflowParam={"workflowDefinition": inner})
    at = "tasks[0].subWorkflowParam.workflowDefinition"
    found = problems(node)
    assert [path for path, _ in found] == [f"{at}.tasks[0].inputParameters.x", f"{at}.inputSchema.data"]


@pytest.mark.parametrize(
    ("fields", "path", "said"),
    [
        ({"name": " "}, "name", "null or empty"), ({"name": None}, "name", "null or empty"),
        ({"retryCount": -1}, "retryCount", f"from 0 to {MOST}, got -1"), ({"retryCount": True}, "retryCount", "got True"),
        ({"timeoutSeconds": MOST + 1}, "timeoutSeconds", f"got {MOST + 1}"),
        ({"responseTimeoutSeconds": 0}, "responseTimeoutSeconds", f"from 1 to {MOST}, got 0"),
        ({"backoffScaleFactor": 0}, "backoffScaleFactor", "from 1"), ({"backoffJitterMs": 1.5}, "backoffJitterMs", "got 1.5"),
        ({"retryLogic": "RANDOM"}, "retryLogic", "FIXED, LINEAR_BACKOFF, EXPONENTIAL_BACKOFF, got 'RANDOM'"),
        ({"timeoutPolicy": "PANIC"}, "timeoutPolicy", "TIME_OUT_WF, RETRY, ALERT_ONLY, got 'PANIC'"),
        ({"timeoutSeconds": 10, "responseTimeoutSeconds": 11}, "responseTimeoutSeconds", "11 is longer than timeoutSeconds 10"),
        ({"semaphores": "s"}, "semaphores", "expected a list, got str"),
        ({"semaphores": ["ok", " "]}, "semaphores[1]", "got ' '"), ({"semaphores": [5]}, "semaphores[0]", "got 5"),
        ({"semaphores": [{"permits": 1}]}, "semaphores[0]", "the name of a semaphore"),
        ({"semaphores": [{"name": "s", "permits": 0}]}, "semaphores[0].permits", f"from 1 to {MOST}, got 0"),
        ({"semaphores": [{"name": "s", "permits": True}]}, "semaphores[0].permits", "got True"),
        ({"semaphores": [{"name": "s", "permits": MOST + 1}]}, "semaphores[0].permits", f"got {MOST + 1}"),
        ({"concurrentExecLimt": 5}, "concurrentExecLimt", "is 'concurrentExecLimit' meant?"),
    ],
)  # fmt: skip
def test_a_mistake_of_a_task_definition_is_told_at_its_field(fields: dict[str, Any], path: str, said: str) -> None:
    one([(p.path, p.message) for p in validate_task_definition({"name": "t", **fields})], path, said)


@pytest.mark.parametrize(
    "fields",
    [
        {"retryCount": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 1, "backoffScaleFactor": 1},
        {"retryCount": MOST, "rateLimitPerFrequency": MOST}, {"retryLogic": None, "timeoutPolicy": "ALERT_ONLY"},
        {"timeoutSeconds": 10, "responseTimeoutSeconds": 10}, {"timeoutSeconds": 10, "responseTimeoutSeconds": 3600},
        {"timeoutSeconds": 0, "responseTimeoutSeconds": 5}, {"timeoutSeconds": 10},
        {"semaphores": ["a", {"name": "b"}, {"name": "c", "permits": 1}, {"name": "d", "permits": MOST}]},
        {"semaphores": None}, {"semaphores": []}, {"description": "d", "ownerEmail": "o", "createdBy": "c"},
    ],
)  # fmt: skip
def test_a_task_definition_that_may_be_registered(fields: dict[str, Any]) -> None:
    assert validate_task_definition({"name": "t", **fields}) == []


@pytest.mark.parametrize(
    ("node", "name", "said"),
    [
        (simple("a", optionl=True), "optionl", "a SIMPLE has no field 'optionl'; is 'optional' meant?"),
        (simple("a", qqqqqqqq=1), "qqqqqqqq", "a SIMPLE has no field 'qqqqqqqq'"),
        (simple("a", sink="conductor"), "sink", "a SIMPLE has no sink"),
        (task("NOOP", "a", asyncComplete=True), "asyncComplete", "a NOOP ends by itself"),
        (
            task("GET_WORKFLOW", "a", inputParameters={"id": "x"}, asyncComplete=True),
            "asyncComplete",
            "a GET_WORKFLOW ends",
        ),
    ],
)
def test_a_field_that_does_nothing_is_named(node: dict[str, Any], name: str, said: str) -> None:
    one(problems(node), f"tasks[0].{name}", said)


def test_a_fork_may_repeat_what_its_join_says_and_nothing_else() -> None:
    opened, closed = fork("f", [simple("a")], on=["a"])
    assert problems({**opened, "joinOn": ["a"]}, closed) == []
    one(problems({**opened, "joinOn": ["b"]}, closed), "tasks[0].joinOn", "what the JOIN behind it says")
    found = problems({**opened, "joinOn": ["a"]})
    assert [path for path, _ in found] == ["tasks[0].joinOn", "tasks[0]"]
    assert problems(simple("a", asyncComplete=True, enforceSchema=True, sink=None)) == []


def test_a_field_of_a_workflow_that_does_nothing_is_named() -> None:
    one(
        problems(simple("a"), timeoutSecond=5),
        "timeoutSecond",
        "a workflow has no field 'timeoutSecond'; is 'timeoutSeconds' meant?",
    )
    assert problems(simple("a"), timeoutSecond=None, ownerApp="x", createTime=5) == []
