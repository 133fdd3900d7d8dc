"""Semaphores and quotas over the wire, and what the API says of a task that they hold up."""

from __future__ import annotations

import pytest

from tests import flows
from tests.api.client import Caller, demo_api  # noqa: F401  (a fixture)
from workflows.services import definitions


def test_a_semaphore_is_made_shown_with_its_holders_and_removed(api: Caller) -> None:
    sem, queue = flows.unique("sem"), flows.unique("q")
    api.empty("put", f"semaphores/{sem}", {"permits": 1, "description": "the one printer"})
    api.empty("post", "metadata/taskdefs", [{"name": queue, "semaphores": [sem]}])
    name = flows.register(flows.simple("a", queue))
    first, second = flows.start(name), flows.start(name)
    flows.drain()
    (task,) = flows.lease(queue)
    found = api.json("get", f"semaphores/{sem}")
    assert (found["permits"], found["taken"], found["description"]) == (1, 1, "the one printer")
    assert found in api.json("get", "semaphores")
    (holder,) = found["holders"]
    assert (holder["taskId"], holder["workflowInstanceId"], holder["permits"]) == (str(task.id), str(first), 1)
    (reason,) = api.json("get", f"workflow/{second}/explain")["reasons"]
    assert reason["code"] == "SEMAPHORE"
    assert sem in reason["message"] and str(first) in reason["message"]
    assert "named by" in api.refused("delete", f"semaphores/{sem}", status=409)["message"]
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue}])
    assert "held" in api.refused("delete", f"semaphores/{sem}", status=409)["message"]
    flows.complete([task])
    api.empty("delete", f"semaphores/{sem}")
    api.refused("get", f"semaphores/{sem}", status=404)
    api.refused("delete", f"semaphores/{sem}", status=404)


def test_more_permits_let_those_who_wait_through(api: Caller) -> None:
    sem, queue = flows.unique("sem"), flows.unique("q")
    api.empty("put", f"semaphores/{sem}", {"permits": 0})
    api.empty("post", "metadata/taskdefs", [{"name": queue, "semaphores": [sem]}])
    flows.start(flows.register(flows.simple("a", queue)))
    flows.drain()
    assert flows.lease(queue) == []
    api.empty("put", f"semaphores/{sem}", {"permits": 1})
    assert len(flows.lease(queue)) == 1


@pytest.mark.parametrize(
    "body", [{}, {"permits": -1}, {"permits": "1"}, {"permits": True}, {"permits": 1, "description": 5}]
)
def test_a_bad_semaphore_is_refused(api: Caller, body: dict[str, object]) -> None:
    api.refused("put", "semaphores/x", body)
    assert api.json("get", "semaphores") == []


def test_a_task_at_its_limit_says_so(api: Caller) -> None:
    queue = flows.unique("q")
    api.empty("post", "metadata/taskdefs", [{"name": queue, "concurrentExecLimit": 1}])
    name = flows.register(flows.simple("a", queue))
    flows.start(name)
    second = flows.start(name)
    flows.drain()
    flows.lease(queue)
    (reason,) = api.json("get", f"workflow/{second}/explain")["reasons"]
    assert (reason["code"], "1 of at most 1" in reason["message"]) == ("LIMITED", True)


def test_a_quota_is_answered_with_429_and_when_to_come_back(api: Caller) -> None:
    name = flows.register(flows.simple("a"))
    assert api.json("put", "quota", {"maxConcurrentExecutions": 1})["maxConcurrentExecutions"] == 1
    api.text("post", f"workflow/{name}", {})
    response = api("post", f"workflow/{name}", {})
    assert (response.status_code, response["Retry-After"]) == (429, "1")
    assert api.json("get", "quota")["running"] == 1
    api.refused("put", "quota", {"maxConcurrentExecutions": -1})
    api.refused("put", "quota", {})
    api.json("put", "quota", {"maxConcurrentExecutions": None})
    api.text("post", f"workflow/{name}", {})
