"""What a WAIT_FOR_WEBHOOK task waits for: checked when it is registered and when it starts, matched with deliveries."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.simulator import Run
from workflows.engine.state import TaskStatus
from workflows.engine.validation import validate
from workflows.engine.webhooks import wanted


def await_(ref: str = "w", **inputs: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": "WAIT_FOR_WEBHOOK", "inputParameters": inputs}


@pytest.mark.parametrize(
    ("matches", "fits"),
    [
        ({"$.order.id": 7}, True), ({"$.order.id": 7.0}, True), ({"$['order']['id']": 7}, True), ({"$.order.id": "7"}, False),
        ({"$.order.paid": True}, True), ({"$.order.paid": 1}, False), ({"$.items[0]": "a"}, True), ({"$.items[2]": "a"}, False),
        ({"$.items": ["a", "b"]}, True), ({"$.items[*]": ["a", "b"]}, True), ({"$.items.length()": 2}, True),
        ({"$.order": {"id": 7, "paid": True}}, True), ({"$.order": {"id": 7}}, False), ({"$.nothing.at.all": 7}, False),
        ({"$.order.id": 7, "$.items[1]": "b"}, True), ({"$.order.id": 7, "$.items[1]": "c"}, False),
        ({"$..id": [7]}, True), ({"$.odd['a.b']": 1}, True), ({"$.rows[?(@.k == 'x')].v": [1]}, True),
    ],
)  # fmt: skip
def test_a_delivery_fits_when_each_path_holds_its_value(matches: dict[str, Any], fits: bool) -> None:
    payload = {
        "order": {"id": 7, "paid": True}, "items": ["a", "b"], "odd": {"a.b": 1},
        "rows": [{"k": "x", "v": 1}, {"k": "y", "v": 2}],
    }  # fmt: skip
    assert wanted({"matches": matches}).fits("any", payload) is fits


def test_a_named_webhook_is_the_only_one() -> None:
    assert wanted({"webhook": "a"}).fits("a", {})
    assert not wanted({"webhook": "a"}).fits("b", {})
    assert not wanted({"webhook": "a", "matches": {"$.n": 1}}).fits("a", {"n": 2})
    assert wanted({"webhook": None, "matches": {"$.n": 1}}).fits("b", {"n": 1})


def test_a_delivery_that_is_nested_too_deeply_to_look_into_does_not_fit() -> None:
    payload: dict[str, Any] = {"x": 1}
    for _ in range(100_000):
        payload = {"a": payload}
    assert not wanted({"matches": {"$..x": [1]}}).fits("a", payload)


WRONG = [
    ({}, "matches", "or name a webhook"),
    ({"matches": {}}, "matches", "or name a webhook"),
    ({"matches": []}, "matches", "got list"),
    ({"matches": {"order": 1}}, "matches", "a path from $"),
    ({"matches": {"$.a[": 1}}, "matches", "$.a["),
    ({"matches": {"": 1}}, "matches", "expected a name"),
    ({"matches": {"$.a": None}}, "matches", "null"),
    ({"matches": {"$.a[": "${workflow.input.m}"}}, "matches", "$.a["),
    ({"webhook": "${workflow.input.m}", "matches": {"$.a": None}}, "matches", "null"),
    ({"webhook": 5, "matches": {"$.a": 1}}, "webhook", "got 5"),
    ({"webhook": "", "matches": {"$.a": 1}}, "webhook", "got ''"),
]


@pytest.mark.parametrize(("inputs", "field", "said"), WRONG)
def test_what_cannot_match_is_refused_at_registration(inputs: dict[str, Any], field: str, said: str) -> None:
    (problem,) = validate({"name": "w", "tasks": [await_(**inputs)]})
    assert problem.path == f"tasks[0].inputParameters.{field}"
    assert said in problem.message


@pytest.mark.parametrize(
    "inputs",
    [
        {"matches": "${workflow.input.m}"}, {"webhook": "${workflow.input.m}"}, {"matches": {"$.a": "${workflow.input.m}"}},
        {"matches": {"$.a['${workflow.input.m}']": 1}}, {"matches": {"${workflow.input.m}": 1}}, {"webhook": "orders"},
    ],
)  # fmt: skip
def test_what_is_known_only_when_it_runs_is_registered(inputs: dict[str, Any]) -> None:
    assert validate({"name": "w", "tasks": [await_(**inputs)]}) == []


@pytest.mark.parametrize(("inputs", "field", "said"), [row for row in WRONG if "${" not in str(row[0])])
def test_what_cannot_match_when_it_starts_fails_the_task(inputs: dict[str, Any], field: str, said: str) -> None:
    task = await_(matches="${workflow.input.matches}", webhook="${workflow.input.webhook}")
    run = Run({"name": "w", "tasks": [task]}, inputs)
    assert run.ended == "FAILED"
    (row,) = run.tasks.values()
    assert (row.status, field in str(row.reason), said in str(row.reason)) == (
        TaskStatus.FAILED_WITH_TERMINAL_ERROR, True, True,
    )  # fmt: skip


def test_it_waits_open_with_its_values_filled_in() -> None:
    run = Run({"name": "w", "tasks": [await_(matches={"$.order": "${workflow.input.o}"})]}, {"o": 7})
    (row,) = run.tasks.values()
    assert (row.status, row.input) == (TaskStatus.IN_PROGRESS, {"matches": {"$.order": 7}})
    run.finish("w", {"order": 7})
    assert run.ended == "COMPLETED"
