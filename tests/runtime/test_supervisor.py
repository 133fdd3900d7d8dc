from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.runtime import heartbeat
from orchestrator.supervisor import Supervisor, command_child
from tests.support import eventually

FOREVER = "import threading; print('up', flush=True); threading.Event().wait()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOREVER}"


class Said:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __call__(self, name: str, line: str) -> None:
        self.lines.append((name, line))

    def has(self, name: str, text: str) -> int:
        return sum(1 for who, line in self.lines if who == name and text in line)


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def supervisor(said: Said, tmp_path: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor(said, tmp_path)
    yield supervisor
    supervisor.stop.set()
    supervisor.kill()


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def pid_of(supervisor: Supervisor, name: str) -> int | None:
    child = next(c for c in supervisor.children if c.name == name)
    return child.process.pid if child.process else None


def test_a_killed_child_is_started_again_and_it_says_so(supervisor: Supervisor, said: Said) -> None:
    supervisor.start(command_child("loop", python(FOREVER), dict(os.environ)))
    eventually(lambda: said.has("loop", "up"))
    first = pid_of(supervisor, "loop")
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually(lambda: said.has("loop", "up") == 2)
    assert pid_of(supervisor, "loop") != first
    assert said.has("loop", "ended with SIGKILL; starting it again in 0.")


def test_the_wait_grows_with_each_failure(supervisor: Supervisor, said: Said) -> None:
    supervisor.start(command_child("loop", python("raise SystemExit(3)"), dict(os.environ)))
    eventually(lambda: said.has("loop", "ended with exit code 3") == 2)
    first, second = [float(line.split()[-2]) for _, line in said.lines[:2]]
    assert second > first


def test_shut_down_stops_the_last_one_last(supervisor: Supervisor, said: Said) -> None:
    ends = "import signal, sys; signal.signal(signal.SIGTERM, lambda *a: (print('ended', flush=True), sys.exit(0))); "
    last = command_child("database", python(ends + FOREVER), dict(os.environ))
    last.last = True
    supervisor.start(last)
    supervisor.start(command_child("loop", python(ends + FOREVER), dict(os.environ)))
    eventually(lambda: said.has("loop", "up") and said.has("database", "up"))
    supervisor.stop.set()
    supervisor.shut_down()
    assert [name for name, line in said.lines if line == "ended"] == ["loop", "database"]
    assert not any(child.process for child in supervisor.children)


def test_kill_reaches_the_stubborn_and_their_children(supervisor: Supervisor, said: Said) -> None:
    offspring = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]); p.wait()"
    supervisor.start(command_child("loop", python(offspring), dict(os.environ)))
    eventually(lambda: said.has("loop", "up"))
    child = psutil.Process(pid_of(supervisor, "loop"))
    grandchild = child.children()[0]
    supervisor.stop.set()
    supervisor.kill()
    eventually(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)


def test_children_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    follower = (
        "import threading; from orchestrator.runtime.lifeline import watch_lifeline; watch_lifeline(); "
        "print('up', flush=True); threading.Event().wait()"
    )
    program = (
        "import os, pathlib, sys, threading; from orchestrator.supervisor import *\n"
        f"s = Supervisor(lambda n, l: print(s.children[0].process.pid, flush=True), pathlib.Path({str(tmp_path)!r}))\n"
        f"s.start(command_child('loop', [sys.executable, '-c', {follower!r}], dict(os.environ)))\n"
        "threading.Event().wait()"
    )
    supervisor = subprocess.Popen(python(program), stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    child = psutil.Process(int(supervisor.stdout.readline()))
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_health_knows_the_children(
    supervisor: Supervisor, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beating = f"from orchestrator.runtime.heartbeat import beat; beat(); {FOREVER}"
    env = {**os.environ, heartbeat.VARIABLE: str(tmp_path)}
    supervisor.start(command_child("web", python(FOREVER), env))
    supervisor.start(command_child("loop", python(beating), env, beats=True))
    supervisor.start(command_child("silent", python(FOREVER), env, beats=True))
    eventually(lambda: heartbeat.states(tmp_path) == {"web": "up", "loop": "up", "silent": "starting"})

    monkeypatch.setattr(heartbeat, "FRESH_SECONDS", -1.0)
    monkeypatch.setattr(heartbeat, "GRACE_SECONDS", -1.0)
    assert heartbeat.states(tmp_path) == {"web": "up", "loop": "stuck", "silent": "up"}

    children = json.loads((tmp_path / "children.json").read_text())
    heartbeat.write_children(tmp_path, {**children, "web": {**children["web"], "pid": None}})
    assert heartbeat.states(tmp_path)["web"] == "down"


def test_output_is_whole_lines_of_each_child(supervisor: Supervisor, said: Said) -> None:
    supervisor.start(command_child("loop", python(f"print('one\\ntwo'); {FOREVER}"), dict(os.environ)))
    eventually(lambda: said.has("loop", "up"))
    assert [line for _, line in said.lines] == ["one", "two", "up"]
    assert threading.active_count() >= 2
