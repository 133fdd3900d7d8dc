"""One LISTEN connection for a whole process, fanned out to whoever waits for one key on its event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.runtime.wakeup import Wakeup


class Bell:
    """What a waiter holds: rung from the listening thread, waited for on its own event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake the waiter; a loop that has closed needs no waking."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            return

    async def wait(self, seconds: float) -> bool:
        """Until it is rung, or False when the time is over first; rings before the call count."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Fanout:
    """Listens on one channel, and rings the bells of the keys that each payload names, separated by commas.

    A ring is a hint. The waiter polls as well: a notification may be lost at any time.
    """

    def __init__(self, channel: str) -> None:
        self._wakeup = Wakeup(channel)
        self._wakeup.subscribe(self._ring)
        self._lock = threading.Lock()
        self._bells: dict[str, set[Bell]] = {}

    @property
    def listening(self) -> threading.Event:
        """Set while notifications arrive."""
        return self._wakeup.listening

    @contextmanager
    def bell(self, key: str) -> Iterator[Bell]:
        """A bell for `key` while the block runs; must be entered on the waiter's event loop."""
        bell = Bell(asyncio.get_running_loop())
        with self._lock:
            self._bells.setdefault(key, set()).add(bell)
        self._wakeup.start()
        try:
            yield bell
        finally:
            with self._lock:
                self._bells[key].discard(bell)
                if not self._bells[key]:
                    del self._bells[key]

    def ring_all(self) -> None:
        """Wake every waiter."""
        self._ring("")

    def close(self) -> None:
        """Stop listening."""
        self._wakeup.close()

    def _ring(self, payload: str) -> None:
        with self._lock:
            keys = payload.split(",") if payload else list(self._bells)
            waiting = [self._bells.get(key, ()) for key in keys]
            rung = [bell for bells in waiting for bell in bells]
        for bell in rung:
            bell.ring()
