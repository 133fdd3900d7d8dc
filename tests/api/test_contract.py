"""What holds for every route: permissions are declared, errors are JSON, bad input is named and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from orchestrator.access import PERMISSIONS
from tests import flows
from tests.api.demo import Call, demo_call  # noqa: F401  (a fixture)
from workflows.models import Execution, Task, WorkflowDefinition

OPEN = {"api/health", "api/version", "api/docs", "api/token", "api/webhook/<str:webhook_id>"}
OPEN_READS = {"api/schema"}
NOBODY = "00000000-0000-7000-8000-000000000000"


def routes(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for entry in resolver.url_patterns:
        path = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from routes(entry, path)
        elif isinstance(entry, URLPattern) and path.startswith("api/"):
            yield path, entry.callback


ROUTES = dict(routes(get_resolver()))
VIEWS = {path: callback for path, callback in ROUTES.items() if path not in OPEN}


@pytest.mark.parametrize("path", VIEWS)
def test_every_route_declares_a_permission(path: str) -> None:
    assert VIEWS[path].view_class.permission in PERMISSIONS


def concrete(path: str) -> str:
    filled = path.replace("<int:version>", "1")
    while "<" in filled:
        filled = filled[: filled.index("<")] + NOBODY + filled[filled.index(">") + 1 :]
    return "/" + filled


@pytest.mark.parametrize("path", VIEWS)
def test_a_stranger_gets_in_nowhere(path: str, committed: None) -> None:
    methods = [m for m in ("get", "post", "put", "delete") if hasattr(VIEWS[path].view_class, m)]
    methods = [m for m in methods if m != "get" or path not in OPEN_READS]
    for method in methods:
        response = Client().generic(method.upper(), concrete(path), b"{}", content_type="application/json")
        assert response.status_code == 401, (method, path)
        assert response.json()["code"] == "UNAUTHENTICATED"


def test_a_request_that_was_forwarded_is_not_the_demo(call: Call) -> None:
    response = Client().get("/api/workflow/search", headers={"X-Forwarded-For": "127.0.0.1"})
    assert response.status_code == 401


def test_unknown_paths_and_methods_are_json(call: Call) -> None:
    for method, path, status in (
        ("GET", "/api/definitely/not", 404),
        ("PATCH", "/api/workflow", 405),
    ):
        response = call(method, path)
        assert response.status_code == status
        body = json.loads(response.content)
        assert (body["status"], body["retryable"]) == (status, False)
        assert body["message"]


BAD_BODIES = {
    "malformed": b'{"name": ',
    "not utf-8": b'{"name": "\xff\xfe"}',
    "nul": b'{"name": "a\\u0000b", "tasks": [{"name": "x\\u0000", "taskReferenceName": "x"}], "input": {"k": "\\u0000"}}',
    "lone surrogate": b'{"name": "\\ud800", "input": {"k": "\\ud800"}}',
    "a list": b"[1, null]",
    "a text": b'"text"',
    "a number": b"1e999",
    "big integer": b'{"name": 123456789012345678901234567890, "version": 99999999999999999999}',
    "wrong types": b'{"name": ["x"], "tasks": {"a": 1}, "input": 5, "version": "one", "priority": {}}',
    "deep": b'{"a":' * 2000 + b"1" + b"}" * 2000,
    "long": json.dumps({"name": "n" * 2_000_000}).encode(),
    "empty": b"",
    "null": b"null",
}
WRITES = [
    (method, path)
    for path, view in VIEWS.items()
    for method in ("post", "put", "delete")
    if hasattr(view.view_class, method)
]


@pytest.mark.parametrize("kind", BAD_BODIES)
def test_no_body_is_a_500_and_a_bad_one_stores_nothing(call: Call, kind: str) -> None:
    for method, path in WRITES:
        response = call(method.upper(), concrete(path), raw=BAD_BODIES[kind])
        assert response.status_code < 500, (method, path, response.content[:300])
    assert not Execution.objects.exists()
    assert not WorkflowDefinition.objects.exists()
    assert not Task.objects.exists()


def test_malformed_json_names_its_position(call: Call) -> None:
    response = call("POST", "/api/workflow", raw=b'{"name": "x",\n "input": }')
    assert response.status_code == 400
    assert "line 2" in json.loads(response.content)["message"]


@pytest.mark.parametrize(
    ("path", "query"), [
        ("/api/workflow/search", "start=-1"), ("/api/workflow/search", "size=many"), ("/api/workflow/search", "query=nonsense"),
        ("/api/workflow/search", "query=unknown%3D1"), ("/api/workflow/search", "query=startTime%3Dsoon"),
        ("/api/tasks/poll/batch/x", "count=0"), ("/api/tasks/poll/batch/x", "timeout=99999999"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_named(call: Call, path: str, query: str) -> None:
    response = call("GET", f"{path}?{query}")
    assert response.status_code == 400
    assert query.split("=")[0] in json.loads(response.content)["message"]


def test_ids_that_cannot_be_ids_are_not_found(call: Call) -> None:
    for method, path in (
        ("GET", "/api/workflow/no-such"), ("DELETE", "/api/workflow/no-such"), ("PUT", "/api/workflow/no-such/pause"),
        ("GET", "/api/tasks/no-such"), ("GET", "/api/tasks/no-such/log"), ("POST", f"/api/workflow/{NOBODY}/retry"),
    ):  # fmt: skip
        response = call(method, path)
        assert response.status_code == 404, path
        assert "no-such" in json.loads(response.content)["message"] or NOBODY in json.loads(response.content)["message"]


def test_the_openapi_document_is_valid() -> None:
    out = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    assert "/api/workflow/{workflow_id}" in out.getvalue()


def test_another_namespaces_objects_are_not_found(call: Call, settings: Any) -> None:
    from workflows.services import definitions
    from workflows.services.starting import StartRequest, start

    definitions.register("elsewhere", {"name": "other", "version": 1, "tasks": [flows.simple("a")]}, overwrite=True)
    run = start(StartRequest("other", namespace="elsewhere"))
    for method, path in (
        ("GET", f"/api/workflow/{run}"),
        ("DELETE", f"/api/workflow/{run}"),
        ("GET", "/api/metadata/workflow/other"),
    ):
        assert call(method, path).status_code == 404
    assert Execution.objects.get(id=run).status == "RUNNING"
