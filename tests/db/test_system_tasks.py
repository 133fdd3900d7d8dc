"""HTTP_POLL, GET_WORKFLOW, UPDATE_TASK and YIELD, driven through the real services."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest

from dispatch.services import dispatching
from dispatch.system_tasks import RUNNERS, run_system_task
from dispatch.system_tasks.polling import run_http_poll
from tests import flows
from workflows.models import Task
from workflows.services import executing

pytestmark = pytest.mark.django_db(transaction=True)
DONE = "$.output.response.body.state === 'DONE'"


@pytest.fixture
def server(settings: Any) -> Iterator[Any]:
    """Says WORKING until its `states` are used up; keeps the count of requests."""
    settings.OSTINATO = {**getattr(settings, "OSTINATO", {}), "HTTP_ALLOW_PRIVATE": True}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            return

        def do_GET(self) -> None:
            here: Any = self.server
            here.asked += 1
            raw = json.dumps({"state": here.states.pop(0) if here.states else "WORKING"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    httpd: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.asked, httpd.states = 0, []
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield httpd
    httpd.shutdown()
    httpd.server_close()
    thread.join(10)


def poll(server: Any, **request: Any) -> dict[str, Any]:
    uri = f"http://127.0.0.1:{server.server_port}/"
    return {"http_request": {"uri": uri, "method": "GET", "terminationCondition": DONE, **request}}


def work() -> list[str]:
    """Run whatever system task is ready once; returns the statuses that were reported."""
    flows.drain()
    started = dispatching.lease_system_tasks(sorted(RUNNERS), batch=10, worker_id="system")
    reports = [run_system_task(task) for task in started]
    if reports:
        dispatching.report(reports, strict=True)
    flows.drain()
    return [report.status for report in reports]


def node(type: str, ref: str, **inputs: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": type, "inputParameters": inputs}


def task_of(run: UUID, ref: str) -> Task:
    return Task.objects.get(workflow_id=run, ref=ref)


def test_a_poll_asks_once_for_each_time_it_is_handed_out_and_waits_in_its_queue_between(server: Any) -> None:
    server.states = ["WORKING", "DONE"]
    run = flows.start(flows.register(node("HTTP_POLL", "p", **poll(server, pollingInterval=3600))))
    assert work() == ["IN_PROGRESS"]
    assert work() == [], "not due before its interval"
    task = task_of(run, "p")
    assert (task.status, task.output["pollCount"], server.asked) == ("SCHEDULED", 1, 1)
    flows_visible(run)
    assert work() == ["COMPLETED"]
    assert task_of(run, "p").output["response"]["body"] == {"state": "DONE"}
    assert (task_of(run, "p").output["pollCount"], flows.status(run), server.asked) == (2, "COMPLETED", 2)


def flows_visible(run: UUID) -> None:
    """What an operator's "reset callbacks" does."""
    from dispatch.models import QueuedTask
    from orchestrator.db.transactions import transaction

    with transaction():
        QueuedTask.sql.make_visible(run)


@pytest.mark.parametrize(
    ("strategy", "before", "seconds"),
    [("FIXED", None, 7), ("LINEAR_BACKOFF", {"pollCount": 2}, 21), ("EXPONENTIAL_BACKOFF", {"pollCount": 2}, 28)],
)
def test_intervals(server: Any, strategy: str, before: Any, seconds: int) -> None:
    outcome = run_http_poll(poll(server, pollingInterval=7, pollingStrategy=strategy), before)
    assert (outcome.status, outcome.seconds) == ("IN_PROGRESS", seconds)


def test_a_poll_gives_up_after_its_most_requests_and_on_a_broken_condition(server: Any) -> None:
    outcome = run_http_poll(poll(server, maxPollCount=3), {"pollCount": 2})
    assert (outcome.status, outcome.output["pollCount"]) == ("FAILED_WITH_TERMINAL_ERROR", 3)
    assert outcome.reason == "the terminationCondition did not hold after 3 requests"
    outcome = run_http_poll(poll(server, terminationCondition="nothing.at.all"), None)
    assert outcome.status == "FAILED_WITH_TERMINAL_ERROR"
    assert outcome.output["response"]["statusCode"] == 200, "what was answered is kept"
    assert (outcome.reason or "").startswith("the terminationCondition failed: ")


def test_a_run_reads_another_one() -> None:
    other = flows.start(flows.register(node("NOOP", "n")), {"x": 1})
    flows.drain()
    run = flows.start(flows.register(node("GET_WORKFLOW", "g", id=str(other), includeTasks=True)))
    assert work() == ["COMPLETED"]
    output = task_of(run, "g").output
    assert (output["status"], output["input"], [t["referenceTaskName"] for t in output["tasks"]]) == (
        "COMPLETED", {"x": 1}, ["n"],
    )  # fmt: skip
    run = flows.start(flows.register(node("GET_WORKFLOW", "g", id="nonsense")))
    assert work() == ["FAILED_WITH_TERMINAL_ERROR"]
    assert task_of(run, "g").reason == "No such workflow found by id: nonsense"


def test_another_namespaces_run_is_not_found() -> None:
    other = flows.start(flows.register(node("NOOP", "n")))
    from orchestrator.db.ids import new_id
    from workflows.services import definitions, starting

    definition = {"name": "peek", "tasks": [node("GET_WORKFLOW", "g", id=str(other)), node("NOOP", "z")]}
    run = starting.start(starting.StartRequest("peek", namespace=f"other{new_id().hex[-6:]}", definition=definition))
    assert definitions.check(flows.NAMESPACE, definition) == []
    assert work() == ["FAILED_WITH_TERMINAL_ERROR"]
    assert "No such workflow" in (task_of(run, "g").reason or "")


def test_a_run_ends_a_task_of_another_one_and_may_say_so_twice() -> None:
    other = flows.start(flows.register(node("HUMAN", "h"), node("NOOP", "n")))
    flows.drain()
    update = {"workflowId": str(other), "taskRefName": "h", "taskStatus": "COMPLETED", "taskOutput": {"by": "run"}}
    name = flows.register(node("UPDATE_TASK", "u", **update))
    first = flows.start(name)
    assert work() == ["COMPLETED"]
    assert (flows.status(first), flows.status(other)) == ("COMPLETED", "COMPLETED")
    assert task_of(other, "h").output == {"by": "run"}
    again = flows.start(name)
    assert work() == ["COMPLETED"], "handed out twice after a crash, it changes nothing more"
    assert flows.status(again) == "COMPLETED"
    failing = {**update, "taskStatus": "FAILED"}
    refused = flows.start(flows.register(node("UPDATE_TASK", "u", **failing)))
    assert work() == ["FAILED_WITH_TERMINAL_ERROR"]
    assert "had ended COMPLETED" in (task_of(refused, "u").reason or "")


def test_a_task_is_named_by_its_id_too() -> None:
    other = flows.start(flows.register(node("HUMAN", "h")))
    flows.drain()
    run = flows.start(flows.register(node("UPDATE_TASK", "u", taskId=str(task_of(other, "h").id))))
    assert work() == ["COMPLETED"]
    assert (flows.status(run), flows.status(other)) == ("COMPLETED", "COMPLETED")


def test_a_yield_blocks_its_run_until_a_signal() -> None:
    run = flows.start(flows.register(node("YIELD", "y", shown=1), node("NOOP", "n")))
    flows.drain()
    blocked = executing.find_blocked(run)
    assert blocked is not None
    assert (blocked.task.ref, blocked.task.input) == ("y", {"shown": 1})
