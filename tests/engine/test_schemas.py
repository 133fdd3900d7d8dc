"""Schemas of inputs and outputs: what violates one fails with its path, and what is none is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.engine.definitions import run, simple, task
from workflows.engine.schemas import Schema
from workflows.engine.state import WorkflowStatus
from workflows.engine.task_definitions import validate_task_definition
from workflows.engine.validation import validate

ORDER = {
    "type": "object", "required": ["sku"],
    "properties": {"sku": {"type": "string"}, "items": {"type": "array", "items": {"type": "integer", "minimum": 1}}},
}  # fmt: skip


def json_schema(data: Any = ORDER, **more: Any) -> dict[str, Any]:
    return {"name": "order", "version": 1, "type": "JSON", "data": data, **more}


def defined(ref: str = "a", enforce: bool | None = True, **fields: Any) -> dict[str, Any]:
    """A task whose definition has schemas."""
    return simple(ref, taskDefinition={"retryCount": 1, "retryDelaySeconds": 0, "enforceSchema": enforce, **fields})


def test_an_input_that_violates_its_schema_fails_the_task_and_is_handed_to_nobody() -> None:
    node = {**defined(inputSchema=json_schema()), "inputParameters": {"sku": 5, "items": [1, 0]}}
    r = run(node)
    assert (r.status("a"), r.ended) == ("FAILED_WITH_TERMINAL_ERROR", "FAILED")
    (made,) = r.made
    assert made.queue is None
    for said in ('input.sku: 5 is not of type "string"', "input.items.1: 0 is less than the minimum of 1"):
        assert said in str(made.reason)


def test_an_output_that_violates_its_schema_is_a_failed_attempt_which_is_tried_again() -> None:
    r = run(defined(outputSchema=json_schema()), simple("b"))
    r.finish("a", {"sku": None})
    assert [(t.attempt, t.status) for t in r.tasks.values() if t.ref == "a"] == [(0, "FAILED"), (1, "SCHEDULED")]
    r.finish("a", {"sku": "A-1"})
    assert r.open_refs() == ["b"]


def test_an_optional_task_with_a_wrong_output_is_passed_over() -> None:
    r = run({**defined(outputSchema=json_schema(), retryCount=0), "optional": True}, simple("b"))
    r.finish("a", {})
    assert (r.status("a"), r.open_refs()) == ("COMPLETED_WITH_ERRORS", ["b"])


@pytest.mark.parametrize("enforce", [False, None])
def test_a_task_definition_that_does_not_enforce_its_schemas_keeps_them_for_people(enforce: bool | None) -> None:
    node = defined(enforce=enforce, inputSchema=json_schema(), outputSchema={"name": "order", "version": 1})
    assert validate({"name": "w", "tasks": [node]}) == []
    r = run(node)
    r.finish("a", {"sku": 5})
    assert r.ended == "COMPLETED"


@pytest.mark.parametrize("tasks", [[simple("a")], [simple("a"), task("TERMINATE", "t", inputParameters={
    "terminationStatus": "COMPLETED", "workflowOutput": "${a.output}"})]], ids=["last task", "terminate"])  # fmt: skip
def test_an_output_of_a_run_that_violates_its_schema_fails_the_run(tasks: list[dict[str, Any]]) -> None:
    for output, status in (({"sku": 5}, WorkflowStatus.FAILED), ({"sku": "A-1"}, WorkflowStatus.COMPLETED)):
        r = run(*tasks, outputSchema=json_schema())
        r.finish("a", output)
        assert r.end is not None
        assert r.end.status == status
        assert r.end.reason == ('output.sku: 5 is not of type "string"' if status == WorkflowStatus.FAILED else None)
    free = run(*tasks, outputSchema=json_schema(), enforceSchema=False)
    free.finish("a", {"sku": 5})
    assert free.ended == "COMPLETED"


@pytest.mark.parametrize(
    ("schema", "path"), [
        ({"data": {"type": "strange"}}, "data"), ({"data": {"$ref": "http://127.0.0.1:9/x.json"}}, "data"),
        ({"data": {"$ref": "#/$defs/none"}}, "data"), ({"data": {"pattern": "(?=x)"}}, "data"), ({"data": []}, "data"),
        ({"type": "AVRO", "data": {}}, "type"), ({"name": "order", "data": {}}, "data"), ([1], ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["inputSchema", "outputSchema"])
def test_what_is_no_schema_is_refused(field: str, schema: Any, path: str) -> None:
    at = f"{field}.{path}".rstrip(".")
    assert [p.path for p in validate({"name": "w", "tasks": [simple("a")], field: schema})] == [at]
    assert [p.path for p in validate_task_definition({"name": "t", field: schema, "enforceSchema": True})] == [at]


def test_schemas_of_a_task_stand_in_its_definition() -> None:
    (problem,) = validate({"name": "w", "tasks": [simple("a", inputSchema=json_schema())]})
    assert (problem.path, problem.message) == ("tasks[0].inputSchema", "a schema stands in the task definition")


def test_hostile_values_and_schemas_are_dealt_with_in_no_time() -> None:
    assert Schema({"pattern": "(a+)+$"}).violations("a" * 100_000 + "!")
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    recursive = {"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"a": {"$ref": "#/$defs/t"}}}}}
    assert Schema(recursive).violations(deep) == []
    assert len(Schema({"items": {"type": "string"}}).violations(list(range(1000)))) == 10
    (violation,) = Schema({"type": "integer"}).violations("x" * 10_000)
    assert len(violation[1]) <= 201


def test_numbers_keep_their_exact_value() -> None:
    assert Schema({"maximum": 2**63}).violations({}) == []
    assert Schema({"maximum": 2**64}).violations(2**64) == []
    assert Schema({"maximum": 2**64}).violations(2**64 + 1)
    assert Schema({"type": "number"}).violations(Decimal("1.5")) == []
