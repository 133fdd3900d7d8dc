"""The native worker paths, against a real server: parked polls, gathered updates, and the same answers as the views."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest
from django.db import connection
from django.test import Client

from orchestrator.services import keys
from orchestrator.services.keys import KeyRequest
from tests import flows
from tests.processes import Processes
from tests.support import eventually
from workflows.models import Execution

pytestmark = pytest.mark.e2e


@pytest.fixture
def system(committed: None) -> Iterator[Processes]:
    with Processes(OSTINATO_DEMO_OPEN="true") as processes:
        processes.start_web()
        yield processes


def poll(system: Processes, queue: str, query: str) -> tuple[int, Any]:
    return system.request("GET", f"/api/tasks/poll/batch/{queue}?{query}")


def test_a_parked_poll_gets_a_task_that_is_queued_later(system: Processes) -> None:
    queue = flows.unique("q")
    name = flows.register(flows.simple("a", queue))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(poll, system, queue, "workerid=w&timeout=20000")
        begun = time.monotonic()
        eventually(lambda: system.request("GET", f"/api/tasks/queue/polldata?taskType={queue}")[1])
        assert not waiting.done()
        assert system.request("POST", f"/api/workflow/{name}", {})[0] == 200
        status, (task,) = waiting.result(10)
    assert (status, task["taskDefName"], task["workerId"]) == (200, queue, "w")
    assert time.monotonic() - begun < 10


def test_many_parked_polls_cost_no_threads_and_no_connections(system: Processes) -> None:
    server = psutil.Process(system.running["web"].pid)
    system.request("GET", "/api/tasks/poll/batch/warm?timeout=0")
    threads = sum(child.num_threads() for child in server.children(recursive=True))
    sockets = [http.client.HTTPConnection("127.0.0.1", system.port, timeout=60) for _ in range(300)]
    try:
        for number, client in enumerate(sockets):
            client.request("GET", f"/api/tasks/poll/batch/parked{number % 7}?workerid=w&timeout=6000")
        status, _ = system.request("GET", "/health")
        assert status == 200
        assert sum(child.num_threads() for child in server.children(recursive=True)) <= threads + 3
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            assert cursor.fetchone()[0] < 20
        answers = [client.getresponse() for client in sockets]
        assert {answer.status for answer in answers} == {200}
        assert all(json.loads(answer.read()) == [] for answer in answers)
    finally:
        for client in sockets:
            client.close()


def test_sigterm_answers_parked_polls(system: Processes) -> None:
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(poll, system, "nobody", "timeout=30000") for _ in range(4)]
        eventually(lambda: system.request("GET", "/api/tasks/queue/polldata?taskType=nobody")[1])
        begun = time.monotonic()
        system.running["web"].terminate()
        assert [answer.result(15) for answer in waiting] == [(200, [])] * 4
        system.running["web"].wait(20)
    assert time.monotonic() - begun < 15


def test_updates_that_arrive_together_each_get_their_answer(system: Processes) -> None:
    queue, width = flows.unique("q"), 40
    run = flows.start(flows.register(*flows.fork("f", *[[flows.simple(f"b{i}", queue)] for i in range(width)])))
    flows.drain()
    tasks = poll(system, queue, f"workerid=w&count={width}")[1]
    assert len(tasks) == width
    barrier = threading.Barrier(width + 2)

    def update(body: dict[str, Any]) -> tuple[int, Any]:
        barrier.wait(20)
        return system.request("POST", "/api/tasks", body)

    results = [
        {"taskId": t["taskId"], "workflowInstanceId": t["workflowInstanceId"], "workerId": "w", "status": "COMPLETED"}
        for t in tasks
    ]
    unknown = {**results[0], "taskId": "00000000-0000-7000-8000-000000000000"}
    bad = {**results[0], "status": "NONSENSE"}
    with ThreadPoolExecutor(width + 2) as pool:
        answers = list(pool.map(update, [*results, unknown, bad]))
    assert answers[:width] == [(200, result["taskId"]) for result in results]
    assert [status for status, _ in answers[width:]] == [404, 400]
    eventually(lambda: (flows.drain(), Execution.objects.get(id=run).status)[1] == "COMPLETED")


@pytest.mark.parametrize(
    ("method", "path", "body"), [
        ("GET", "/api/tasks/poll/nobody", None),
        ("GET", "/api/tasks/poll/batch/nobody?timeout=0", None),
        ("GET", "/api/tasks/poll/batch/nobody?count=0", None),
        ("GET", "/api/tasks/poll/batch/nobody?timeout=x", None),
        ("POST", "/api/tasks", b""),
        ("POST", "/api/tasks", b"{"),
        ("POST", "/api/tasks", b"[]"),
        ("POST", "/api/tasks", b'{"taskId": 5, "workflowInstanceId": "x", "status": "DONE"}'),
        ("POST", "/api/tasks", b'{"taskId": "no-such", "workflowInstanceId": "no-such", "status": "COMPLETED"}'),
        ("POST", "/api/tasks/update-v2", b'{"taskId": "no-such", "workflowInstanceId": "no-such", "status": "COMPLETED"}'),
    ],
)  # fmt: skip
def test_both_kinds_of_path_answer_the_same(system: Processes, settings: Any, method: str, path: str, body: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "DEMO_OPEN": True}
    view = Client().generic(method, path, body or b"", content_type="application/json")
    client = http.client.HTTPConnection("127.0.0.1", system.port, timeout=20)
    client.request(method, path, body, {"Content-Type": "application/json"} if body is not None else {})
    native = client.getresponse()
    raw = native.read()
    client.close()
    assert (native.status, native.headers.get_content_type()) == (view.status_code, view["Content-Type"].split(";")[0])
    assert raw == view.content


def test_a_stranger_is_answered_by_django(committed: None) -> None:
    with Processes(OSTINATO_DEMO_OPEN="false") as processes:
        processes.start_web()
        assert poll(processes, "q", "timeout=0")[0] == 401
        assert processes.request("POST", "/api/tasks", {})[1]["code"] == "UNAUTHENTICATED"


def test_the_native_paths_know_keys_and_their_queues(committed: None) -> None:
    mine, other = flows.unique("order_ship"), flows.unique("mail")
    key, secret = keys.create(KeyRequest(flows.NAMESPACE, "orders", ("work",), ("order_*",)), actor="ann")
    token = {"X-Authorization": keys.exchange(str(key.id), secret)}
    flows.start(flows.register(*flows.fork("f", [flows.simple("a", mine)], [flows.simple("b", other)])))
    flows.drain()
    with Processes(OSTINATO_DEMO_OPEN="false", OSTINATO_KEY_CACHE_SECONDS="0") as web:
        web.start_web()
        (task,) = web.request("GET", f"/api/tasks/poll/batch/{mine}?count=5&timeout=0", headers=token)[1]
        (foreign,) = flows.lease(other)
        refused = web.request("GET", f"/api/tasks/poll/batch/{other}?timeout=0", headers=token)
        assert (refused[0], refused[1]["code"]) == (403, "FORBIDDEN")
        done = {"workflowInstanceId": task["workflowInstanceId"], "status": "COMPLETED"}
        assert web.request("POST", "/api/tasks", {**done, "taskId": str(foreign.id)}, token)[0] == 403
        assert web.request("POST", "/api/tasks", {**done, "taskId": task["taskId"]}, token) == (200, task["taskId"])
        wrong = web.request("GET", f"/api/tasks/poll/batch/{mine}", headers={"X-Authorization": token["X-Authorization"][:-2]})
        assert (wrong[0], wrong[1]["error"]) == (401, "INVALID_TOKEN")
        keys.revoke(flows.NAMESPACE, key.id, actor="ann")
        assert web.request("GET", f"/api/tasks/poll/batch/{mine}?timeout=0", headers=token)[0] == 401


def test_both_kinds_of_path_lock_out_together_and_throttle_the_same(committed: None, settings: Any) -> None:
    limits = {"DEMO_OPEN": False, "LOCKOUT_FAILURES": 4, "LOCKOUT_ADDRESS_FAILURES": 0, "KEY_REQUESTS_PER_MINUTE": 3}
    settings.OSTINATO = {**settings.OSTINATO, **limits}
    key, _ = keys.create(KeyRequest(flows.NAMESPACE, "tried", ("work",)), actor="ann")
    path = "/api/tasks/poll/batch/q?timeout=0"
    wrong = {"Authorization": f"Bearer {key.id}.wrong"}

    def by_view(headers: dict[str, str]) -> tuple[int, Any, Any]:
        answer = Client().get(path, headers=headers)
        return answer.status_code, answer.content, answer.get("Retry-After")

    with Processes(**{f"OSTINATO_{name}": str(value) for name, value in limits.items()}) as web:
        web.start_web()

        def natively(headers: dict[str, str]) -> tuple[int, Any, Any]:
            client = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
            client.request("GET", path, headers=headers)
            answer = client.getresponse()
            found = answer.status, answer.read(), answer.headers["Retry-After"]
            client.close()
            return found

        refused = [ask(wrong) for ask in (natively, by_view, natively, by_view)]
        assert {status for status, _, _ in refused} == {401}
        locked = [natively(wrong), by_view(wrong)]
        assert {status for status, _, _ in locked} == {429}
        assert locked[0][1] == locked[1][1]
        assert all(290 < int(wait) <= 300 for _, _, wait in locked)
        other, secret = keys.create(KeyRequest(flows.NAMESPACE, "busy", ("work",)), actor="ann")
        right = {"Authorization": f"Bearer {other.id}.{secret}"}
        for ask in (natively, by_view):
            assert [ask(right)[:2] for _ in range(3)] == [(200, b"[]")] * 3
        throttled = [natively(right), by_view(right)]
        assert {status for status, _, _ in throttled} == {429}
        assert throttled[0][1] == throttled[1][1]
        assert all(1 <= int(wait) <= 20 for _, _, wait in throttled)
