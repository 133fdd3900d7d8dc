"""`manage.py up` as a person runs it: ready, reusable, and gone without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]
LOOPS = ("run_decider", "run_relay", "run_timekeeper", "run_system_tasks", "run_worker", "run_web")


class System:
    """One run of `up` over a data folder."""

    def __init__(self, data: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        kept = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "SECRET_KEY")}
        env = {**kept, "DATA_DIR": str(data), "PORT": str(self.port), "PYTHONUNBUFFERED": "1"}
        self.log = data.with_suffix(".log")
        with self.log.open("ab") as output:
            self.process = psutil.Popen(
                [sys.executable, "manage.py", "up"], cwd=ROOT, env=env, stdout=output, stderr=output
            )
        self.family: list[psutil.Process] = []

    def until_healthy(self) -> None:
        eventually(lambda: not self.process.is_running() or self.healthy(), 90)
        eventually(lambda: "Ctrl-C stops everything" in self.log.read_text())
        self.family = [self.process, *self.process.children(recursive=True)]

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return bool(json.load(answer) == {"healthy": True})
        except OSError:
            return False

    def call(self, path: str, body: object = None) -> bytes:
        """The body of an answer of the API, as anybody on this host gets it."""
        given = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/{path}", given)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: bytes = answer.read()
        return found

    def child(self, command: str) -> psutil.Process:
        found = [p for p in self.process.children() if command in p.cmdline()]
        assert len(found) == 1, command
        return found[0]

    def gone(self) -> bool:
        return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in self.family)


@pytest.fixture
def data() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ostinato-up-"))
    folder.chmod(0o711)
    yield folder / "data"
    shutil.rmtree(folder)


@pytest.fixture
def system(data: Path) -> Iterator[System]:
    system = System(data)
    system.until_healthy()
    yield system
    if system.process.is_running():
        with contextlib.suppress(psutil.NoSuchProcess):
            system.process.terminate()
            system.process.wait(60)


def test_a_second_start_reuses_the_data_and_ctrl_c_leaves_nothing(system: System, data: Path) -> None:
    password = (data / "admin-password").read_text()
    assert password.strip() in system.log.read_text()
    system.process.send_signal(signal.SIGINT)
    eventually(system.gone, 45)
    assert sorted(p.name for p in data.iterdir()) == ["admin-password", "postgres", "secret-key", "static"]
    assert not (data / "postgres" / "postmaster.pid").exists()

    again = System(data)
    again.until_healthy()
    assert (data / "admin-password").read_text() == password
    again.process.send_signal(signal.SIGTERM)
    eventually(again.gone, 45)


def test_nothing_outlives_a_killed_supervisor(system: System, data: Path) -> None:
    assert len(system.family) > len(LOOPS)
    system.process.kill()
    eventually(system.gone, 45)
    assert not (data / "postgres" / "postmaster.pid").exists()


def test_a_killed_child_comes_back_and_it_is_said(system: System) -> None:
    killed = [system.child(command) for command in LOOPS]
    for process in killed:
        process.kill()
    eventually(lambda: all(f"{name} " in system.log.read_text() for name in ("decider", "web")))
    eventually(lambda: system.log.read_text().count("ended with SIGKILL") == len(LOOPS), 30)
    eventually(system.healthy, 60)
    assert {p.pid for p in killed}.isdisjoint(system.child(command).pid for command in LOOPS)


def test_large_payloads_are_kept_in_the_data_folder(system: System, data: Path) -> None:
    task = {"name": "t", "taskReferenceName": "t", "type": "SIMPLE"}
    system.call("metadata/workflow", {"name": "large", "version": 1, "tasks": [task]})
    given = {"text": "x" * 300_000}
    run = system.call("workflow/large", given).decode()
    assert len(list((data / "payloads").glob("*/*/*"))) == 1
    assert json.loads(system.call(f"workflow/{run}"))["input"] == given
