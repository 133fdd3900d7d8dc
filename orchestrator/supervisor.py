"""The supervisor of `up`: children in the foreground, restarted with backoff, stopped in order.

A pipe lifeline ties the children to it: even when it is killed, they see the end of the pipe and stop.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from orchestrator.runtime.heartbeat import CHILD, write_children
from orchestrator.runtime.lifeline import VARIABLE as LIFELINE
from orchestrator.runtime.stop import Stop

Say = Callable[[str, str], None]
"""(name of the child, line)."""

_BACKOFF_SECONDS = (0.5, 30.0)
_STEADY_SECONDS = 30.0
_STOP_SECONDS = 40.0


@dataclass(slots=True)
class Child:
    """A process to keep running; those with `last` are stopped after all others."""

    name: str
    launch: Callable[[int], subprocess.Popen[bytes]]
    """Starts it with the lifeline's read end; its standard output must be a pipe."""
    beats: bool = False
    last: bool = False
    stop_signal: int = signal.SIGTERM
    process: subprocess.Popen[bytes] | None = None
    since: float = 0.0
    thread: threading.Thread | None = field(default=None, repr=False)


class Supervisor:
    """Starts children, watches them in a thread each, and says what it does."""

    def __init__(self, say: Say, status: Path, stop: Stop | None = None) -> None:
        self.say = say
        self.status = status
        self.stop = Stop() if stop is None else stop
        self.children: list[Child] = []
        self._lock = threading.Lock()
        self._ending: set[str] = set()
        self._reading, self._writing = os.pipe()

    def start(self, child: Child) -> None:
        """Start a child and keep it running until `shut_down`."""
        self.children.append(child)
        self._launch(child)
        child.thread = threading.Thread(target=self._keep, args=(child,), name=child.name, daemon=True)
        child.thread.start()

    def _launch(self, child: Child) -> None:
        with self._lock:
            if child.name in self._ending:
                return
            child.process = child.launch(self._reading)
            child.since = time.monotonic()
        self._write_status()

    def _keep(self, child: Child) -> None:
        failures = 0
        while child.process is not None:
            process = child.process
            self._pump(child, process.stdout)
            code = process.wait()
            if not child.last:
                _kill_group(process)
            lived = time.monotonic() - child.since
            child.process = None
            self._write_status()
            if child.name in self._ending:
                return
            failures = 0 if lived > _STEADY_SECONDS else failures + 1
            pause = _backoff(failures)
            self.say(child.name, f"ended with {_reason(code)}; starting it again in {pause:.1f} s")
            self.stop.wait(pause)
            self._try_launch(child)

    def _try_launch(self, child: Child) -> None:
        """A launch that fails is tried again until it works or the stop comes."""
        failures = 1
        while child.process is None and child.name not in self._ending and not self.stop.requested:
            try:
                self._launch(child)
            except Exception as error:
                failures += 1
                self.say(child.name, f"could not be started: {error}")
                self.stop.wait(_backoff(failures))

    def _pump(self, child: Child, output: IO[bytes] | None) -> None:
        if output is not None:
            with output:
                for line in output:
                    self.say(child.name, line.decode(errors="replace").rstrip())

    def shut_down(self) -> None:
        """Stop all children in order and wait; what does not stop in time is killed."""
        for last in (False, True):
            group = [child for child in self.children if child.last == last]
            with self._lock:
                self._ending |= {child.name for child in group}
                running = [(child, child.process) for child in group if child.process is not None]
            for child, process in running:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(child.stop_signal)
            deadline = time.monotonic() + _STOP_SECONDS
            for _, process in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
                _kill_group(process)
            for child in group:
                if child.thread is not None:
                    child.thread.join(5)

    def kill(self) -> None:
        """Kill every child and its offspring at once."""
        self._ending |= {child.name for child in self.children}
        for child in self.children:
            if child.process is not None:
                # PostgreSQL must end by itself: killed, it would leave its shared memory behind.
                if child.last:
                    child.process.send_signal(signal.SIGQUIT)
                else:
                    _kill_group(child.process)

    def _write_status(self) -> None:
        children: dict[str, dict[str, object]] = {
            c.name: {"pid": c.process.pid if c.process else None, "since": c.since, "beats": c.beats}
            for c in self.children
        }
        write_children(self.status, children)


def command_child(name: str, command: list[str], env: dict[str, str], beats: bool = False) -> Child:
    """A child that is a command in a session of its own, so that Ctrl-C reaches the supervisor only."""

    def launch(lifeline: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            env={**env, LIFELINE: str(lifeline), CHILD: name},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[lifeline],
            start_new_session=True,
        )

    return Child(name, launch, beats)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """A dead child's own children must not outlive it: they would keep its port or its leases."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _backoff(failures: int) -> float:
    least, most = _BACKOFF_SECONDS
    return min(most, least * 2.0 ** min(max(failures - 1, 0), 10)) * random.uniform(0.8, 1.2)  # noqa: S311


def _reason(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
