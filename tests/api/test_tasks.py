"""/api/tasks: the answers that a worker of any language meets beside the plain way of a task."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import UNKNOWN, Caller, demo_api  # noqa: F401  (a fixture)
from tests.flows import simple, unique


@pytest.fixture
def leased(api: Caller) -> dict[str, Any]:
    """A leased task of a run that goes on with another of its type."""
    name = unique("wire")
    api.empty(
        "post", "metadata/workflow", {"name": name, "version": 1, "tasks": [simple("one", name), simple("two", name)]}
    )
    api.text("post", f"workflow/{name}", {})
    task: dict[str, Any] = api.json("get", f"tasks/poll/{name}?workerid=w")
    return task


def result(task: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A worker's report of a task."""
    ids = {"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"]}
    return {**ids, "workerId": "w", "status": "COMPLETED", **fields}


def test_the_next_task_comes_with_the_answer(api: Caller, leased: dict[str, Any]) -> None:
    following = api.json("post", "tasks/update-v2", result(leased))
    assert (following["referenceTaskName"], following["status"], following["workerId"]) == ("two", "IN_PROGRESS", "w")
    api.empty("post", "tasks/update-v2", result(following), status=204)
    assert api.json("get", f"workflow/{leased['workflowInstanceId']}")["status"] == "COMPLETED"


def test_a_batch_answers_for_each(api: Caller, leased: dict[str, Any]) -> None:
    answers = api.json("post", "tasks/batch", [result(leased), result(leased)])
    assert [(answer["taskId"], answer["applied"]) for answer in answers] == [
        (leased["taskId"], True),
        (leased["taskId"], False),
    ]


def test_a_task_by_its_reference(api: Caller, leased: dict[str, Any]) -> None:
    run = leased["workflowInstanceId"]
    assert api.text("post", f"tasks/{run}/one/COMPLETED?workerid=w", {"x": 1}) == leased["taskId"]
    assert api.json("get", f"tasks/{leased['taskId']}")["outputData"] == {"x": 1}
    assert api.json("post", f"tasks/{run}/two/COMPLETED/sync", {})["status"] == "COMPLETED"
    api.refused("post", f"tasks/{run}/two/COMPLETED/sync", {}, status=404)


def test_sizes_of_queues(api: Caller, leased: dict[str, Any]) -> None:
    name = leased["taskDefName"]
    assert api.json("get", f"tasks/queue/sizes?taskType={name}&taskType=nobody") == {name: 0, "nobody": 0}
    assert api.json("get", "tasks/queue/all/verbose")[name] == {"a": {"size": 0, "uacked": 1}}
    assert [poll["workerId"] for poll in api.json("get", f"tasks/queue/polldata?taskType={name}")] == ["w"]


def test_a_lease_is_extended_by_its_holder_only(api: Caller, leased: dict[str, Any]) -> None:
    path = f"tasks/{leased['taskId']}/heartbeat"
    api.empty("post", path, {"leaseToken": leased["leaseToken"]})
    api.refused("post", path, {"leaseToken": UNKNOWN}, status=409)


@pytest.mark.parametrize(
    ("field", "value"), [
        ("taskId", None), ("taskId", 5), ("workflowInstanceId", ""), ("status", "DONE"), ("status", []),
        ("outputData", []),
        ("callbackAfterSeconds", -1), ("callbackAfterSeconds", 2**63), ("callbackAfterSeconds", 1e308),
        ("callbackAfterSeconds", "5"), ("workerId", ["w"]), ("leaseToken", "mine"),
    ],
)  # fmt: skip
def test_a_result_of_the_wrong_type_is_named(api: Caller, leased: dict[str, Any], field: str, value: Any) -> None:
    for path, body in (
        ("tasks", result(leased, **{field: value})),
        ("tasks/batch", [result(leased, **{field: value})]),
    ):
        found = api.refused("post", path, body)
        assert [problem["path"] for problem in found["validationErrors"]] == [field]
    assert api.json("get", f"tasks/{leased['taskId']}")["status"] == "IN_PROGRESS"


@pytest.mark.parametrize("ids", [{"taskId": "no-id"}, {"taskId": UNKNOWN}, {"workflowInstanceId": UNKNOWN}])
def test_a_result_of_an_unknown_task(api: Caller, leased: dict[str, Any], ids: dict[str, str]) -> None:
    api.refused("post", "tasks", result(leased, **ids), status=404)
