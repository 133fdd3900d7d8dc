"""The loop under every long-running command: step, wait, step; drain on SIGTERM."""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
import structlog
from django.core.checks import Tags, run_checks
from django.core.management.base import SystemCheckError
from django.db import Error as DjangoDatabaseError
from django.db import close_old_connections, connections

from orchestrator.conf import conf
from orchestrator.runtime.heartbeat import beat
from orchestrator.runtime.logs import configure_logs
from orchestrator.runtime.metrics import LOOP_ITEMS, LOOP_SECONDS, LOOP_STEPS
from orchestrator.runtime.stop import Stop, stop_on_signals
from orchestrator.runtime.wakeup import Wakeup

logger = structlog.get_logger("ostinato.loop")

Step = Callable[[], int]
_BACKOFF_SECONDS = (0.1, 10.0)
_JITTER = 0.2
_TALLY_SECONDS = 10.0


class Tally:
    """What the threads of a loop did, said in one line every `seconds`: a busy loop takes hundreds of steps in one."""

    def __init__(self, loop: str, seconds: float) -> None:
        self.loop = loop
        self.seconds = seconds
        self._lock = threading.Lock()
        self._items = self._steps = 0
        self._since = time.monotonic()

    def add(self, items: int) -> None:
        with self._lock:
            self._items += items
            self._steps += 1

    def say(self, *, now: bool = False) -> None:
        """Log what is not said yet, when it is time or `now`."""
        with self._lock:
            passed = time.monotonic() - self._since
            if not self._steps or (passed < self.seconds and not now):
                return
            items, steps = self._items, self._steps
            self._items = self._steps = 0
            self._since += passed
        logger.info("worked", loop=self.loop, items=items, steps=steps, seconds=round(passed, 1))


class Loop:
    """Calls `step()` until it is stopped.

    `step` returns how much it did: more than zero goes round at once, zero waits for a stop, a
    notification or `idle_seconds` (give or take a fifth). An exception that leaves it backs the loop
    off and is retried; with `once` it is raised. `threads` copies of the step run side by side.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        wakeup: Wakeup | None = None,
        idle_seconds: float = 1.0,
        *,
        once: bool = False,
        max_steps: int | None = None,
        threads: int = 1,
    ) -> None:
        self.name = name
        self.step = step
        self.wakeup = wakeup
        self.idle_seconds = idle_seconds
        self.max_steps = 1 if once else max_steps
        self.once = once
        self.threads = threads
        self._failed: BaseException | None = None
        self._left = self.max_steps
        self._lock = threading.Lock()
        self._tally = Tally(name, _TALLY_SECONDS)

    def run(self, stop: Stop) -> None:
        """Run until the stop is asked for (or `max_steps`); the step in progress ends first."""
        if self.wakeup is not None and not self.once:
            self.wakeup.start()
        try:
            if self.threads == 1:
                self._go_round(stop)
            else:
                self._go_round_in_threads(stop)
        finally:
            self._tally.say(now=True)
            if self.wakeup is not None:
                self.wakeup.close()
        if self._failed is not None:
            raise self._failed

    def _go_round_in_threads(self, stop: Stop) -> None:
        threads = [
            threading.Thread(target=self._go_round, args=(stop,), name=f"{self.name}-{n}") for n in range(self.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _go_round(self, stop: Stop) -> None:
        bell = threading.Event()
        stop.subscribe(bell.set)
        if self.wakeup is not None:
            self.wakeup.subscribe(lambda payload: bell.set())
        failures = 0
        try:
            while not stop.requested and self._take_turn():
                # Cleared before the step: what is notified while it runs is seen by the next one.
                bell.clear()
                beat()
                done = self._try_step()
                self._tally.say()
                failures = failures + 1 if done is None else 0
                if self._failed is not None:
                    return
                if not done and not stop.requested:
                    bell.wait(self._pause(failures))
        finally:
            connections.close_all()

    def _take_turn(self) -> bool:
        if self._left is None:
            return True
        with self._lock:
            self._left -= 1
            return self._left >= 0

    def _try_step(self) -> int | None:
        """What the step did; None when it failed."""
        started = time.monotonic()
        try:
            done = self.step()
        except Exception as error:
            self._note_failure(error)
            return None
        if done:
            seconds = time.monotonic() - started
            LOOP_ITEMS.labels(self.name).inc(done)
            LOOP_SECONDS.labels(self.name).observe(seconds)
            logger.debug("step", loop=self.name, items=done, ms=round(seconds * 1000, 1))
            self._tally.add(done)
        LOOP_STEPS.labels(self.name, "worked" if done else "idle").inc()
        return done

    def _note_failure(self, error: Exception) -> None:
        """A lost database is weather: one line. Anything else is a defect of the step: with its trace."""
        LOOP_STEPS.labels(self.name, "failed").inc()
        if self.once:
            self._failed = error
            return
        if isinstance(error, (DjangoDatabaseError, psycopg.Error)):
            logger.warning("database error", loop=self.name, error=f"{type(error).__name__}: {error}".strip())
        else:
            logger.exception("step failed", loop=self.name)
        close_old_connections()

    def _pause(self, failures: int) -> float:
        if failures:
            least, most = _BACKOFF_SECONDS
            return min(most, least * 2.0 ** min(failures - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311
        return self.idle_seconds * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311


def refuse_unfit_database(stop: Stop) -> None:
    """Raise SystemCheckError when the database cannot keep the invariants (isolation level, version, pooler).

    Waits for a database that does not answer yet.
    """
    alias = conf().DATABASE
    while not stop.requested:
        try:
            errors = [found for found in run_checks(tags=[Tags.database], databases=[alias]) if found.is_serious()]
        except DjangoDatabaseError as error:
            logger.warning("waiting for the database", error=str(error).strip())
            connections[alias].close()
            stop.wait(1.0)
            continue
        finally:
            close_old_connections()
        if errors:
            raise SystemCheckError("\n".join(str(found) for found in errors))
        return


def run_loops(loops: Iterable[Loop], stop: Stop | None = None) -> None:
    """Run a process's loops until it is told to stop; call it from the main thread.

    Sets up logs and signals. The first exception of a loop with `once` is raised.
    """
    configure_logs()
    stop = stop_on_signals(stop)
    refuse_unfit_database(stop)
    errors: list[BaseException] = []

    def run(loop: Loop) -> None:
        try:
            loop.run(stop)
        except BaseException as error:
            errors.append(error)
            stop.set()

    # The main thread only waits, so that signal handlers always run at once.
    threads = [threading.Thread(target=run, args=(loop,), name=loop.name) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def add_loop_arguments(parser: argparse.ArgumentParser, idle_seconds: float = 1.0, threads: int = 1) -> None:
    """The options every loop command has."""
    parser.add_argument("--once", action="store_true", help="one step, then exit; an error is raised")
    parser.add_argument("--max-steps", type=int, default=None, help="exit after this many steps")
    parser.add_argument("--idle-seconds", type=float, default=idle_seconds, help="wait when there is nothing to do")
    parser.add_argument("--threads", type=int, default=threads, help="copies of the step side by side")


def loop_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options as keyword arguments of `Loop`."""
    return {name: options[name] for name in ("once", "max_steps", "idle_seconds", "threads")}
