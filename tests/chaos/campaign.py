"""Processes of every role under fire: killed at named points, robbed of backends, connections and the server itself."""

from __future__ import annotations

import http.client
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from tests.chaos.killable import CRASH_AT
from tests.chaos.proxy import Cut, Proxy
from tests.chaos.server import NAME, Server
from tests.chaos.workload import GIVEN
from tests.processes import LOOPS, Processes

WORKER = ["run_worker", "tests.chaos.tasks", "--idle-seconds", "0.1", "--threads", "8"]
POINTS = {
    "decider": ["evaluation.evaluate"],
    "relay": ["relay.deliver_next_batch", "relay._settle", "starting.start"],
    "timekeeper": ["timers.fire_next_batch", "leasing.reclaim_next_batch"],
    "system-tasks": ["leasing.lease_system_tasks", "dispatching._apply"],
    "worker": ["leasing.lease_tasks", "dispatching._apply"],
    "web": ["starting.start", "evaluation.evaluate"],
}
"""Role -> the services whose commits it is killed before and after."""
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


@dataclass(frozen=True)
class Scale:
    """How much of everything: `life` is the most commits a process lives for, `patience` the most seconds."""

    runs: int
    definitions: int
    kills: int
    restarts: int
    cuts: int
    every: float
    life: int
    patience: float
    seconds: float


SHORT = Scale(60, 8, kills=12, restarts=2, cuts=6, every=0.3, life=12, patience=12, seconds=60)
FULL = Scale(10_000, 150, kills=200, restarts=9, cuts=60, every=1.0, life=400, patience=25, seconds=700)


class Victims(Processes):
    """Two processes of each role: one of them goes through the proxy, with a clock that is minutes off."""

    def __init__(self, proxy: Proxy, folder: Path, chance: random.Random, scale: Scale, **environment: str) -> None:
        super().__init__(**environment)
        self.chance = chance
        self.scale = scale
        self.folder = folder
        self.armed = True
        self.killed: Counter[str] = Counter()
        self.since: dict[str, float] = {}
        self.point: dict[str, str] = {}
        self._through = {"DATABASE_URL": proxy.url(NAME)}
        self._rota = {role: self._shuffled(points) for role, points in POINTS.items()}

    def _shuffled(self, points: list[str]) -> list[str]:
        rota = [f"{moment} {point}" for point in points for moment in ("before", "after")]
        self.chance.shuffle(rota)
        return rota

    def start_all(self) -> None:
        for role, command in {**LOOPS, "worker": WORKER}.items():
            for number in (1, 2):
                self.start(f"{role}-{number}", *command)
        self.start_web()

    def start(self, name: str, *command: str) -> None:
        self.commands[name] = list(command) or self.commands[name]
        self.since[name] = time.monotonic()
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.killable", *self.commands[name]],
                env={**self.environment, **self._own(name)}, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def _own(self, name: str) -> dict[str, str]:
        """What this life of the process has in its environment."""
        own: dict[str, str] = {}
        role, _, number = name.rpartition("-") if name[-1].isdigit() else (name, "", "2")
        self.point.pop(name, None)
        if self.armed:
            rota = self._rota[role]
            rota.append(rota.pop(0))
            self.point[name] = rota[-1]
            own[CRASH_AT] = f"{rota[-1]} {self.chance.randint(1, self.scale.life)}"
        if number == "2":
            own |= self._through
            if FAKETIME and role != "web":
                minutes = {"decider": -7, "relay": 5, "timekeeper": -4, "system-tasks": 3, "worker": 6}[role]
                own |= {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"{minutes:+}m", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        return own

    def tend(self) -> None:
        """Raise the dead; kill those whose point does not come."""
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                # The web server's own supervisor gives up with 1 when its worker is killed again and again.
                assert process.returncode == -signal.SIGKILL or name == "web", f"{name}: exit {process.returncode}"
                self.killed[self.point.get(name, "at any moment")] += 1
                self.start(name)
            elif self.armed and time.monotonic() - self.since[name] > self.scale.patience:
                self.point.pop(name, None)
                self.kill(name)


class Starters:
    """Clients that start runs over HTTP, and ask again with the same key until they are told an id."""

    def __init__(self, victims: Victims, names: list[str], threads: int = 8) -> None:
        self.victims = victims
        self.started: dict[UUID, str] = {}
        self.twice: list[str] = []
        self._todo = list(enumerate(names))
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._todo:
                    return
                number, name = self._todo.pop()
            run = self._start(f"chaos-{number}", name)
            with self._lock:
                if run in self.started:
                    self.twice.append(f"{run} is the answer to two keys")
                self.started[run] = name

    def _start(self, key: str, name: str) -> UUID:
        body: dict[str, Any] = {
            "name": name, "input": GIVEN, "idempotencyKey": key, "idempotencyStrategy": "RETURN_EXISTING",
        }  # fmt: skip
        while True:
            try:
                status, answer = self.victims.request("POST", "/api/workflow", body)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
                continue
            if status == 200:
                return UUID(answer)
            assert status >= 500, answer
            time.sleep(0.1)


class Campaign:
    """Deals out blows, one every so many seconds, until there were enough."""

    def __init__(self, server: Server, proxy: Proxy, victims: Victims, chance: random.Random) -> None:
        self.server = server
        self.proxy = proxy
        self.victims = victims
        self.chance = chance

    @property
    def kills(self) -> int:
        return sum(self.victims.killed.values()) + self.server.terminations

    def run(self, scale: Scale) -> None:
        """Go on until all of them were dealt; then everybody lives in peace."""
        began = time.monotonic()
        next_restart = began + scale.every * 3
        while self.kills < scale.kills or self.server.restarts < scale.restarts or self.proxy.cuts < scale.cuts:
            assert time.monotonic() < began + scale.seconds, "the blows could not be dealt in time"
            time.sleep(scale.every * self.chance.uniform(0.5, 1.5))
            self.victims.tend()
            self.proxy.cut(self.chance.choice(list(Cut)))
            if self.server.restarts < scale.restarts and time.monotonic() > next_restart:
                next_restart += scale.seconds / 3 / scale.restarts
                self._strike_server()
            elif self.chance.random() < 0.5:
                self._terminate()
        self.victims.armed = False
        for name in list(self.victims.running):
            if name in self.victims.point:
                self.victims.kill(name)
        self.victims.point.clear()
        self.victims.tend()

    def _terminate(self) -> None:
        try:
            self.server.terminate_backends(self.chance, 1)
        except psycopg.OperationalError:
            return  # another backend's end may have been ours

    def _strike_server(self) -> None:
        blow = (self.server.restarts) % 3
        if blow == 2:
            self.server.crash(self.chance)
        else:
            self.server.restart((signal.SIGQUIT, signal.SIGINT)[blow])


def environment(ledger: Path) -> dict[str, str]:
    """Short leases, and no end to redelivery: a task is handed out until somebody lives to report it."""
    return {
        "CHAOS_LEDGER": str(ledger), "OSTINATO_DEMO_OPEN": "true", "OSTINATO_LEASE_SECONDS": "3",
        "OSTINATO_MAX_REDELIVERIES": "1000", "OSTINATO_OUTBOX_LEASE_SECONDS": "3", "PYTHONPATH": os.getcwd(),
    }  # fmt: skip
