"""Start and end of a server process: what must be ready first, and what must let go at SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from multiprocessing.connection import wait as wait_for_process
from typing import Any

from orchestrator.runtime.logs import configure_logs

logger = logging.getLogger(__name__)

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Lifespan:
    """Hooks of the process; a handler that parks a request must let go when `releasing` becomes true.

    The server reports its shutdown only after all requests have ended, so a parked one would hold it
    for ever: the release runs from the signal itself.
    """

    def __init__(self) -> None:
        self.releasing = False
        self._release: list[Callable[[], None]] = []
        self._startup: list[Callable[[], Awaitable[None]]] = []
        self._shutdown: list[Callable[[], Awaitable[None]]] = []

    def on_startup(self, hook: Callable[[], Awaitable[None]]) -> None:
        """Await `hook` before the first request."""
        self._startup.append(hook)

    def on_release(self, hook: Callable[[], None]) -> None:
        """Call `hook` in the event loop at the first SIGTERM."""
        self._release.append(hook)

    def on_shutdown(self, hook: Callable[[], Awaitable[None]]) -> None:
        """Await `hook` after the last request."""
        self._shutdown.append(hook)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """The ASGI lifespan protocol."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._start(send)
            else:
                self.release()
                for hook in self._shutdown:
                    await hook()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _start(self, send: Send) -> None:
        configure_logs()
        try:
            for hook in self._startup:
                await hook()
        except Exception as error:
            logger.exception("the server cannot start")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        if threading.current_thread() is threading.main_thread():
            self._chain_signals(asyncio.get_running_loop())
        _follow_parent()
        await send({"type": "lifespan.startup.complete"})

    def release(self) -> None:
        """Let go of every parked request; idempotent."""
        if not self.releasing:
            self.releasing = True
            for hook in self._release:
                hook()

    def _chain_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)

            def handler(number: int, frame: Any, before: Any = before) -> None:
                loop.call_soon_threadsafe(self.release)
                if callable(before):
                    before(number, frame)

            if callable(before):
                signal.signal(number, handler)


def _follow_parent() -> None:
    """A worker whose server process was killed would keep the port: it stops as well."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def follow() -> None:
        wait_for_process([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="follow-parent", daemon=True).start()


lifespan = Lifespan()
