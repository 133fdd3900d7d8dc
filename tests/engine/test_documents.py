"""What `${workflow...}` and `${task...}` show, and what operators hand to the world, field by field."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.definitions import fork, loop, run, simple, task
from tests.engine.simulator import EPOCH, Run
from workflows.engine.blueprint import compile
from workflows.engine.rows import Row
from workflows.engine.scope import workflow_document
from workflows.engine.state import TaskStatus, TaskView, WorkflowStatus, WorkflowView

PARENT, STEP = UUID(int=7), UUID(int=8)
VIEW = WorkflowView(
    id=UUID(int=1), namespace="n", name="w", version=3, status=WorkflowStatus.RUNNING, input={"a": 1}, output={"o": 1},
    variables={"old": 1}, correlation_id="c", priority=5, parent_workflow_id=PARENT, parent_task_id=STEP,
    task_to_domain={"t": "d"}, created_at=datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC), root_ended=False, has_any_task=False,
    depth=2, reason="because", created_by="ann",
)  # fmt: skip


def test_what_a_workflow_shows() -> None:
    blueprint = compile({"name": "w", "schemaVersion": 3, "tasks": []}, {})
    assert workflow_document(VIEW, {"v": 1}, {"e": 1}, blueprint) == {
        "input": {"a": 1}, "output": {"o": 1}, "variables": {"v": 1}, "status": "RUNNING", "workflowId": str(UUID(int=1)),
        "workflowType": "w", "version": 3, "correlationId": "c", "priority": 5, "parentWorkflowId": str(PARENT),
        "parentWorkflowTaskId": str(STEP), "reasonForIncompletion": "because", "schemaVersion": 3,
        "createTime": 1767225601000, "createdBy": "ann", "taskToDomain": {"t": "d"}, "env": {"e": 1},
    }  # fmt: skip
    alone = replace(VIEW, parent_workflow_id=None, parent_task_id=None)
    shown = workflow_document(alone, {}, {}, compile({"name": "w", "tasks": []}, {}))
    assert (shown["parentWorkflowId"], shown["parentWorkflowTaskId"], shown["schemaVersion"]) == (None, None, 2)


def viewed(**change: Any) -> TaskView:
    given: dict[str, Any] = {
        "id": UUID(int=2), "ref": "r", "iteration": "2.13", "attempt": 1, "name": "n", "type": "SIMPLE",
        "status": TaskStatus.COMPLETED, "consumed": True, "input": {"i": 1}, "output": {"o": 2}, "reason": "why",
        "cause": None, "state": None, "spec": None, "scheduled_at": EPOCH, "started_at": EPOCH + timedelta(seconds=1),
        "ended_at": EPOCH + timedelta(milliseconds=2500), "first_scheduled_at": EPOCH, "sub_workflow_id": None,
        "worker_id": "me", "domain": None, "poll_count": 4,
    }  # fmt: skip
    return TaskView(**given | change)


def test_what_a_task_shows() -> None:
    start = 1767225600000
    assert Row.of(viewed()).document(UUID(int=1)) == {
        "input": {"i": 1}, "output": {"o": 2}, "taskType": "n", "status": "COMPLETED", "referenceTaskName": "r",
        "retryCount": 1, "taskDefName": "n", "taskId": str(UUID(int=2)), "workflowInstanceId": str(UUID(int=1)),
        "reasonForIncompletion": "why", "iteration": 13, "workerId": "me", "pollCount": 4, "scheduledTime": start,
        "startTime": start + 1000, "endTime": start + 2500,
    }  # fmt: skip
    draft = Row(UUID(int=3), "r", "", 0, "n", "HTTP", TaskStatus.SCHEDULED, {})
    shown = draft.document(UUID(int=1))
    assert [shown[name] for name in ("taskType", "iteration", "workerId", "pollCount", "startTime")] == [
        "HTTP",
        0,
        None,
        0,
        0,
    ]


def test_a_row_is_the_task_that_was_read() -> None:
    view = viewed(
        cause="TASK_TIMEOUT", state={"s": 1}, spec={"p": 1}, sub_workflow_id=UUID(int=9),
        first_scheduled_at=EPOCH + timedelta(days=1),
    )  # fmt: skip
    row = Row.of(view)
    same = (
        "id", "ref", "iteration", "attempt", "name", "type", "status", "consumed", "input", "output", "reason", "cause",
        "state", "spec", "first_scheduled_at", "sub_workflow_id",
    )  # fmt: skip
    assert [getattr(row, name) for name in same] == [getattr(view, name) for name in same]
    assert (row.view, row.changed, row.command()) == (view, False, None)


def test_expressions_reach_each_of_these() -> None:
    fields = [
        "workflow.input.x", "workflow.variables.v", "workflow.workflowType", "workflow.status", "a.input.i", "a.output.o",
        "a.status", "a.retryCount", "a.nothing", "nobody",
    ]  # fmt: skip
    wanted = {str(n): "${" + field + "}" for n, field in enumerate(fields[:-1])} | {"task": "${CPEWF_TASK_ID}"}
    r = run(
        simple("a", inputParameters={"i": 1}), simple("b", inputParameters=wanted | {"all": "${a}"}),
        input={"x": 5}, variables={"v": 6},
    )  # fmt: skip
    r.finish("a", {"o": 2})
    given = r.made[-1].input
    assert [given[str(n)] for n in range(9)] == [5, 6, "w", "RUNNING", 1, 2, "COMPLETED", 0, None]
    assert given["task"] == str(r.made[-1].id)
    assert given["all"]["output"] == {"o": 2}


def started(node: dict[str, Any], **fields: Any) -> Any:
    """The command that makes a node, in a run that has a domain, a correlation and a priority."""
    r = Run({"name": "w", "tasks": [simple("before"), node], **fields}, {"x": 1})
    r.view = replace(r.view, correlation_id="c", priority=4, task_to_domain={"*": "d"}, depth=2)
    r.finish("before")
    return r, r.made[-1]


def test_what_a_sub_workflow_is_started_with() -> None:
    param = {"name": "child", "version": "2"}
    r, made = started(
        task("SUB_WORKFLOW", "s", subWorkflowParam=param, inputParameters={"x": "${workflow.input.x}"}, startDelay=3)
    )
    (effect,) = made.effects
    assert effect.topic == "workflow.start_child"
    assert effect.payload == {
        "child_id": made.sub_workflow_id, "parent_workflow_id": r.view.id, "parent_task_id": made.id, "ref": "s",
        "iteration": "", "attempt": 0, "name": "child", "version": 2, "definition": None, "input": {"x": 1},
        "correlation_id": "c", "task_to_domain": {"*": "d"}, "priority": 4, "depth": 3, "delay_seconds": 3.0,
    }  # fmt: skip
    assert made.input == {"subWorkflowName": "child", "subWorkflowVersion": 2, "workflowInput": {"x": 1}}
    assert made.output == {"subWorkflowId": str(made.sub_workflow_id)}
    assert (made.status, made.queue) == ("IN_PROGRESS", None)


def test_what_a_sub_workflow_says_itself_comes_first() -> None:
    inner = {"name": "inner", "tasks": [simple("i")]}
    param = {"workflowDefinition": inner, "taskToDomain": {"i": "e"}, "priority": 9, "version": "latest"}
    payload = started(task("SUB_WORKFLOW", "s", subWorkflowParam=param))[1].effects[0].payload
    assert [payload[name] for name in ("name", "definition", "task_to_domain", "priority", "version")] == [
        "inner", inner, {"i": "e"}, 9, "latest",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "param",
    [
        "${workflow.input.x}",
        {"name": "${workflow.input.none}"},
        {"name": "a", "workflowDefinition": "${workflow.input.x}"},
    ],
)
def test_a_sub_workflow_without_a_name_or_definition_fails(param: Any) -> None:
    r, made = started(task("SUB_WORKFLOW", "s", subWorkflowParam=param))
    assert (r.ended, made.status) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR")
    assert made.reason.startswith("subWorkflowParam")
    assert (made.effects, made.timers) == ((), ())


def test_what_another_run_is_started_with() -> None:
    request = {"name": "other", "version": 3, "input": {"y": 2}}
    r, made = started(task("START_WORKFLOW", "s", inputParameters={"startWorkflow": request}))
    (effect,) = made.effects
    assert effect.topic == "workflow.start"
    assert effect.payload == {
        "workflow_id": UUID(made.output["workflowId"]), "starter_workflow_id": r.view.id, "starter_task_id": made.id,
        "ref": "s", "iteration": "", "attempt": 0, "name": "other", "version": 3, "definition": None, "input": {"y": 2},
        "correlation_id": "c", "task_to_domain": {"*": "d"}, "priority": 4, "delay_seconds": 0.0,
    }  # fmt: skip
    assert (made.status, made.input) == ("IN_PROGRESS", {"startWorkflow": request})
    own = {"name": "o", "workflowDef": {"name": "o"}, "correlationId": "k", "taskToDomain": {"t": "e"}, "priority": 1}
    payload = started(task("START_WORKFLOW", "s", inputParameters={"startWorkflow": own}))[1].effects[0].payload
    assert [payload[n] for n in ("definition", "input", "correlation_id", "task_to_domain", "priority", "version")] == [
        {"name": "o"}, {}, "k", {"t": "e"}, 1, None,
    ]  # fmt: skip


@pytest.mark.parametrize("request_", ["x", {}, {"name": 5}])
def test_another_run_needs_a_name(request_: Any) -> None:
    r, made = started(task("START_WORKFLOW", "s", inputParameters={"startWorkflow": request_}))
    assert (r.ended, made.status, made.effects) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR", ())


def test_what_an_event_tells() -> None:
    r, made = started(task("EVENT", "e", sink="conductor:told", inputParameters={"x": 1}))
    about = {
        "x": 1, "workflowInstanceId": str(r.view.id), "workflowType": "w", "workflowVersion": 1, "correlationId": "c",
        "taskToDomain": {"*": "d"},
    }  # fmt: skip
    (effect,) = made.effects
    assert effect.topic == "event.published"
    assert effect.payload == {"event": "conductor:w:told", "message_id": str(made.id), "payload": about}
    assert made.output == {**about, "event_produced": "conductor:w:told", "sink": "conductor:w:told"}
    assert (made.input, made.status, r.ended) == ({"x": 1}, "COMPLETED", "COMPLETED")
    r, made = started(task("EVENT", "e", sink="conductor", asyncComplete=True, inputParameters={"x": 1}))
    assert (made.status, made.input, len(made.effects)) == ("IN_PROGRESS", {"x": 1}, 1)
    assert made.output["event_produced"] == "conductor:w:e"
    assert r.open_refs() == ["e"]


@pytest.mark.parametrize("sink", ["kafka:x", "${workflow.input.none}"])
def test_an_event_to_nowhere_fails(sink: str) -> None:
    r, made = started(task("EVENT", "e", sink=sink))
    assert (r.ended, made.status, made.effects) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR", ())


LISTENING = {
    name: [{"type": "t", "payload": {"p": "${workflow.input.x}"}}] for name in ("onScheduled", "onStart", "onSuccess")
}


def test_what_a_change_of_a_task_tells() -> None:
    r, made = started(simple("a", onStateChange=LISTENING, name="n"))
    about = {
        "p": 1, "workflowInstanceId": str(r.view.id), "workflowType": "w", "workflowVersion": 1, "correlationId": "c",
        "taskId": str(made.id), "referenceTaskName": "a", "taskDefName": "n", "taskType": "SIMPLE", "retryCount": 0,
        "iteration": 0,
    }  # fmt: skip
    (effect,) = made.effects
    assert effect.topic == "event.published"
    assert effect.payload == {
        "event": "conductor:w:t", "message_id": f"{made.id}:onScheduled:0",
        "payload": {**about, "stateChange": "onScheduled", "status": "SCHEDULED"},
    }  # fmt: skip
    assert made.listeners == {name: [{"event": "conductor:w:t", "payload": about}] for name in ("onStart", "onSuccess")}


def test_what_is_settled_at_once_tells_of_all_its_changes() -> None:
    _, made = started(task("NOOP", "n", onStateChange=LISTENING))
    told = [(e.payload["payload"]["stateChange"], e.payload["payload"]["status"]) for e in made.effects]
    assert told == [("onScheduled", "SCHEDULED"), ("onStart", "IN_PROGRESS"), ("onSuccess", "COMPLETED")]
    assert made.listeners is None
    failing = {"onFailed": [{"type": "t"}], "onStart": [{"type": "t"}]}
    _, made = started(task("WAIT", "n", inputParameters={"duration": "soon"}, onStateChange=failing))
    (effect,) = made.effects
    said = effect.payload["payload"]
    assert (said["stateChange"], said["status"]) == ("onFailed", "FAILED_WITH_TERMINAL_ERROR")
    assert "'soon' is not a duration" in said["reasonForIncompletion"]


def test_a_change_names_the_turn_of_its_loop() -> None:
    r = run(loop("o", 1, loop("l", 2, simple("a", onStateChange={"onScheduled, onStart": [{"type": "t"}]}))))
    r.finish("a", iteration="1.1")
    (effect,) = r.made[-1].effects
    assert effect.payload["payload"]["iteration"] == 2
    assert list(r.made[-1].listeners) == ["onStart"]


def test_what_a_task_in_a_queue_is_made_with() -> None:
    defined = {
        "timeoutSeconds": 30, "responseTimeoutSeconds": 20, "pollTimeoutSeconds": 10, "totalTimeoutSeconds": 60,
        "retryCount": 1, "retryDelaySeconds": 5,
    }  # fmt: skip
    r, made = started(simple("a", name="n", taskDefinition=defined, startDelay=2))
    now = r.now
    assert (made.queue, made.domain, made.delay_seconds, made.response_seconds, made.timeout_seconds) == (
        "d:n",
        "d",
        2.0,
        20,
        30,
    )
    assert {(t.kind, t.due) for t in made.timers} == {
        ("POLL", now + timedelta(seconds=12)), ("TOTAL", now + timedelta(seconds=60)),
    }  # fmt: skip
    r.finish("a", status="FAILED")
    again = r.made[-1]
    assert (again.attempt, again.delay_seconds, again.retried_task_id) == (1, 5.0, made.id)
    assert again.first_scheduled_at == now
    assert {(t.kind, t.due) for t in again.timers} == {
        ("POLL", r.now + timedelta(seconds=15)), ("TOTAL", now + timedelta(seconds=60)),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("domains", "domain"),
    [
        ({}, None), ({"n": "x"}, "x"), ({"*": "y"}, "y"), ({"n": "x", "*": "y"}, "x"), ({"n": " x , z"}, "x"),
        ({"n": "NO_DOMAIN", "*": "y"}, None), ({"m": "x"}, None), ({"n": ""}, None),
    ],
)  # fmt: skip
def test_the_domain_of_a_task(domains: dict[str, str], domain: str | None) -> None:
    r = run(simple("before"), simple("a", name="n"))
    r.view = replace(r.view, task_to_domain=domains)
    r.finish("before")
    made = r.made[-1]
    assert (made.domain, made.queue) == (domain, f"{domain}:n" if domain else "n")


def test_our_own_workers_serve_all_domains() -> None:
    _, made = started(task("LAMBDA", "l", inputParameters={"scriptExpression": "1"}))
    assert (made.queue, made.domain, made.type, made.status) == ("INLINE", None, "LAMBDA", "SCHEDULED")
    _, made = started(task("HTTP", "h", inputParameters={"uri": "http://x"}))
    assert (made.queue, made.domain) == ("HTTP", None)


def test_what_a_dynamic_task_becomes() -> None:
    node = task("DYNAMIC", "d", dynamicTaskNameParam="t", inputParameters={"t": "chosen", "x": 1})
    _, made = started(node)
    assert (made.name, made.type, made.queue, made.input) == ("chosen", "SIMPLE", "d:chosen", {"t": "chosen", "x": 1})
    _, made = started({**node, "inputParameters": {"t": "HTTP"}})
    assert (made.name, made.type, made.queue) == ("HTTP", "HTTP", "HTTP")
    for wrong in ("SWITCH", "", 5):
        r, made = started({**node, "inputParameters": {"t": wrong}})
        assert (r.ended, made.status, made.queue) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR", None)


def test_a_waiting_task_has_the_deadlines_of_its_definition() -> None:
    defined = {"timeoutSeconds": 30, "totalTimeoutSeconds": 60, "retryCount": 1, "retryDelaySeconds": 5}
    r, made = started(task("YIELD", "y", taskDefinition=defined, startDelay=2))
    now = r.now
    assert [(t.kind, t.due - now) for t in made.timers] == [
        ("TASK", timedelta(seconds=32)),
        ("TOTAL", timedelta(seconds=60)),
    ]
    r.finish("y", status="FAILED")
    assert [(t.kind, t.due) for t in r.made[-1].timers] == [
        ("TASK", r.now + timedelta(seconds=35)), ("TOTAL", now + timedelta(seconds=60)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "due"),
    [({"duration": "5s"}, timedelta(seconds=5)), ({"until": "2026-01-02"}, timedelta(days=1)), ({}, None),
     ({"duration": "", "until": None}, None)],
)  # fmt: skip
def test_a_wait_is_woken_at_its_moment(given: dict[str, Any], due: timedelta | None) -> None:
    r = run(task("WAIT", "w", inputParameters=given), simple("z"))
    (made,) = r.made
    assert [(t.kind, t.due) for t in made.timers] == ([] if due is None else [("WAIT", EPOCH + due)])
    assert (made.status, made.input, r.open_refs()) == ("IN_PROGRESS", given, ["w"])


def test_a_wait_for_what_is_past_is_no_wait() -> None:
    for given in ({"until": "2025-12-31"}, {"duration": "0s"}, {"until": "2026-01-01"}):
        r = run(task("WAIT", "w", inputParameters=given), simple("z"))
        assert (r.status("w"), r.output("w"), r.open_refs()) == ("COMPLETED", {}, ["z"])
    both = run(task("WAIT", "w", inputParameters={"until": "2027-01-01", "duration": "1s"}))
    assert both.ended == "FAILED"


def test_what_a_join_puts_out_and_shows() -> None:
    r = run(*fork("f", [simple("a")], [simple("b")], on=["a", "b"]), simple("z"))
    assert r.made[0].type == "FORK"
    r.finish("a", {"n": 1})
    r.finish("b")
    assert (r.output("f_join"), r.status("f_join")) == ({"a": {"n": 1}, "b": {}}, "COMPLETED")
    assert next(t for t in r.made if t.ref == "f_join").input == {"joinOn": ["a", "b"]}
