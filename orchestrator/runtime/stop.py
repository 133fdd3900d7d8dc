"""Stopping: the first signal asks loops to drain, the second one ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from orchestrator.runtime.lifeline import watch_lifeline


class Stop:
    """A request to stop, and what has to be woken to hear it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._bells: list[Callable[[], None]] = []

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        """Ask for the stop; idempotent."""
        self._event.set()
        with self._lock:
            bells = list(self._bells)
        for ring in bells:
            ring()

    def subscribe(self, ring: Callable[[], None]) -> None:
        """Call `ring` when the stop is asked for, at once if it was already."""
        with self._lock:
            self._bells.append(ring)
        if self.requested:
            ring()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the request; False when the time is over first."""
        return self._event.wait(seconds)


def stop_on_signals(stop: Stop | None = None, second: Callable[[], None] = lambda: None) -> Stop:
    """SIGTERM, SIGINT and the supervisor's death ask for the stop; a second signal exits at once.

    `second` runs just before that exit. Call from the main thread. The handlers only write to a pipe:
    setting an event inside a handler can deadlock with the main thread that waits on it.
    """
    stop = Stop() if stop is None else stop
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def note(number: int, frame: object) -> None:
        os.write(writing, bytes([number]))

    def read() -> None:
        os.read(reading, 1)
        stop.set()
        number = os.read(reading, 1)[0]
        second()
        os._exit(128 + number)

    threading.Thread(target=read, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    watch_lifeline()
    return stop
