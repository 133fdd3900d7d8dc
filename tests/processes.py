"""Real processes of the system over the test's database: started, killed by pid, stopped in the end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from types import TracebackType
from typing import Any

from tests.support import eventually

LOOPS = {
    "decider": ["run_decider", "--idle-seconds", "0.1"],
    "relay": ["run_relay", "--idle-seconds", "0.1"],
    "timekeeper": ["run_timekeeper", "--idle-seconds", "0.1"],
    "system-tasks": ["run_system_tasks", "--idle-seconds", "0.1"],
}


class Processes:
    """The processes of one test, by name; a context manager that leaves none behind."""

    def __init__(self, module: str = "orchestrator", **environment: str) -> None:
        self.module = module
        self.environment = {**os.environ, **environment}
        self.commands: dict[str, list[str]] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.port = 0

    def start(self, name: str, *command: str) -> None:
        """Start a management command, or start it again."""
        self.commands[name] = list(command) or self.commands[name]
        self.running[name] = subprocess.Popen(
            [sys.executable, "-m", self.module, *self.commands[name]],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def start_web(self) -> None:
        """Start the web server on a free port, and wait until it is healthy."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.start("web", "run_web", "--port", str(self.port))
        eventually(self.healthy, 30)

    def healthy(self) -> bool:
        try:
            return self.request("GET", "/health")[0] == 200
        except OSError:
            return False

    def kill(self, name: str) -> None:
        """SIGKILL: no clean-up of any kind."""
        process = self.running[name]
        process.send_signal(signal.SIGKILL)
        process.wait(10)

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """(status, decoded answer) of a call to the web server."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            data = None if body is None else json.dumps(body)
            typed_body = {"Content-Type": "application/json"} if data else {}
            connection.request(method, path, data, typed_body | (headers or {}))
            response = connection.getresponse()
            raw = response.read()
            typed = response.headers.get_content_type() == "application/json"
            return response.status, json.loads(raw) if raw and typed else raw.decode()
        finally:
            connection.close()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
