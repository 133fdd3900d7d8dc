"""The registry of JSON Schemas: versions that never change, and definitions that name one."""

from __future__ import annotations

from typing import Any

import pytest

from tests import flows
from tests.api.demo import Call, demo_call  # noqa: F401  (a fixture)
from workflows.engine.linting import lint

pytestmark = pytest.mark.usefixtures("committed")
ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
EMPTY = {"type": "object"}


def schema(name: str, data: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": name, "type": "JSON", "data": data, **fields}


def definition(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "version": 1, "tasks": [flows.simple("a")], **fields}


def test_versions_are_registered_read_and_forgotten(call: Call) -> None:
    assert call("POST", "/api/schema", [schema("order", ORDER, version=1)]).status_code == 200
    (second,) = call("POST", "/api/schema?newVersion=true", schema("order", EMPTY, version=1)).json()
    assert (second["version"], second["data"]) == (2, EMPTY)
    assert call("GET", "/api/schema/order").json()["version"] == 2
    assert call("GET", "/api/schema/order/1").json()["data"] == ORDER
    assert [(one["name"], one["version"]) for one in call("GET", "/api/schemas").json()] == [("order", 1), ("order", 2)]
    assert call("DELETE", "/api/schema/order/1").status_code == 200
    assert call("GET", "/api/schema/order/1").status_code == 404
    assert call("DELETE", "/api/schema/order").status_code == 200
    assert call("DELETE", "/api/schema/order").status_code == 404


def test_a_version_never_changes(call: Call) -> None:
    for _ in range(2):
        assert call("POST", "/api/schema", [schema("order", ORDER)]).status_code == 200
    refused = call("POST", "/api/schema", [schema("fine", EMPTY), schema("order", EMPTY)])
    assert refused.status_code == 409
    assert "newVersion" in refused.json()["message"]
    assert call("GET", "/api/schema/fine").status_code == 404, "all or none"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("x", "[0]"),
        ([{}], "[0].name"),
        ([schema("", EMPTY)], "[0].name"),
        ([schema("a", EMPTY, version=0)], "[0].version"),
        ([schema("a", EMPTY, version=2**31)], "[0].version"),
        ([schema("a", EMPTY, type="AVRO")], "[0].type"),
        ([schema("a", {})], "[0].data"),
        ([schema("a", {"type": "nothing"})], "[0].data"),
        ([schema("a", {"$ref": "http://127.0.0.1/x"})], "[0].data"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(call: Call, given: Any, path: str) -> None:
    refused = call("POST", "/api/schema", given)
    assert refused.status_code == 400
    assert refused.json()["validationErrors"][0]["path"] == path


def test_a_definition_gets_the_text_of_the_schema_that_it_names(call: Call) -> None:
    call("POST", "/api/schema", [schema("order", ORDER)])
    name = flows.unique("flow")
    named = definition(name, inputSchema={"name": "order", "type": "JSON"})
    assert lint(named) == []
    assert call("POST", "/api/metadata/workflow", named).status_code == 200
    call("POST", "/api/schema?newVersion=true", [schema("order", EMPTY)])
    call("DELETE", "/api/schema/order/1")
    stored = call("GET", f"/api/metadata/workflow/{name}").json()["inputSchema"]
    assert (stored["version"], stored["data"]) == (1, ORDER), "what was agreed on stays"
    assert call("POST", f"/api/workflow/{name}", {"id": 1}).status_code == 400
    assert call("POST", f"/api/workflow/{name}", {"id": "1"}).status_code == 200


def test_a_definition_given_with_its_start_may_name_a_schema_too(call: Call) -> None:
    call("POST", "/api/schema", [schema("order", ORDER)])
    given = definition("inline", inputSchema={"name": "order", "version": 1})
    start = {"name": "inline", "workflowDef": given}
    assert call("POST", "/api/workflow", {**start, "input": {}}).status_code == 400
    assert call("POST", "/api/workflow", {**start, "input": {"id": "1"}}).status_code == 200


def test_a_task_definition_may_name_one(call: Call) -> None:
    call("POST", "/api/schema", [schema("order", ORDER)])
    task = {"name": flows.unique("t"), "enforceSchema": True, "outputSchema": {"name": "order", "version": 1}}
    assert call("POST", "/api/metadata/taskdefs", [task]).status_code == 200
    assert call("GET", f"/api/metadata/taskdefs/{task['name']}").json()["outputSchema"]["data"] == ORDER
    assert call("PUT", "/api/metadata/taskdefs", {**task, "outputSchema": {"name": "nil"}}).status_code == 400


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"inputSchema": {"name": "nobody"}}, "inputSchema.name"),
        ({"outputSchema": {"name": "order", "version": 9}}, "outputSchema.name"),
        ({"outputSchema": {"name": "order", "version": "1"}}, "outputSchema.version"),
        ({"tasks": [{"name": "c", "taskReferenceName": "c", "type": "SUB_WORKFLOW", "subWorkflowParam": {
            "name": "in", "workflowDefinition": definition("in", inputSchema={"name": "order"})}}]},
         "tasks[0].subWorkflowParam.workflowDefinition.inputSchema.data"),
    ],
)  # fmt: skip
def test_a_name_that_says_nothing_is_refused(call: Call, fields: dict[str, Any], path: str) -> None:
    call("POST", "/api/schema", [schema("order", ORDER)])
    refused = call("POST", "/api/metadata/workflow", {**definition(flows.unique("flow")), **fields})
    assert refused.status_code == 400
    assert [error["path"] for error in refused.json()["validationErrors"]] == [path]
