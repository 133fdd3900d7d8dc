"""BUSINESS_RULE: which rows of a decision table fire."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import run, simple, task
from tests.engine.simulator import Run

TABLE = [
    {"when": {"tier": "gold", "total": {"gte": 100}}, "then": {"discount": 20}},
    {"when": {"tier": {"in": ["gold", "silver"]}, "region": "*"}, "then": {"discount": 10}},
    {"when": {"total": {"between": [10, 50]}}, "then": {"discount": 5}},
    {"then": {"discount": 0}},
]


def fired(facts: dict[str, Any], rules: Any = TABLE, **inputs: Any) -> Run:
    node = task("BUSINESS_RULE", "r", inputParameters={"rules": rules, "inputColumns": facts, **inputs})
    return run(node, simple("z"))


@pytest.mark.parametrize(
    ("facts", "rule", "discount"),
    [
        ({"tier": "gold", "total": 100}, 0, 20),
        ({"tier": "gold", "total": 99.5}, 1, 10),
        ({"tier": "silver"}, 1, 10),
        ({"total": 50.0}, 2, 5),
        ({"total": "50"}, 3, 0),
        ({"total": True}, 3, 0),
        ({}, 3, 0),
    ],
)
def test_the_first_row_that_holds_fires(facts: dict[str, Any], rule: int, discount: int) -> None:
    r = fired(facts)
    assert r.output("r") == {"result": {"discount": discount}, "matched": [rule]}
    assert r.open_refs() == ["z"], "settled in the pass that reached it"


def test_every_row_that_holds_may_fire() -> None:
    r = fired({"tier": "gold", "total": 50}, executionStrategy="FIRE_ALL")
    assert r.output("r") == {"result": [{"discount": 10}, {"discount": 5}, {"discount": 0}], "matched": [1, 2, 3]}


def test_no_row_is_no_failure() -> None:
    assert fired({"tier": "tin"}, TABLE[:1]).output("r") == {"result": None, "matched": []}


@pytest.mark.parametrize(
    ("condition", "fact", "holds"),
    [
        (1, 1.0, True), (1, True, False), (None, None, True), ({"ne": 1}, None, True), ({"gt": "a"}, "b", True),
        ({"gt": 1}, "b", False), ({"lt": 3, "gt": 1}, 2, True), ({"lte": 2}, 2, True), ({"eq": [1]}, [1], True),
    ],
)  # fmt: skip
def test_conditions(condition: Any, fact: Any, holds: bool) -> None:
    assert fired({"x": fact}, [{"when": {"x": condition}, "then": 1}]).output("r")["matched"] == ([0] if holds else [])


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("x", "rules: expected a list, got str"),
        (["x"], "rules[0]: expected an object with a when and a then, got 'x'"),
        ([{"when": {"x": {"above": 1}}}], "rules[0].when.x: expected some of eq,"),
        ([{"when": {"x": {"between": [1]}}}], "rules[0].when.x.between: expected two values, got 1"),
        ([{"when": {"x": {"in": 1}}}], "rules[0].when.x.in: expected a list, got int"),
    ],
)
def test_a_table_that_makes_no_sense_fails_the_task_with_its_place(rules: Any, reason: str) -> None:
    r = fired({"x": 1}, rules)
    assert r.ended == "FAILED" and r.end and r.end.reason
    assert reason in r.end.reason
