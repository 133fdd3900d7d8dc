"""What clients of all languages send and expect, one line each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import flows
from tests.api.client import UNKNOWN, Caller, demo_api  # noqa: F401  (a fixture)
from tests.flows import simple, unique

WAIT = {"name": "pause", "taskReferenceName": "pause", "type": "WAIT"}


@pytest.fixture
def run(api: Caller) -> dict[str, str]:
    """A run with one task on a queue of its own, a WAIT to come, and a schedule."""
    queue = unique("q")
    name = flows.register(simple("one", queue), WAIT)
    request = {"name": "s", "startWorkflowRequest": {"name": name}, "cronExpression": "0 */5 * ? * *"}
    assert api("post", "scheduler/schedules", request).status_code == 200
    return {"run": api.text("post", f"workflow/{name}", {}), "name": name, "queue": queue, "none": UNKNOWN}


# (why, method, path, body, status, content type or None for no body, text that must be in it)
Row = tuple[str, str, str, Any, int, str | None, str]
JSON, TEXT = "application/json", "text/plain"
TABLE: list[Row] = [
    ("ids are bare text", "post", "workflow", {"name": "%name%"}, 200, TEXT, "-"),
    ("ids are bare text", "post", "workflow/%name%", {}, 200, TEXT, "-"),
    ("unknown fields are ignored", "post", "workflow", {"name": "%name%", "idempotencyStrategy": "FAIL", "x": 1}, 200,
        TEXT, "-"),
    ("an empty single poll", "get", "tasks/poll/nobody?workerid=&domain=", None, 204, None, ""),
    ("an empty batch poll is a list", "get", "tasks/poll/batch/nobody?workerid=&count=1&timeout=0", None, 200, JSON, "[]"),
    ("a body on pause", "put", "workflow/%run%/pause", {}, 200, None, ""),
    ("no body on pause", "put", "workflow/%run%/pause", None, 200, None, ""),
    ("a body on DELETE", "delete", "workflow/%run%?reason=None&triggerFailureWorkflow=False", {}, 200, None, ""),
    ("a body on GET", "get", "workflow/%run%?includeTasks=true", {}, 200, JSON, "%run%"),
    ("Python's False", "post", "metadata/workflow?overwrite=False", {"name": "%name%", "version": 1,
        "tasks": [simple("one")]}, 409, JSON, "%name%"),
    ("Python's True", "put", "metadata/workflow?overwrite=True", [{"name": "%name%", "version": 1,
        "tasks": [simple("one")]}], 200, JSON, "bulkSuccessfulResults"),
    ("Python's None", "post", "workflow/execute/%name%/1?requestId=r&waitUntilTaskRef=None&waitForSeconds=0", {"input": {}},
        200, JSON, "targetWorkflowId"),
    ("version 0 is the latest", "post", "workflow/execute/%name%/0?waitUntilTaskRef=&waitForSeconds=0", {}, 200, JSON,
        "signalTimeout"),
    ("a start without a version", "post", "workflow/execute/%name%?waitForSeconds=0", {}, 200, JSON, "targetWorkflowStatus"),
    ("the version is a text", "get", "version", None, 200, TEXT, ""),
    ("empty values are absent", "get", "workflow/search?queryId=&start=&size=&freeText=&query=&sort=&skipCache=false", None,
        200, JSON, "totalHits"),
    ("a word for everything", "get", "workflow/search?freeText=*", None, 200, JSON, "%run%"),
    ("percent-encoded names", "get", "metadata/taskdefs/odd%3Aname%20%C3%A9", None, 404, JSON, "odd:name é"),
    ("a slash in a name", "get", "metadata/workflow/a%2Fb", None, 404, JSON, "NOT_FOUND"),
    ("pause by PUT", "put", "scheduler/schedules/s/pause?reason=r", {}, 200, None, ""),
    ("pause by GET", "get", "scheduler/schedules/s/pause", None, 200, None, ""),
    ("resume by PUT", "put", "scheduler/schedules/s/resume", {}, 200, None, ""),
    ("resume by GET", "get", "scheduler/schedules/s/resume", None, 200, None, ""),
    ("a missing schedule", "get", "scheduler/schedules/none", None, 404, JSON, "none"),
    ("a missing run is named", "get", "workflow/%none%", None, 404, JSON, "No such workflow found by id: %none%"),
    ("a missing definition is named", "get", "metadata/workflow/nope", None, 404, JSON, "nope"),
    ("a missing task type is named", "get", "metadata/taskdefs/nope", None, 404, JSON, "No such taskType found by name: nope"),
    ("PUT of an unknown task type", "put", "metadata/taskdefs", {"name": "nope"}, 404, JSON, "nope"),
    ("a start of nothing", "post", "workflow", {"name": "nope"}, 404, JSON, "nope"),
    ("a task of nothing", "get", "tasks/%none%", None, 404, JSON, "%none%"),
    ("a wrong enum", "post", "tasks", {"taskId": "%none%", "workflowInstanceId": "%none%", "status": "DONE"}, 400, JSON,
        "status"),
    ("a signal to what does not wait", "post", "tasks/%run%/COMPLETED/signal", {}, 200, None, ""),
    ("a waiting signal to what does not wait", "post", "tasks/%run%/COMPLETED/signal/sync", {}, 404, JSON, "WAIT"),
    ("signal is not a reference", "post", "tasks/%run%/one/COMPLETED", {"o": 1}, 200, TEXT, "-"),
    ("nothing is pending", "post", "tasks/%run%/none/COMPLETED?workerid=h", {}, 200, TEXT, ""),
    ("search is not an id", "get", "tasks/search?query=taskType%3Dnobody", None, 200, JSON, '"totalHits":0'),
    ("sizes by repeated names", "get", "tasks/queue/sizes?taskType=%queue%&taskType=b", None, 200, JSON, '"b":0'),
    ("a size is a number", "get", "tasks/queue/size?taskType=%queue%", None, 200, JSON, "1"),
    ("requeue answers a number", "post", "tasks/queue/requeue/%queue%", {}, 200, TEXT, ""),
    ("no log yet", "get", "tasks/%none%/log", None, 404, JSON, "%none%"),
    ("restart of what runs", "post", "workflow/%run%/restart?useLatestDefinitions=False", {}, 409, JSON, "RUNNING"),
    ("callbacks", "post", "workflow/%run%/resetcallbacks", {}, 204, None, ""),
    ("decide", "put", "workflow/decide/%run%", {}, 200, None, ""),
    ("a skip whose query is Python", "put", "workflow/%run%/skiptask/pause?skipTaskRequest=%7B%27taskInput%27%3A+None%7D", {},
        200, None, ""),
    ("events: probes for Orkes", "get", "integrations/provider", None, 404, JSON, "NOT_FOUND"),
    ("probes for an old path", "post", "tasks/%none%/ack", {}, 404, JSON, "NOT_FOUND"),
    ("open mode has no token", "post", "token", {"keyId": "k", "keySecret": "s"}, 404, JSON, "token"),
    ("no redirect for a slash", "get", "workflow/search/", None, 404, JSON, "NOT_FOUND"),
    ("malformed JSON", "post", "workflow", b"{", 400, JSON, "line 1"),
    ("no JSON at all", "post", "workflow", b"name=x", 400, JSON, "line 1"),
]  # fmt: skip


@pytest.mark.parametrize("row", TABLE, ids=[f"{row[0]}: {row[1]} {row[2].split('?')[0]}" for row in TABLE])
def test_the_wire(api: Caller, run: dict[str, str], row: Row) -> None:
    _, method, path, body, status, kind, text = row
    sent = body if isinstance(body, bytes) or body is None else _named(json.dumps(body), run).encode()
    response = api(method, _named(path, run), sent, HTTP_ACCEPT="application/json")
    content = response.content.decode()
    assert response.status_code == status, content
    if kind is None:
        assert content == ""
        assert status == 204 or response["Content-Length"] == "0"
    else:
        assert response["Content-Type"].split(";")[0] == kind
        assert _named(text, run) in content
        assert kind == JSON or not content.startswith('"')


def _named(text: str, run: dict[str, str]) -> str:
    for key, value in run.items():
        text = text.replace(f"%{key}%", value)
    return text


def test_statuses_are_spelled_as_clients_validate_them(api: Caller) -> None:
    """Clients drop a whole answer over one unknown word."""
    words = {"SCHEDULED", "IN_PROGRESS", "COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "CANCELED",
             "COMPLETED_WITH_ERRORS", "TIMED_OUT", "SKIPPED"}  # fmt: skip
    from workflows.engine.state import TaskStatus, WorkflowStatus

    assert {status.value for status in TaskStatus} == words
    assert {status.value for status in WorkflowStatus} == {
        "RUNNING", "COMPLETED", "FAILED", "TIMED_OUT", "TERMINATED", "PAUSED",
    }  # fmt: skip


def test_numbers_of_our_fields_are_whole(api: Caller, run: dict[str, str]) -> None:
    """A typed client fails on 1.0 where it reads a whole number, and on a number where it reads a text."""
    found = api("get", f"workflow/{run['run']}").content.decode()
    assert ".0," not in found
    (summary,) = api.json("get", f"workflow/search?query=workflowId%3D{run['run']}")["results"]
    assert {type(summary[key]) for key in ("startTime", "updateTime", "endTime", "input", "output")} == {str}
    assert {type(summary[key]) for key in ("version", "executionTime", "priority")} == {int}
