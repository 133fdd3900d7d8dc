"""Definitions that Conductor's users know, from a directory outside the tree: validated, compiled and driven to an end.

Set OSTINATO_DEFINITIONS to the directory, or keep it beside the checkout; without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.engine.simulator import Run
from workflows.engine.blueprint import compile
from workflows.engine.validation import validate

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "definitions"
ROOT = Path(os.environ.get("OSTINATO_DEFINITIONS", _BESIDE)) / "harness"

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason="the definitions are not here")


def load(name: str) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads((ROOT / f"{name}_integration_test.json").read_text())
    return definition


CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("simple_workflow_1", {"param1": "p1"}, {"t1": {"op": 1}, "t2": {"uuid": 2}}, "t1 t2"),
    ("simple_workflow_3", {"param1": "p1"}, {}, "t1 t2 t3"),
    ("fork_join", {}, {}, "fanouttask fanouttask_join t1 t2 t3 t4"),
    ("nested_fork_join", {"case": "a"}, {}, "d1 fork1 fork2 join1 join2 t11 t12 t13 t14 t15 t16 t19 t20"),
    ("simple_switch_task", {"case": "c"}, {}, "switchTask t1 t2 t20"),
    (
        "do_while",
        {"loop": 2},
        {},
        "fork*2 integration_task_0*2 integration_task_1*2 integration_task_2*2 join*2 loopTask",
    ),
    ("workflow_with_sub_workflow_1", {"subwf": "child"}, {}, "t1 t2"),
    ("set_variable_workflow", {"var": "v"}, {}, "set_variable_1 simple wait0"),
    ("terminate_task_completed_workflow", {"a": 1}, {"lambda0": {"result": True}}, "lambda0 terminate0"),
    ("simple_wait_task_workflow", {}, {}, "t1 wait0"),
    ("simple_json_jq_transform", {"in1": {"array": ["a"]}, "in2": {"array": ["b"]}}, {}, "jq_1"),
    (
        "conditional_switch_task_workflow",
        {"param1": "nested", "param2": "one"},
        {},
        "conditional finalCase nestedCondition t1",
    ),
    (
        "conditional_switch_task_workflow",
        {"param1": "three", "finalCase": "notify"},
        {},
        "conditional finalCase integration_task_4 t3",
    ),
    (
        "exclusive_join",
        {"decision_1": "true", "decision_2": "true"},
        {},
        "decision1 decision2 exclusiveJoin task1 task2 task3",
    ),
]


@pytest.mark.parametrize(("name", "given", "outputs", "ran"), CASES)
def test_a_known_definition_runs(name: str, given: dict[str, Any], outputs: dict[str, Any], ran: str) -> None:
    definition = load(name)
    assert validate(definition) == []
    run = Run(definition, given)
    run.drain(outputs)
    assert run.ended == "COMPLETED", (run.end, run.stuck)
    counts = sorted(Counter(task.ref for task in run.tasks.values()).items())
    assert " ".join(ref if n == 1 else f"{ref}*{n}" for ref, n in counts) == ran


def test_outputs_of_known_definitions() -> None:
    run = Run(load("simple_workflow_1"), {"param1": "p1"})
    assert run.open("t1").input["p3"] == str(run.open("t1").id), "CPEWF_TASK_ID"
    run.drain({"t1": {"op": 1}, "t2": {"uuid": 2}})
    assert run.end is not None
    assert run.end.output == {"o1": "p1", "o2": 2, "o3": 1}
    run = Run(load("terminate_task_completed_workflow"), {"a": 1})
    run.finish("lambda0", {"result": True})
    assert run.end is not None
    assert run.end.output == {"result": True}, "outputParameters do not count"


@pytest.mark.parametrize("path", sorted(ROOT.parent.glob("*/*.json")), ids=lambda path: path.name)
def test_whatever_was_stored_compiles(path: Path) -> None:
    found = json.loads(path.read_text())
    for definition in found if isinstance(found, list) else [found]:
        if isinstance(definition, dict) and "tasks" in definition:
            assert compile(definition, {}).nodes
            validate(definition)
