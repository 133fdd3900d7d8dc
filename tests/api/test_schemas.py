"""Answers against the public JSON schemas of Conductor's objects, where they are beside the project."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft7Validator

from tests import flows
from tests.api.client import Caller, demo_api  # noqa: F401  (a fixture)
from tests.database import ROOT
from tests.flows import child, fork, simple, unique

SCHEMAS = ROOT.parent / "shared" / "definitions" / "schemas"
pytestmark = pytest.mark.skipif(not SCHEMAS.is_dir(), reason="the schemas are not beside the project")


def check(kind: str, value: Any) -> None:
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text())
    found = [f"{error.json_path}: {error.message}" for error in Draft7Validator(schema).iter_errors(value)]
    assert found == []


@pytest.fixture
def run(api: Caller) -> str:
    """A run with tasks of many types and fates."""
    queue = unique("q")
    below = flows.register(simple("inner", queue))
    loop = {
        "name": "loop", "taskReferenceName": "loop", "type": "DO_WHILE", "loopCondition": "$.loop.iteration < 2",
        "loopOver": [simple("turn", queue)],
    }  # fmt: skip
    switch = {
        "name": "way", "taskReferenceName": "way", "type": "SWITCH", "evaluatorType": "value-param", "expression": "k",
        "inputParameters": {"k": "x"}, "decisionCases": {"x": [simple("case", queue)]}, "defaultCase": [],
    }  # fmt: skip
    name = flows.register(
        simple("first", queue), *fork("both", [simple("left", queue)], [child("right", below)]), loop, switch,
        {"name": "wait", "taskReferenceName": "wait", "type": "WAIT"},
        outputParameters={"o": "${first.output}"},
    )  # fmt: skip
    api.empty("post", "metadata/taskdefs", [{"name": queue, "retryCount": 1, "retryDelaySeconds": 0}])
    workflow_id = api.text(
        "post", "workflow", {"name": name, "input": {"n": None}, "correlationId": "c", "priority": 3}
    )
    task = api.json("get", f"tasks/poll/{queue}?workerid=w")
    check("Task", task)
    failed = {
        "taskId": task["taskId"],
        "workflowInstanceId": workflow_id,
        "status": "FAILED",
        "reasonForIncompletion": "x",
    }
    api.text("post", "tasks", failed)
    flows.finish([queue])
    return workflow_id


def test_runs_and_their_tasks(api: Caller, run: str) -> None:
    whole = api.json("get", f"workflow/{run}")
    assert {"wait", "turn__2", "right", "case"} <= {task["referenceTaskName"] for task in whole["tasks"]}
    check("Workflow", whole)
    check("Workflow", api.json("get", f"workflow/{run}?includeTasks=false"))
    check("WorkflowDef", whole["workflowDefinition"])
    for task in whole["tasks"]:
        check("Task", task)
        check("Task", api.json("get", f"tasks/{task['taskId']}"))
    api.empty("delete", f"workflow/{run}?reason=enough")
    check("Workflow", api.json("get", f"workflow/{run}"))


def test_definitions(api: Caller, run: str) -> None:
    for definition in api.json("get", "metadata/workflow"):
        check("WorkflowDef", definition)
    for definition in api.json("get", "metadata/taskdefs"):
        check("TaskDef", definition)
