"""Nasty bodies and parameters over every route: refused or taken, never a failure of the server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.client import Caller, calls, demo_api, filled  # noqa: F401  (a fixture)
from tests.flows import simple, unique

_BIG = 2 * 1024 * 1024
_DEFINITION = {"name": "nasty", "version": 1, "tasks": [simple("one")]}
_RESULT = {"taskId": "%task%", "workflowInstanceId": "%run%", "status": "COMPLETED"}


def _shapes(value: Any) -> list[tuple[str, str, list[Any]]]:
    """(pattern, method, bodies): the value in every field that a route reads, and in the place of the whole body."""
    start = {"name": "%name%"}
    fields = (
        "name", "version", "input", "correlationId", "priority", "idempotencyKey", "taskToDomain", "workflowDef", "createdBy",
        "taskRefToMockOutput",
    )  # fmt: skip
    starts = [value, *({**start, name: value} for name in fields), {**start, "taskToDomain": {"*": value}}]
    mocks = [
        {**start, "taskRefToMockOutput": {"one": mock}}
        for mock in (value, [value], [{"output": value, "status": value}])
    ]
    shape = ("name", "version", "tasks", "inputTemplate", "variables", "timeoutSeconds", "description")
    tasks = [simple("one", inputParameters={"x": value}), simple("one", startDelay=value), simple("one", type=value)]
    definitions = [
        value,
        *({**_DEFINITION, name: value} for name in shape),
        *({**_DEFINITION, "tasks": [task]} for task in tasks),
    ]
    numbers = (
        "name",
        "retryCount",
        "retryDelaySeconds",
        "timeoutSeconds",
        "responseTimeoutSeconds",
        "concurrentExecLimit",
    )
    result = (
        "taskId",
        "workflowInstanceId",
        "status",
        "leaseToken",
        "workerId",
        "reasonForIncompletion",
        "logs",
        "outputData",
    )
    later = [
        {**_RESULT, "status": "IN_PROGRESS", **more}
        for more in (
            {"callbackAfterSeconds": value},
            {"logs": [{"log": value, "createdTime": value}]},
            {"workerId": value},
        )
    ]
    results = [value, *later, *({**_RESULT, name: value} for name in result)]
    return [
        ("workflow", "post", starts), ("workflow/test", "post", [*starts, *mocks]),
        ("workflow/<str:workflow_id>/variables", "post", [value, {"x": value}]),
        ("workflow/<str:workflow_id>/rerun", "post", [{"reRunFromTaskId": value}, {"workflowInput": value,
            "correlationId": value}]),
        ("workflow/<str:workflow_id>/skiptask/<str:ref>", "put", [{"taskInput": value}, {"taskOutput": value}]),
        ("workflow/<str:name>/correlated", "post", [value, [value]]),
        ("workflow/bulk/pause", "put", [value, [value]]),
        ("metadata/workflow", "post", definitions), ("metadata/workflow", "put", [[definitions[1]], [value], value]),
        ("metadata/workflow/validate", "post", definitions),
        ("metadata/taskdefs", "post", [value, [value], *([{"name": "nasty", name: value}] for name in numbers)]),
        ("metadata/taskdefs", "put", [{"name": value}]),
        ("tasks/<str:task_id>/heartbeat", "post", [value, {"leaseToken": value}, {"workerId": value}]),
        ("tasks/<str:task_id>/log", "post", [value]),
        ("tasks", "post", results), ("tasks/update-v2", "post", results[:4]), ("tasks/batch", "post", [value,
            [value], later]),
        ("tasks/<str:workflow_id>/<str:ref>/<str:status>", "post", [value, {"x": value}]),
    ]  # fmt: skip


NASTY: dict[str, Any] = {
    "NUL": "\x00", "lone surrogate": "\ud800", "big integer": 10**400, "bigint": 2**63, "negative": -1,
    "float": 1e308, "text": "x",
    "true": True, "null": None, "empty": "", "2 MB": "x" * _BIG, "astral": "𝔘" * 300, "NUL key": {"\x00": 1}, "list": [[]],
}  # fmt: skip
RAW: dict[str, bytes] = {
    "deep": b"[" * 100_000 + b"]" * 100_000, "deep object": b'{"a":' * 3000 + b"1" + b"}" * 3000,
    "not UTF-8": b'{"a":"\xff"}',
    "NaN": b'{"a":NaN}', "cut": b'{"a":', "endless number": b'{"a":' + b"9" * 5000 + b"}", "BOM": b"\xef\xbb\xbf{}",
    "huge exponent": b'{"a":1e999}', "twice": b'{"a":1,"a":2}', "deep with big": b'{"a":' * 3000 + b"9" * 30 + b"}" * 3000,
}  # fmt: skip
QUERIES = ("x=%00", "version=%00", "version=99999999999999999999", "priority=1e9", "count=-1", "count=9999999999999999999999",
           "start=9999999999999", "reason=%00", "workerid=%00", "domain=%00", "correlationId=%00", "taskType=%00",
           "size=99999999",
           "query=workflowId%3D%00", "query=version%3D99999999999999999999", "query=startTime%3C99999999999999999999",
           "query=%28", "sort=%00:DESC", "freeText=%00", "freeText=%25", "status=%00", "after=99999999999999999999",
           "overwrite=maybe",
           "reason=%ED%A0%80", "timeout=x", "query=status%20IN%20()", "query=workflowType%3D%00",
           "query=priority%20IN%20(1,99999999999999)",
           "query=version%3D٣", "version=٣", "version=1_0")  # fmt: skip


@pytest.fixture
def run(api: Caller) -> dict[str, str]:
    """A run with a leased task."""
    name = unique("fuzz")
    api.empty("post", "metadata/workflow", {"name": name, "version": 1, "tasks": [simple("one", name), simple("two")]})
    workflow_id = api.text("post", "workflow", {"name": name})
    task = api.json("get", f"tasks/poll/{name}?workerid=w")
    return {"name": name, "run": workflow_id, "task": task["taskId"]}


def _body(shape: Any, run: dict[str, str]) -> bytes:
    raw = json.dumps(shape)
    for key, value in run.items():
        raw = raw.replace(f"%{key}%", value)
    return raw.encode()


def _path(pattern: str, run: dict[str, str]) -> str:
    return filled(pattern, workflow_id=run["run"], task_id=run["task"], name=run["name"], ref="one")


@pytest.mark.parametrize("name", NASTY)
def test_nasty_values(api: Caller, run: dict[str, str], name: str) -> None:
    found = []
    for pattern, method, shapes in _shapes(NASTY[name]):
        for shape in shapes:
            status = api(method, _path(pattern, run), _body(shape, run)).status_code
            found += [f"{method} {pattern} {str(shape)[:100]}: {status}"] if status >= 500 else []
    assert found == []


@pytest.mark.parametrize("name", RAW)
def test_nasty_bytes(api: Caller, run: dict[str, str], name: str) -> None:
    tried = [
        (m, pattern, api(m, _path(pattern, run), RAW[name]).status_code)
        for m, pattern in calls("post", "put", "delete")
    ]
    assert [call for call in tried if call[2] >= 500] == []


@pytest.mark.parametrize("query", QUERIES)
def test_nasty_parameters(api: Caller, run: dict[str, str], query: str) -> None:
    tried = [
        (pattern, api("get", f"{_path(pattern, run)}?{query}").status_code)
        for _, pattern in calls("get")
        if "/batch/" not in pattern or "timeout" not in query
    ]
    tried.append(("start", api("post", f"workflow/{run['name']}?{query}", {}).status_code))
    tried.append(("terminate", api("delete", f"workflow/{run['run']}?{query}").status_code))
    assert [call for call in tried if call[1] >= 500] == []


@pytest.mark.parametrize(
    "value", ["%00", "%ED%A0%80", "x" * 3000, "%2e%2e", "99999999999999999999", "a__99999999999999999999"]
)
def test_nasty_paths(api: Caller, run: dict[str, str], value: str) -> None:
    keys = ("name", "workflow_id", "task_id", "ref", "status", "correlation_id", "version")
    found = []
    for method, pattern in calls():
        for key in keys:
            known = {"workflow_id": run["run"], "task_id": run["task"], "name": run["name"], "ref": "one"}
            if f":{key}>" in pattern:
                status = api(method, filled(pattern, **{**known, key: value})).status_code
                found += [f"{method} {pattern} {key}: {status}"] if status >= 500 else []
    assert found == []
