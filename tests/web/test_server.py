"""The server as a process, on a real port."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.support import eventually

pytestmark = pytest.mark.e2e


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def server(committed: None, port: int) -> Iterator[psutil.Popen]:
    # The committed fixture has set DATABASE_URL to this worker's database.
    process = psutil.Popen([sys.executable, "-m", "orchestrator", "run_web", "--port", str(port)], env=os.environ)
    eventually(lambda: get(port, "/health")[0], 30)
    yield process
    if process.is_running():
        process.terminate()
        process.wait(20)


def test_it_is_healthy_and_measured(server: psutil.Popen, port: int) -> None:
    status, body = get(port, "/health")
    assert (status, json.loads(body)) == (200, {"healthy": True})
    assert get(port, "/api/health") == (200, body)
    assert b"ostinato_http_requests_total" in get(port, "/metrics")[1]


def test_sigterm_ends_all_of_it(server: psutil.Popen, port: int) -> None:
    family = [server, *server.children(recursive=True)]
    server.send_signal(signal.SIGTERM)
    assert psutil.wait_procs(family, timeout=10)[1] == []


def test_no_worker_outlives_a_killed_server(server: psutil.Popen, port: int) -> None:
    workers = server.children(recursive=True)
    assert workers
    server.kill()
    server.wait()
    eventually(lambda: not any(w.is_running() and w.status() != psutil.STATUS_ZOMBIE for w in workers))


def test_a_taken_port_is_said_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", "run_web", "--port", str(number)], capture_output=True, text=True
        )
    assert done.returncode == 1
    assert f"Port {number} on 127.0.0.1 cannot be used" in done.stderr
    assert f"PORT={number + 1}" in done.stderr
