"""What arrives together is done together; each caller still gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from dispatch.native.threads import in_thread

GATHER_SECONDS = 0.003
GATHER_MOST = 50
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Gatherer(Generic[Item, Answer]):
    """Collects items for a few milliseconds, or until there are enough, and applies them in one blocking call.

    `apply` answers each item, in order, with a value or with the exception that its caller is to get.
    """

    def __init__(self, apply: Callable[[Sequence[Item]], Sequence[Answer | Exception]]) -> None:
        self._apply = apply
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._runs: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Answer:
        """The answer to an item; raises what was wrong with it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((item, future))
        if len(self._waiting) >= GATHER_MOST:
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(GATHER_SECONDS, self._flush)
        return await future

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        if batch:
            run = asyncio.create_task(self._run(batch))
            self._runs.add(run)
            run.add_done_callback(self._runs.discard)

    async def _run(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        answers: Sequence[Answer | Exception]
        try:
            answers = await in_thread(self._apply, [item for item, _ in batch])
        except Exception as error:
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
