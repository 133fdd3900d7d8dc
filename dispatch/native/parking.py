"""Parked polls: one question to the database for all of them, however many wait.

A notification or a short tick asks which of the queues with waiters have work, and wakes as many as there is work for.
"""

from __future__ import annotations

import asyncio
from collections import deque

import structlog

from dispatch.native.threads import in_thread
from dispatch.services import dispatching

log = structlog.get_logger(__name__)
Key = tuple[str, str]
"""(namespace, queue)."""

MOST_PARKED = 5000
"""Polls beyond these are answered at once: the server's own limit must never be reached."""
_TICK_SECONDS = 0.2


class Parking:
    """Waiters of a process, by queue, in the order they came."""

    def __init__(self) -> None:
        self._waiters: dict[Key, deque[asyncio.Future[None]]] = {}
        self._bell = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._released = False
        self.parked = 0

    async def wait(self, key: Key, seconds: float) -> bool:
        """Until there may be work in a queue; False when the time is over first, or nobody may wait any more."""
        if self._released or self.parked >= MOST_PARKED:
            return False
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(key, deque()).append(waiter)
        self.parked += 1
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep())
        try:
            await asyncio.wait_for(waiter, seconds)
        except TimeoutError:
            return False
        finally:
            self.parked -= 1
            self._forget(key, waiter)
        return not self._released

    def ring(self) -> None:
        """Look at once: something was queued."""
        self._bell.set()

    def release(self) -> None:
        """Let every waiter go, and park nobody any more."""
        self._released = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                _wake(waiter)
        self._bell.set()

    def _forget(self, key: Key, waiter: asyncio.Future[None]) -> None:
        waiters = self._waiters.get(key)
        if waiters is None:
            return
        if waiter in waiters:
            waiters.remove(waiter)
        if not waiters:
            del self._waiters[key]

    async def _keep(self) -> None:
        """Ask while anybody waits."""
        while self._waiters and not self._released:
            self._bell.clear()
            keys = list(self._waiters)
            try:
                found = await in_thread(dispatching.ready, keys)
            except Exception as error:  # the waiters wait on; the next look may succeed
                log.warning("parked_polls_not_served", error=f"{type(error).__name__}: {error}".strip())
                found = {}
            for key, ready in found.items():
                for waiter in list(self._waiters.get(key, ()))[:ready]:
                    _wake(waiter)
            try:
                await asyncio.wait_for(self._bell.wait(), _TICK_SECONDS)
            except TimeoutError:
                continue


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
