"""Real definitions, run to their end over HTTP by real processes and a polling worker."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import LOOPS, Processes
from tests.support import eventually

DEFINITIONS = Path(os.environ.get("OSTINATO_DEFINITIONS", Path(__file__).resolve().parents[3] / "shared" / "definitions"))
HARNESS = DEFINITIONS / "harness"
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not HARNESS.is_dir(), reason="the definitions are not here (OSTINATO_DEFINITIONS)"),
]
Answer = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture
def system(committed: None) -> Iterator[Processes]:
    with Processes(OSTINATO_DEMO_OPEN="true") as processes:
        for name, command in LOOPS.items():
            processes.start(name, *command)
        processes.start_web()
        yield processes


class Harness:
    """A client and a worker of one run."""

    def __init__(self, system: Processes) -> None:
        self.system = system
        self.ran: list[str] = []

    def call(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.system.request(method, path, body)
        assert status in (200, 204), (method, path, status, answer)
        return answer

    def register(self, name: str) -> dict[str, Any]:
        definition: dict[str, Any] = json.loads((HARNESS / f"{name}_integration_test.json").read_text())
        self.call("PUT", "/api/metadata/workflow", [definition])
        return definition

    def start(self, definition: dict[str, Any], **input: Any) -> str:
        return str(self.call("POST", f"/api/workflow/{definition['name']}", input))

    def get(self, workflow_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/api/workflow/{workflow_id}")
        return found

    def work(self, workflow_id: str, answer: Answer = lambda task: {"op": task["referenceTaskName"]}) -> dict[str, Any]:
        """Serve whatever waits in the run by polling, until it ends or waits for somebody else."""

        def ended() -> dict[str, Any] | None:
            run = self.get(workflow_id)
            if run["status"] != "RUNNING":
                return run
            scheduled = [task for task in run["tasks"] if task["status"] == "SCHEDULED"]
            waiting = {task["taskDefName"] for task in scheduled if task["taskType"] == task["taskDefName"]}
            for name in sorted(waiting):
                self.serve(name, answer)
            blocked = [t for t in run["tasks"] if t["taskType"] in ("WAIT", "HUMAN") and t["status"] == "IN_PROGRESS"]
            return run if blocked and not waiting else None

        return eventually(ended, 30)  # type: ignore[return-value]

    def serve(self, name: str, answer: Answer) -> None:
        for task in self.call("GET", f"/api/tasks/poll/batch/{name}?workerid=harness&count=10&timeout=50"):
            self.ran.append(task["referenceTaskName"])
            result = {
                "taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "workerId": "harness",
                "status": "COMPLETED", "outputData": answer(task),
            }  # fmt: skip
            assert self.call("POST", "/api/tasks", result) == task["taskId"]


@pytest.fixture
def harness(system: Processes) -> Harness:
    return Harness(system)


def test_simple_workflows(harness: Harness) -> None:
    one = harness.register("simple_workflow_1")
    run = harness.work(harness.start(one, param1="p", param2=2), lambda task: {"op": "done", "uuid": task["taskId"]})
    assert run["status"] == "COMPLETED"
    tasks = {task["referenceTaskName"]: task for task in run["tasks"]}
    assert tasks["t1"]["inputData"] == {"p1": "p", "p2": 2, "p3": tasks["t1"]["taskId"], "someNullKey": None}
    assert tasks["t2"]["inputData"]["tp2"] == "done"
    assert run["output"] == {"o1": "p", "o2": tasks["t2"]["taskId"], "o3": "done"}
    three = harness.register("simple_workflow_3")
    harness.ran.clear()
    assert harness.work(harness.start(three, param1="p"))["status"] == "COMPLETED"
    assert harness.ran == ["t1", "t2", "t3"]


def test_forks_and_joins(harness: Harness) -> None:
    run = harness.work(harness.start(harness.register("fork_join"), param1="p"))
    assert run["status"] == "COMPLETED"
    join = next(task for task in run["tasks"] if task["taskType"] == "JOIN")
    assert join["outputData"] == {"t3": {"op": "t3"}, "t2": {"op": "t2"}}
    assert harness.ran[-1] == "t4"
    harness.ran.clear()
    run = harness.work(harness.start(harness.register("nested_fork_join"), case="a"))
    assert run["status"] == "COMPLETED"
    assert set(harness.ran) == {"t11", "t12", "t14", "t13", "t16", "t19", "t20", "t15"}
    assert harness.ran[-1] == "t15"


@pytest.mark.parametrize(("case", "expected"), [("c", ["t1", "t2", "t20"]), ("other", ["t5", "t20"])])
def test_a_simple_switch(harness: Harness, case: str, expected: list[str]) -> None:
    assert harness.work(harness.start(harness.register("simple_switch_task"), case=case))["status"] == "COMPLETED"
    assert harness.ran == expected


def test_nested_switches(harness: Harness) -> None:
    definition = harness.register("conditional_switch_task_workflow")
    run = harness.work(harness.start(definition, param1="nested", param2="two", finalCase="notify"))
    assert (run["status"], harness.ran) == ("COMPLETED", ["t2", "integration_task_4"])
    harness.ran.clear()
    run = harness.work(harness.start(definition, param1="nobody"))
    assert (run["status"], harness.ran) == ("COMPLETED", ["t10"])


def test_a_loop(harness: Harness) -> None:
    run = harness.work(harness.start(harness.register("do_while"), loop=2))
    assert run["status"] == "COMPLETED"
    each = ["integration_task_0", "integration_task_1", "integration_task_2"]
    assert sorted(harness.ran) == sorted(f"{ref}__{turn}" for ref in each for turn in (1, 2))
    loop = next(task for task in run["tasks"] if task["taskType"] == "DO_WHILE")
    assert loop["outputData"]["iteration"] == 2


def test_a_sub_workflow_named_by_its_input(harness: Harness) -> None:
    child = harness.register("simple_workflow_1")
    parent = harness.register("workflow_with_sub_workflow_1")
    started = harness.start(parent, param1="p", subwf=child["name"])

    def ended() -> dict[str, Any] | None:
        for name in ("integration_task_1", "integration_task_2"):
            harness.serve(name, lambda task: {"op": task["referenceTaskName"]})
        run = harness.get(started)
        return run if run["status"] != "RUNNING" else None

    run = eventually(ended, 30)
    assert run is not None
    assert run["status"] == "COMPLETED"
    task = next(task for task in run["tasks"] if task["taskType"] == "SUB_WORKFLOW")
    assert harness.get(task["subWorkflowId"])["parentWorkflowId"] == started
    assert task["outputData"]["o3"] == "t1"


def test_variables_and_a_signal(harness: Harness) -> None:
    started = harness.start(harness.register("set_variable_workflow"), var={"a": [1]})
    run = harness.work(started)
    assert (run["status"], run["variables"]) == ("RUNNING", {"var": {"a": [1]}})
    harness.call("POST", f"/api/tasks/{started}/wait0/COMPLETED", {})
    run = harness.work(started)
    assert (run["status"], run["output"]) == ("COMPLETED", {"variables": {"var": {"a": [1]}}})


def test_terminate_completes_early(harness: Harness) -> None:
    run = harness.work(harness.start(harness.register("terminate_task_completed_workflow"), a=1))
    assert (run["status"], run["output"]) == ("COMPLETED", {"result": {"testvalue": True}})
    assert harness.ran == []


def test_a_wait_without_a_time(harness: Harness) -> None:
    started = harness.start(harness.register("simple_wait_task_workflow"))
    assert harness.work(started)["status"] == "RUNNING"
    harness.call("POST", f"/api/tasks/{started}/wait0/COMPLETED", {"by": "signal"})
    run = harness.work(started)
    assert run["status"] == "COMPLETED"
    assert run["tasks"][0]["outputData"] == {"by": "signal"}


def test_a_jq_transform(harness: Harness) -> None:
    started = harness.start(
        harness.register("simple_json_jq_transform"), in1={"array": ["a", "b"]}, in2={"array": ["c", "d"]}
    )
    run = harness.work(started)
    assert run["status"] == "COMPLETED"
    assert run["tasks"][0]["outputData"]["result"] == {"out": ["a", "b", "c", "d"]}
