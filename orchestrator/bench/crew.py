"""The processes that a workload runs on: deciders, workers, a relay, a web server; kept from one workload to the next."""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError

from orchestrator.bench import children
from orchestrator.db.hints import DECIDE, OUTBOX, QUEUE, notify

_SPAWN = multiprocessing.get_context("spawn")
QUEUE_NAME = "bench_step"


@dataclass(frozen=True, slots=True)
class Shape:
    """How many processes of each role there are, and how much each takes at once."""

    deciders: int = 1
    workers: int = 1
    batch: int = 50
    relays: int = 1
    web: bool = False

    def __str__(self) -> str:
        roles = f"{self.deciders}+{self.workers}" if self.workers else f"{self.deciders}"
        return f"{roles}{'+web' if self.web else ''}, batch {self.batch}"


class Crew:
    """Running processes of a shape; still until `working()`. Started on empty tables: the first step warms each up."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.port = 0
        self._gate = _SPAWN.Event()
        self._ready = _SPAWN.Semaphore(0)
        self._running: dict[str, list[Any]] = {}

    def __enter__(self) -> Crew:
        os.environ["OSTINATO_DECIDE_BATCH"] = str(self.shape.batch)
        os.environ["OSTINATO_OUTBOX_BATCH"] = str(self.shape.batch)
        shape = self.shape
        gates = (self._gate, self._ready)
        self._spawn("decider", shape.deciders, children.decide, *gates)
        self._spawn("worker", shape.workers, children.work, *gates, QUEUE_NAME, shape.batch)
        self._spawn("relay", shape.relays, children.relay, *gates)
        try:
            if shape.web:
                self._start_web()
            for _ in range(shape.deciders + shape.workers + shape.relays):
                self._wait(lambda: self._ready.acquire(timeout=0.02), "begin")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._gate.clear()
        running = [process for processes in self._running.values() for process in processes]
        for process in running:
            process.terminate()
        for process in running:
            _end(process)
        self._running = {}

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let the crew work; those that wait are rung."""
        self._gate.set()
        notify([DECIDE, QUEUE, OUTBOX], ["", "", ""])
        try:
            yield
        finally:
            self._gate.clear()

    def pids(self) -> dict[str, list[int]]:
        """Role -> processes."""
        return {role: [process.pid for process in processes] for role, processes in self._running.items()}

    def check(self) -> None:
        """Raise CommandError when one of the processes is gone."""
        for role, processes in self._running.items():
            for process in processes:
                code = process.exitcode if hasattr(process, "exitcode") else process.poll()
                if code is not None:
                    raise CommandError(f"bench: the {role} ended with exit code {code}")

    @contextmanager
    def http_workers(self, count: int, batch: int) -> Iterator[None]:
        """Workers over HTTP, in a process that is not measured."""
        stop = _SPAWN.Event()
        arguments = (f"http://127.0.0.1:{self.port}", QUEUE_NAME, count, batch, stop)
        client = _SPAWN.Process(target=children.work_over_http, args=arguments)
        client.start()
        try:
            yield
        finally:
            stop.set()
            client.join(10)
            _end(client)

    def _spawn(self, role: str, count: int, target: Callable[..., None], *arguments: Any) -> None:
        for _ in range(count):
            process = _SPAWN.Process(target=target, args=arguments)
            process.start()
            self._running.setdefault(role, []).append(process)

    def _start_web(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        command = [sys.executable, "-m", "orchestrator", "run_web", "--port", str(self.port)]
        env = {**os.environ, "OSTINATO_DEMO_OPEN": "true"}
        quiet = subprocess.DEVNULL
        self._running["web"] = [subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet)]
        self._wait(self._healthy, "answer")

    def _healthy(self) -> bool:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        with contextlib.closing(client), contextlib.suppress(OSError):
            client.request("GET", "/health")
            return client.getresponse().status == 200
        return False

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 60
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise CommandError(f"bench: the crew ({self.shape}) did not {what} within a minute")
            time.sleep(0.02)


def _end(process: Any) -> None:
    """Wait for a process that was told to end; what does not is killed."""
    try:
        if isinstance(process, subprocess.Popen):
            process.wait(20)
        else:
            process.join(20)
    except subprocess.TimeoutExpired:
        process.kill()
    if not isinstance(process, subprocess.Popen) and process.is_alive():
        process.kill()
        process.join(5)
