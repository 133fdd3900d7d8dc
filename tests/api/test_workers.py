"""What SDKs' workers rely on: bare ids, empty answers, times, nulls, late results."""

from __future__ import annotations

import json
from typing import Any

from tests import flows
from tests.api.demo import Call, demo_call  # noqa: F401  (a fixture)
from workflows.models import HistoryEvent


def body(response: Any) -> Any:
    return json.loads(response.content)


def started(call: Call, *tasks: dict[str, Any]) -> str:
    name = flows.register(*tasks)
    response = call("POST", "/api/workflow", {"name": name, "input": {"keep": {"null": None}}})
    assert (response.status_code, response["Content-Type"]) == (200, "text/plain; charset=utf-8")
    return response.content.decode()


def test_empty_polls(call: Call) -> None:
    assert (call("GET", "/api/tasks/poll/nobody").status_code, call("GET", "/api/tasks/poll/nobody").content) == (
        204,
        b"",
    )
    response = call("GET", "/api/tasks/poll/batch/nobody?count=3&timeout=&workerid=&domain=")
    assert (response.status_code, body(response)) == (200, [])


def test_a_tasks_way_over_the_wire(call: Call) -> None:
    queue = flows.unique("q")
    run = started(call, flows.simple("a", queue, inputParameters={"x": "${workflow.input.keep}", "n": None}))
    (task,) = body(call("GET", f"/api/tasks/poll/batch/{queue}?workerid=w&count=5"))
    assert task["inputData"] == {"x": {"null": None}, "n": None}, "nulls inside users' maps are kept"
    assert "reasonForIncompletion" not in task, "and our own are left out"
    assert task["scheduledTime"] > 10**12 and task["status"] == "IN_PROGRESS" and task["pollCount"] == 1
    result = {"taskId": task["taskId"], "workflowInstanceId": run, "workerId": "w", "unknown": 1}
    progress = {"status": "IN_PROGRESS", "outputData": {"half": 1}, "callbackAfterSeconds": 0}
    later = call("POST", "/api/tasks", {**result, **progress})
    assert later.content.decode() == task["taskId"]
    (again,) = body(call("GET", f"/api/tasks/poll/batch/{queue}?workerid=w"))
    assert (again["taskId"], again["pollCount"], again["outputData"]) == (task["taskId"], 2, {"half": 1})
    done = call("POST", "/api/tasks/update-v2", {**result, "status": "COMPLETED", "outputData": {"n": 2**70}})
    assert done.status_code == 204
    whole = body(call("GET", f"/api/workflow/{run}"))
    assert (whole["status"], whole["output"]) == ("COMPLETED", {"n": 2**70}), "integers of any size stay exact"


def test_a_late_result_is_accepted_changes_nothing_and_is_kept(call: Call) -> None:
    queue = flows.unique("q")
    run = started(call, flows.simple("a", queue))
    (task,) = body(call("GET", f"/api/tasks/poll/batch/{queue}?workerid=w"))
    assert call("DELETE", f"/api/workflow/{run}?reason=enough").status_code == 200
    result = {
        "taskId": task["taskId"],
        "workflowInstanceId": run,
        "workerId": "w",
        "status": "COMPLETED",
        "outputData": {},
    }
    assert call("POST", "/api/tasks", result).status_code == 200
    assert call("POST", "/api/tasks", {**result, "leaseToken": task["leaseToken"]}).status_code == 409
    assert body(call("GET", f"/api/tasks/{task['taskId']}"))["status"] == "CANCELED"
    assert HistoryEvent.objects.filter(workflow_id=run, type="task.late_result_refused").count() == 2


def test_logs_are_text_and_come_back_in_order(call: Call) -> None:
    queue = flows.unique("q")
    run = started(call, flows.simple("a", queue))
    (task,) = body(call("GET", f"/api/tasks/poll/batch/{queue}?workerid=w"))
    assert call("GET", f"/api/tasks/{task['taskId']}/log").status_code == 204
    for line in (b'a \\"b\\"\\nc', b"not json {"):
        assert call("POST", f"/api/tasks/{task['taskId']}/log", raw=line).status_code == 200
    logs = body(call("GET", f"/api/tasks/{task['taskId']}/log"))
    assert [entry["log"] for entry in logs] == ['a \\"b\\"\\nc', "not json {"]
    assert run


def test_booleans_in_any_case_and_python_words(call: Call) -> None:
    name = flows.register(flows.simple("a"))
    definition = body(call("GET", f"/api/metadata/workflow/{name}?version="))
    assert call("POST", "/api/metadata/workflow?overwrite=False", definition).status_code == 409
    assert call("POST", "/api/metadata/workflow?overwrite=True", definition).status_code == 200
    run = call("POST", f"/api/workflow/{name}?correlationId=None&version=None&priority=", {}).content.decode()
    assert "correlationId" not in body(call("GET", f"/api/workflow/{run}?includeTasks=false"))
    for word in ("pause", "resume"):
        assert call("PUT", f"/api/workflow/{run}/{word}", {}).status_code == 200


def test_a_poll_takes_the_names_as_they_are_encoded(call: Call) -> None:
    run = started(call, flows.simple("a", "odd name:é"))
    (task,) = body(call("GET", "/api/tasks/poll/batch/odd%20name%3A%C3%A9"))
    assert task["workflowInstanceId"] == run


def test_a_result_is_not_lost_over_a_character_that_cannot_be_stored(call: Call) -> None:
    queue = flows.unique("q")
    run = started(call, flows.simple("a", queue))
    (task,) = body(call("GET", f"/api/tasks/poll/batch/{queue}?workerid=w"))
    result = {
        "taskId": task["taskId"],
        "workflowInstanceId": run,
        "status": "COMPLETED",
        "outputData": {"t": "a\0b\ud800"},
    }
    assert call("POST", "/api/tasks", result).status_code == 200
    assert body(call("GET", f"/api/workflow/{run}"))["output"] == {"t": "a\ufffdb\ufffd"}
