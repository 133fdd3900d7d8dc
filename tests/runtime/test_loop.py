from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import psycopg
import pytest
from django.db import OperationalError, connection
from structlog.testing import capture_logs

from orchestrator.runtime.loop import Loop, Tally, add_loop_arguments, loop_options
from orchestrator.runtime.stop import Stop
from orchestrator.runtime.wakeup import Wakeup
from tests.support import eventually, observer

FOREVER = 3600.0


class Script:
    """A step that returns (or raises) one value after another, and zero for ever after."""

    def __init__(self, *values: int | Exception, then: Callable[[], None] = lambda: None) -> None:
        self.values = list(values)
        self.calls = 0
        self.idle = threading.Event()
        self.then = then

    def __call__(self) -> int:
        self.calls += 1
        if self.values:
            value = self.values.pop(0)
            if isinstance(value, Exception):
                raise value
            return value
        self.then()
        self.idle.set()
        return 0


def in_thread(loop: Loop, stop: Stop) -> threading.Thread:
    thread = threading.Thread(target=loop.run, args=(stop,), daemon=True)
    thread.start()
    return thread


def ended(thread: threading.Thread) -> bool:
    thread.join(10)
    return not thread.is_alive()


def test_a_step_that_worked_is_followed_at_once() -> None:
    stop = Stop()
    step = Script(3, 1, 2, then=stop.set)
    Loop("test", step, idle_seconds=FOREVER).run(stop)
    assert step.calls == 4


def test_a_stop_wakes_the_wait() -> None:
    stop = Stop()
    step = Script()
    thread = in_thread(Loop("test", step, idle_seconds=FOREVER), stop)
    assert step.idle.wait(10)
    stop.set()
    assert ended(thread)
    assert step.calls == 1


def test_idle_time_ends_by_itself() -> None:
    step = Script()
    Loop("test", step, idle_seconds=0.001, max_steps=5).run(Stop())
    assert step.calls == 5


def test_errors_back_off_and_the_loop_goes_on() -> None:
    stop = Stop()
    step = Script(OperationalError("gone"), RuntimeError("a defect"), 1, then=stop.set)
    assert ended(in_thread(Loop("test", step, idle_seconds=FOREVER), stop))
    assert step.calls == 4


def test_once_makes_one_step_and_raises_its_error() -> None:
    step = Script(5, 5)
    Loop("test", step, once=True).run(Stop())
    assert step.calls == 1
    with pytest.raises(RuntimeError, match="a defect"):
        Loop("test", Script(RuntimeError("a defect")), once=True).run(Stop())


def test_threads_share_the_steps() -> None:
    together = threading.Barrier(3)

    def step() -> int:
        together.wait(10)
        return 1

    Loop("test", step, threads=3, max_steps=6).run(Stop())
    assert not together.broken


def test_options_become_arguments() -> None:
    parser = argparse.ArgumentParser()
    add_loop_arguments(parser, idle_seconds=2.5, threads=4)
    options = vars(parser.parse_args(["--once"]))
    assert loop_options(options) == {"once": True, "max_steps": None, "idle_seconds": 2.5, "threads": 4}


def test_a_notification_wakes_the_loop(committed: None) -> None:
    wakeup = Wakeup("loop_test")
    stop = Stop()
    step = Script()
    thread = in_thread(Loop("test", step, wakeup, idle_seconds=FOREVER), stop)
    assert wakeup.listening.wait(10)
    eventually(lambda: step.calls >= 1)
    seen = step.calls
    with observer() as other:
        eventually(lambda: other.execute("NOTIFY loop_test") and step.calls > seen)
    stop.set()
    assert ended(thread)


def test_a_listener_whose_connection_is_cut_rings_and_listens_again(committed: None) -> None:
    wakeup = Wakeup("cut_test")
    heard: list[str] = []
    wakeup.subscribe(heard.append)
    wakeup.start()
    try:
        eventually(lambda: heard == [""])
        with observer() as other:
            cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN \"cut_test\"'"
            eventually(lambda: other.execute(cut).fetchall())
            eventually(lambda: heard == ["", ""])
            other.execute("SELECT pg_notify('cut_test', 'again')")
            eventually(lambda: heard == ["", "", "again"])
    finally:
        wakeup.close()


def test_a_connection_that_died_is_replaced(committed: None) -> None:
    stop = Stop()
    pids: list[int] = []

    def step() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pids.append(cursor.fetchone()[0])
        if len(pids) == 2:
            stop.set()
            return 0
        with observer() as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [pids[0]])
        return 1

    thread = in_thread(Loop("test", step, idle_seconds=FOREVER), stop)
    assert ended(thread)
    assert len(set(pids)) == 2


PROGRAM = """
import sys, threading, django
django.setup()
from orchestrator.runtime.loop import Loop, run_loops
hold = threading.Event()
def step():
    print("stepping", flush=True)
    hold.wait({hold})
    return 0
run_loops([Loop("test", step, idle_seconds=3600)])
print("drained", flush=True)
"""


def start_program(hold: float) -> subprocess.Popen[str]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "orchestrator.settings"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(hold=hold)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "stepping\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(number: signal.Signals) -> None:
    process = start_program(hold=0.2)
    process.send_signal(number)
    rest, _ = process.communicate(timeout=20)
    assert rest == "drained\n"
    assert process.returncode == 0


def test_a_second_signal_exits_at_once() -> None:
    process = start_program(hold=FOREVER)
    process.send_signal(signal.SIGTERM)
    eventually(lambda: process.send_signal(signal.SIGINT) or process.poll() is not None)
    rest, _ = process.communicate(timeout=20)
    assert rest == ""
    assert process.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM)


@pytest.mark.parametrize(
    ("error", "event"), [(psycopg.OperationalError("cut"), "database error"), (KeyError("defect"), "step failed")]
)
def test_only_a_defect_is_logged_with_its_trace(error: Exception, event: str) -> None:
    stop = Stop()
    with capture_logs() as lines:
        assert ended(in_thread(Loop("test", Script(error, then=stop.set), idle_seconds=FOREVER), stop))
    assert [line["event"] for line in lines] == [event]
    assert ("exc_info" in lines[0]) == (event == "step failed")


def test_what_the_steps_did_is_said_in_one_line() -> None:
    stop = Stop()
    with capture_logs() as lines:
        assert ended(in_thread(Loop("test", Script(0, 4, 3, then=stop.set), idle_seconds=0.001), stop))
    said = [(line["event"], line["items"], line["steps"]) for line in lines if line["log_level"] == "info"]
    assert said == [("worked", 7, 2)]


def test_a_loop_that_did_nothing_says_nothing() -> None:
    with capture_logs() as lines:
        Loop("test", Script(), idle_seconds=0.001, max_steps=3).run(Stop())
    assert lines == []


def test_what_was_done_is_said_in_good_time() -> None:
    tally = Tally("test", seconds=0)
    with capture_logs() as lines:
        tally.add(2)
        tally.say()
        tally.say()
        tally.add(1)
        tally.say()
    assert [(line["items"], line["steps"]) for line in lines] == [(2, 1), (1, 1)]
