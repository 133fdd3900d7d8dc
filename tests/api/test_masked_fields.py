"""`maskedFields`: workers get the values, and no reader of a run does, wherever the value stands under its name.

What is told in words (reasons, logs) is not looked through: there are no names in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dispatch.services.dispatching import lease_system_tasks, report
from dispatch.system_tasks import run_system_task
from dispatch.worker import run_task
from orchestrator.db.models import EngineModel
from orchestrator.masking import MASK
from outbox.models import EventExecution, OutboxEvent
from outbox.services import events
from tests import flows
from tests.api.client import Caller, calls, demo_api, filled  # noqa: F401  (a fixture)
from tests.flows import NAMESPACE, child, drain, fork, register, simple, unique
from workflows.models import Execution, Task
from workflows.services import browsing, history
from workflows.services.replaying import replay

SECRET = "canary-1f6c2b"
PIN = "${workflow.input.pin}"
GIVEN = {"pin": SECRET, "other": "shown", "deep": [{"pin": {"inner": SECRET}}]}
MASKED = {"pin": MASK, "other": "shown", "deep": [{"pin": MASK}]}
MASKS = {"maskedFields": ["pin"]}


def task(type_: str, ref: str, **fields: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": type_, **fields}


def with_pin(**more: Any) -> dict[str, Any]:
    return {"inputParameters": {"pin": PIN, **more}}


def started(api: Caller, name: str, **fields: Any) -> str:
    return api.text("post", "workflow", {"name": name, "input": GIVEN, **fields})


def polled(api: Caller, queue: str) -> dict[str, Any]:
    """The next task as a worker gets it: with the values."""
    found: dict[str, Any] = api.json("get", f"tasks/poll/{queue}?workerid=w")
    assert SECRET in json.dumps(found["inputData"]) and MASK not in json.dumps(found)
    return found


def send(api: Caller, task: dict[str, Any], status: str = "COMPLETED", **output: Any) -> None:
    sent = {"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "status": status}
    api.text("post", "tasks", {**sent, "outputData": {**GIVEN, **output}})
    drain()


def run_system(type_: str) -> None:
    drain()
    for found in lease_system_tasks([type_], batch=5, worker_id="s"):
        report([run_task(found, run_system_task)], strict=True)
    drain()


def handle(event: str, *actions: tuple[str, dict[str, Any]], **fields: Any) -> None:
    listed = [{"action": kind, kind: body} for kind, body in actions]
    events.register(NAMESPACE, {"name": unique("h"), "event": event, "actions": listed, "active": True, **fields})


def everything(api: Caller) -> str:
    """A run of many types of tasks, on its last one; the value stands under its name wherever data can stand."""
    queue, below, told = unique("q"), register(simple("inner", q := unique("q"), **with_pin())), unique("flow")
    target = register(simple("t", unique("q"), **with_pin()))
    parallel = fork("f", [child("c", below, **with_pin())], [simple("b", queue, **with_pin())])
    script = {"evaluatorType": "graaljs", "expression": "({pin: $.pin})"}
    spec = simple("d", queue, inputParameters={"pin": SECRET})
    register(
        simple("a", queue, retryCount=1, taskDefinition={"retryDelaySeconds": 0}, **with_pin(deep=[{"pin": PIN}]),
               onStateChange={"onScheduled, onStart, onSuccess": [{"type": "told", "payload": {"pin": PIN}}]}),
        task("SET_VARIABLE", "set", inputParameters={"pin": "${a.output.pin}"}),
        task("SWITCH", "s", evaluatorType="value-param", expression="v", decisionCases={"x": [task("NOOP", "n")]},
             **with_pin(v="x")),
        task("INLINE", "script", **with_pin(**script)),
        task("JSON_JQ_TRANSFORM", "jq", **with_pin(queryExpression="{pin: .pin}")),
        *parallel,
        task("FORK_JOIN_DYNAMIC", "df", dynamicForkTasksParam="tasks", dynamicForkTasksInputParamName="inputs",
             inputParameters={"tasks": "${a.output.specs}", "inputs": {"d": {"pin": PIN, "more": {"pin": PIN}}}}),
        task("JOIN", "dj"),
        task("DO_WHILE", "loop", loopCondition="$.loop.iteration < 2", loopOver=[simple("l", queue, **with_pin())]),
        task("START_WORKFLOW", "go", inputParameters={"startWorkflow": {"name": target, "input": {"pin": PIN}}}),
        task("EVENT", "tell", sink="conductor:told", **with_pin()),
        task("PULL_WORKFLOW_MESSAGES", "pull"),
        task("GET_WORKFLOW", "get", inputParameters={"id": "${workflow.workflowId}", "includeTasks": True}),
        task("WAIT", "wait"),
        task("HUMAN", "person", **with_pin()),
        name=told, outputParameters={"pin": "${a.output.pin}", "all": "${f_join.output}"},
        workflowStatusListenerEnabled=True, **MASKS,
    )  # fmt: skip
    handle(
        f"conductor:{told}:told",
        ("start_workflow", {"name": target, "input": {"pin": "${pin}"}}),
        ("update_workflow_variables", {"workflowId": "${workflowInstanceId}", "variables": {"late": {"pin": "${pin}"}}}),
        ("terminate_workflow", {"workflowId": "${nothing}"}),
    )
    handle(f"conductor:{told}:told", ("start_workflow", {"name": target}), condition="$.pin === 1")
    handle(f"conductor:{told}:workflow_status", ("start_workflow", {"name": target}), condition="false")
    run = started(api, told, correlationId="c-1")
    first = polled(api, queue)
    send(api, first, "FAILED")
    send(api, polled(api, queue), specs=[spec])
    send(api, first, "COMPLETED", late=GIVEN)
    run_system("INLINE")
    run_system("JSON_JQ_TRANSFORM")
    send(api, polled(api, q))
    for _ in range(4):  # b, d, and two turns of l
        send(api, polled(api, queue))
    api.text("post", f"workflow/{run}/messages", GIVEN)
    drain()
    run_system("GET_WORKFLOW")
    blocked = api.json("post", f"tasks/{run}/COMPLETED/signal/sync?timeoutMillis=0", GIVEN)
    assert MASK in json.dumps(blocked) and SECRET not in json.dumps(blocked)
    drain()
    return run


def a_saga(api: Caller) -> str:
    """A run that fails, undoes what it did and starts its failure workflow."""
    queue, clean = unique("q"), register(simple("clean", unique("q"), **with_pin()))
    undo = simple("undo", unique("u"), inputParameters={"pin": "${a.output.pin}"})
    name = register(
        simple("a", queue, compensateWith=undo, **with_pin()), simple("b", queue, retryCount=0, **with_pin()),
        failureWorkflow=clean, variables={"mine": {"pin": "${x}"}}, **MASKS,
    )  # fmt: skip
    run = started(api, name)
    send(api, polled(api, queue))
    send(api, polled(api, queue), "FAILED")
    send(api, polled(api, undo["name"]))
    assert flows.status(UUID(run)) == "FAILED"
    return run


@pytest.fixture(name="browser")
def administrator(committed: None) -> Client:
    user = get_user_model().objects.create_superuser("root", "root@example.org", None)
    browser = Client()
    browser.force_login(user)
    return browser


def reads() -> Iterator[str]:
    """Every GET of the API, for every run, task, name and event there is."""
    runs, tasks = Execution.objects.all(), Task.objects.all()
    ids = {
        "workflow_id": [str(run.id) for run in runs], "task_id": [str(t.id) for t in tasks],
        "name": sorted({run.name for run in runs} | {t.name for t in tasks if t.queue}),
    }  # fmt: skip
    for _, pattern in calls("get"):
        if pattern.startswith(("tasks/poll", "scheduler/admin")):
            continue
        for name, values in ids.items():
            if f":{name}>" in pattern:
                for value in values:
                    yield filled(pattern, **{name: value})
        yield filled(pattern)
    for run in ids["workflow_id"]:
        yield f"workflow/{run}/status?includeOutput=true&includeVariables=true"
        yield f"workflow/{run}?includeTasks=false"
        yield f"workflow/{run}/tasks?count=1000"
        yield f"workflow/family/{run}?summaryOnly=true"
    yield from (f"workflow/{name}/correlated/c-1?includeTasks=true&includeClosed=true" for name in ids["name"])
    for kind in ("workflow/search", "workflow/search-v2", "workflow/search-by-tasks", "workflow/search-by-tasks-v2",
                 "tasks/search", "tasks/search-v2"):  # fmt: skip
        yield f"{kind}?size=1000"


def pages() -> Iterator[str]:
    """Every page of every run and task, and every record of the admin."""
    for run in Execution.objects.all():
        yield reverse("ops:execution", args=[NAMESPACE, run.id])
    for row in Task.objects.all():
        for field in ("input", "output"):
            yield reverse("ops:payload", args=[NAMESPACE, row.workflow_id, row.id, field])
        yield reverse("ops:rerun", args=[NAMESPACE, row.workflow_id, row.id])
    yield reverse("ops:executions", args=[NAMESPACE]) + f"?q={SECRET[:-1]}"
    for model in admin.site._registry:
        if issubclass(model, EngineModel):
            name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
            yield reverse(f"{name}_changelist")
            yield from (reverse(f"{name}_change", args=[key]) for key in model.objects.values_list("pk", flat=True))


def leaks(client: Client, paths: Iterator[str]) -> tuple[list[str], int]:
    """The paths whose answers hold the value, and how many were answered with 200."""
    found, answered = [], 0
    for path in dict.fromkeys(paths):
        response = client.get(path)
        text = b"".join(response) if response.streaming else response.content
        answered += response.status_code == 200
        assert response.status_code < 500, path
        if SECRET.encode() in text:
            found.append(path)
    return found, answered


def test_no_reader_is_shown_what_stands_under_a_masked_name(api: Caller, browser: Client) -> None:
    run, failed = everything(api), a_saga(api)
    assert flows.status(UUID(run)) == "RUNNING", "somebody has yet to answer the HUMAN task"
    for _ in range(2):
        found, answered = leaks(api.client, (f"/api/{path}" for path in reads()))
        assert found == [] and answered > 200
        found, answered = leaks(browser, pages())
        assert found == [] and answered > 100
        (person,) = Task.objects.filter(workflow_id=run, ref="person")
        if person.status == "IN_PROGRESS":
            api.json("post", f"human/tasks/{person.id}/complete", GIVEN)
            drain()
    assert flows.status(UUID(run)) == "COMPLETED"
    assert any(SECRET in str(row.detail) for row in EventExecution.objects.filter(event__endswith=":workflow_status"))
    for one in Execution.objects.all():
        page = history.read_after(one.id, 0, batch=1000)
        assert page.events and SECRET not in repr(page)
    for one in (run, failed):
        for path, body in (("workflow/bulk/search", [one]), (f"workflow/{one}/correlated", ["c-1"])):
            response = api("post", path, body)
            assert SECRET.encode() not in response.content
    assert all(SECRET in str(row.input) for row in Task.objects.filter(type="SIMPLE", workflow_id=run)), "they have it"


def test_a_run_is_shown_whole_but_for_the_values(api: Caller) -> None:
    queue = unique("q")
    run = started(api, register(simple("a", queue, inputParameters={"all": "${workflow.input}"}), **MASKS))
    send(api, polled(api, queue))
    shown = api.json("get", f"workflow/{run}")
    assert (shown["input"], shown["output"]) == (MASKED, MASKED)
    (one,) = shown["tasks"]
    assert (one["inputData"], one["outputData"]) == ({"all": MASKED}, MASKED)
    assert shown["workflowDefinition"]["maskedFields"] == ["pin"]
    listed = api.json("get", f"workflow/search?query=workflowId={run}")["results"][0]
    assert (json.loads(listed["input"]), json.loads(listed["output"])) == (MASKED, MASKED)
    listed = api.json("get", f"tasks/search?query=workflowId={run}")["results"][0]
    assert (json.loads(listed["input"]), json.loads(listed["output"])) == ({"all": MASKED}, MASKED)
    assert api.json("get", f"tasks/{one['taskId']}")["outputData"] == MASKED
    page = browsing.get_run(NAMESPACE, UUID(run))
    assert json.loads(page.input_text) == MASKED and page.input_text.startswith('{\n    "')
    assert json.loads(browsing.list_tasks(UUID(run))[0][0].output_text) == MASKED


def test_without_names_everything_is_shown(api: Caller) -> None:
    queue = unique("q")
    run = started(api, register(simple("a", queue, **with_pin()), maskedFields=[]))
    send(api, polled(api, queue))
    shown = api.json("get", f"workflow/{run}")
    assert (shown["input"], shown["output"]) == (GIVEN, GIVEN)


def test_names_are_kept_with_the_revision_a_run_started_with(api: Caller) -> None:
    name, queue = unique("flow"), unique("q")
    register(simple("a", queue, **with_pin()), name=name)
    before = started(api, name)
    register(simple("a", queue, **with_pin()), name=name, **MASKS)
    after = started(api, name)
    register(simple("a", queue, **with_pin()), name=name)
    assert api.json("get", f"workflow/{before}")["input"] == GIVEN
    assert api.json("get", f"workflow/{after}")["input"] == MASKED
    api.empty("delete", f"workflow/{after}")
    api.empty("post", f"workflow/{after}/restart?useLatestDefinitions=true", status=204)
    assert api.json("get", f"workflow/{after}")["input"] == MASKED, "what was masked once is not shown by another version"


def test_what_a_run_starts_masks_its_names_and_its_own(api: Caller) -> None:
    queue = unique("q")
    leaf = register(simple("leaf", queue, **with_pin()), maskedFields=["other"])
    middle = register(child("down", leaf, inputParameters={"pin": PIN, "other": "${workflow.input.other}"}))
    top = register(child("down", middle, inputParameters={"pin": PIN, "other": "${workflow.input.other}"}), **MASKS)
    run = started(api, top)
    drain()
    shown = {one["workflowName"]: one["input"] for one in api.json("get", f"workflow/family/{run}")}
    assert shown[middle] == {"pin": MASK, "other": "shown"}
    assert shown[leaf] == {"pin": MASK, "other": MASK}
    assert polled(api, queue)["inputData"] == {"pin": SECRET}
    assert api.json("get", f"workflow/{started(api, leaf)}")["input"] == {**GIVEN, "other": MASK}, "nobody above it masks"


def test_names_do_not_go_up(api: Caller) -> None:
    queue = unique("q")
    below = register(simple("inner", queue, **with_pin()), **MASKS)
    run = started(api, register(child("down", below, **with_pin())))
    drain()
    send(api, polled(api, queue))
    assert api.json("get", f"workflow/{run}")["output"]["pin"] == SECRET


def test_the_output_of_get_workflow_is_what_a_reader_of_that_run_sees(api: Caller) -> None:
    run = started(api, register(simple("a", unique("q"), **with_pin()), **MASKS))
    get = task("GET_WORKFLOW", "get", inputParameters={"id": run, "includeTasks": True})
    reader = started(api, register(get))
    run_system("GET_WORKFLOW")
    (row,) = Task.objects.filter(workflow_id=reader)
    assert row.output["input"] == MASKED and SECRET not in str(row.output)


def test_a_masked_value_is_not_found_by_searching(api: Caller) -> None:
    below = register(simple("inner", unique("q")), searchAttributes=["input.pin", "input.other"])
    top = register(child("down", below, inputParameters={"pin": PIN, "other": "found"}), **MASKS)
    started(api, top)
    drain()
    plain = started(api, below)
    for query in (f"freeText={SECRET}", f"query=input.pin = '{SECRET}'", "query=input.pin > 'a'"):
        hits = api.json("get", f"workflow/search?{query}")["results"]
        assert [hit["workflowId"] for hit in hits] == [plain], "the run that masks nothing is found"
    (hit,) = api.json("get", "workflow/search?query=input.other = 'found'")["results"]
    assert hit["searchAttributes"] == {"input.other": "found"}
    name = unique("flow")
    given = {"name": name, "version": 1, "tasks": [simple("a")], "searchAttributes": ["input.pin"], **MASKS}
    error = api.refused("post", "metadata/workflow", given)
    assert [problem["path"] for problem in error["validationErrors"]] == ["searchAttributes[0]"]
    api.refused("get", f"metadata/workflow/{name}", status=404)


def test_a_value_that_is_masked_from_now_on_is_not_found_any_more(api: Caller) -> None:
    name = register(simple("a", unique("q")), searchAttributes=["input.pin", "input.other"])
    run = started(api, name)
    register(simple("a", unique("q")), name=name, searchAttributes=["input.other"], **MASKS)
    api.empty("delete", f"workflow/{run}")
    api.empty("post", f"workflow/{run}/restart?useLatestDefinitions=true", status=204)
    assert api.json("get", f"workflow/search?freeText={SECRET}")["results"] == []
    assert len(api.json("get", "workflow/search?query=input.other = 'shown'")["results"]) == 1


def test_a_definition_with_bad_names_is_refused_and_not_stored(api: Caller) -> None:
    given = {"name": unique("flow"), "version": 1, "tasks": [simple("a")], "maskedFields": ["pin", ""]}
    error = api.refused("post", "metadata/workflow", given)
    assert [problem["path"] for problem in error["validationErrors"]] == ["maskedFields[1]"]
    error = api.refused("post", "workflow", {"name": given["name"], "workflowDef": given})
    assert [problem["path"] for problem in error["validationErrors"]] == ["workflowDef.maskedFields[1]"]
    api.refused("get", f"metadata/workflow/{given['name']}", status=404)


def test_a_late_result_is_kept_and_not_shown(api: Caller) -> None:
    queue = unique("q")
    run = started(api, register(simple("a", queue, **with_pin()), simple("b", unique("q")), **MASKS))
    found = polled(api, queue)
    send(api, found)
    send(api, found, "FAILED", late=GIVEN)
    (late,) = [e for e in api.json("get", f"workflow/{run}/history") if e["type"] == "task.late_result_refused"]
    assert late["data"]["output"] == {**MASKED, "late": MASKED}
    assert late["data"]["status"] == "FAILED"


def test_what_is_written_about_an_undoing_is_masked(api: Caller) -> None:
    run = a_saga(api)
    shown = api.json("get", f"workflow/{run}")["tasks"]
    rows = {row["referenceTaskName"]: row for row in shown}
    assert rows["undo"]["inputData"] == {"pin": MASK}
    assert "COMPENSATION" in rows and SECRET not in json.dumps(rows["COMPENSATION"])
    event = OutboxEvent.objects.get(topic="workflow.start_failure")
    assert event.payload["input"]["pin"] == SECRET and event.payload["masked_fields"] == ["pin"]


def test_events_and_what_handlers_did_are_masked(api: Caller, browser: Client) -> None:
    target, source = register(simple("t", unique("q"))), unique("flow")
    register(task("EVENT", "tell", sink="conductor:told", inputParameters={"pin": PIN, "x": [{"pin": PIN}]}),
             name=source, **MASKS)  # fmt: skip
    handle(f"conductor:{source}:told", ("start_workflow", {"name": target, "input": {"pin": "${pin}", "x": "${x}"}}))
    started(api, source)
    drain()
    (done,) = api.json("get", "event/executions")
    assert done["input"] == {"name": target, "input": {"pin": MASK, "x": [{"pin": MASK}]}}
    begun = Execution.objects.get(name=target)
    assert begun.input["pin"] == SECRET
    assert api.json("get", f"workflow/{begun.id}")["input"]["x"] == [{"pin": MASK}]
    row = EventExecution.objects.get()
    record = browser.get(reverse("admin:outbox_eventexecution_change", args=[row.id])).content.decode()
    assert SECRET not in record and "***" in record
    for event in OutboxEvent.objects.filter(topic__startswith="event."):
        record = browser.get(reverse("admin:outbox_outboxevent_change", args=[event.id])).content.decode()
        assert SECRET not in record and "***" in record and source in record


def test_a_difference_of_a_replay_is_told_without_the_values(api: Caller, monkeypatch: Any) -> None:
    queue = unique("q")
    run = started(api, register(simple("a", queue, **with_pin()), outputParameters={"pin": "${a.output.pin}"}, **MASKS))
    send(api, polled(api, queue))
    assert replay(UUID(run)) == []
    from workflows.engine.operators.start import Start

    real = Start.inputs
    monkeypatch.setattr(Start, "inputs", lambda self: {**real(self), "more": {"pin": "another"}})
    (found,) = replay(UUID(run))
    assert (found.what, found.recorded, found.replayed) == ("input", {"pin": MASK}, {"pin": MASK, "more": {"pin": MASK}})


def test_long_payloads_are_masked_before_they_are_cut(api: Caller, browser: Client) -> None:
    queue = unique("q")
    run = started(api, register(simple("a", queue, **with_pin()), **MASKS))
    send(api, polled(api, queue), fill=[{"pin": SECRET * 50, "n": n} for n in range(100)])
    (row,) = browsing.list_tasks(UUID(run))[0]
    assert len(row.output_text) == browsing.PREVIEW + 1 and SECRET not in row.output_text
    page = browser.get(reverse("ops:payload", args=[NAMESPACE, run, row.id, "output"])).content
    assert json.loads(page)["fill"][99] == {"pin": MASK, "n": 99}


def test_every_task_of_a_page_is_masked(api: Caller) -> None:
    queue = unique("q")
    made = fork("f", *[[simple(f"t{i}", queue, **with_pin(n=i))] for i in range(23)])
    run = started(api, register(*made, **MASKS))
    shown = browsing.list_tasks(UUID(run))[0]
    given = [json.loads(row.input_text) for row in shown if row.queue]
    assert given == [{"pin": MASK, "n": i} for i in range(23)]
    assert {row.output_text for row in shown if row.queue} == {None}, "none has answered yet"


def test_the_one_who_waits_for_a_run_is_a_reader_too(api: Caller) -> None:
    name = register(task("SET_VARIABLE", "s", **with_pin()), outputParameters={"pin": PIN, "x": "y"}, **MASKS)
    shown = api.json("post", f"workflow/execute/{name}/1", {"input": GIVEN})
    assert shown["output"] == {"pin": MASK, "x": "y"} and SECRET not in json.dumps(shown)
    waiting = started(api, register(task("WAIT", "w"), **MASKS))
    changed = api.json("post", f"workflow/{waiting}/variables", {"v": {"pin": SECRET}})
    assert changed["variables"] == {"v": {"pin": MASK}}
    ended = api.json("post", f"tasks/{waiting}/w/COMPLETED/sync", GIVEN)
    assert ended["output"] == MASKED


def test_a_person_sees_a_task_without_the_values(api: Caller) -> None:
    run = started(api, register(task("HUMAN", "h", **with_pin(assignee="demo", ask="why")), **MASKS))
    (listed,) = api.json("get", "human/tasks")["results"]
    assert listed["workflowId"] == run
    found = api.json("get", f"human/tasks/{listed['taskId']}")
    assert found["inputData"] == {"pin": MASK, "assignee": "demo", "ask": "why"}


def test_what_a_run_waits_for_is_told_without_the_values(api: Caller) -> None:
    waits = task("WAIT_FOR_WEBHOOK", "w", inputParameters={"matches": {"$.order": PIN}})
    run, plain = (started(api, register(waits, maskedFields=names)) for names in (["matches"], []))
    (reason,) = api.json("get", f"workflow/{run}/explain")["reasons"]
    assert "$.order" in reason["message"] and SECRET not in reason["message"]
    (reason,) = api.json("get", f"workflow/{plain}/explain")["reasons"]
    assert SECRET in reason["message"]


def test_names_cost_a_start_and_a_list_no_query(api: Caller) -> None:
    """A process reads the names of a revision once; starting and handing out read none at all."""
    name = register(simple("a", unique("q")))
    with CaptureQueriesContext(connection) as queries:
        started(api, name)
    assert not [q for q in queries.captured_queries if "maskedFields" in q["sql"]]
    api.json("get", "workflow/search")
    with CaptureQueriesContext(connection) as queries:
        api.json("get", "workflow/search")
    assert not [q for q in queries.captured_queries if "maskedFields" in q["sql"]]
