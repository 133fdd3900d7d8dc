"""The live history of a run: `/ws/executions/{id}/?after=seq`.

The database is the truth: events are read by cursor in seq order, so none is lost, repeated or reordered,
whatever happens to notifications. A notification only shortens the wait before the next read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qs
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth import get_user_model
from django.db import DatabaseError, close_old_connections

from orchestrator.db import json
from orchestrator.db.hints import HISTORY
from orchestrator.runtime.listener import Fanout
from orchestrator.web.lifespan import lifespan
from workflows.managers.history import Event
from workflows.ops.access import Verdict, may_view
from workflows.services.history import Page, namespace_of, read_after

T = TypeVar("T")
logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
RECHECK_SECONDS = 60.0
FINISHED = 1000
RESTARTING = 1012
LOG_IN, FORBIDDEN, NOT_FOUND = 4401, 4403, 4404

fanout = Fanout(HISTORY)
lifespan.on_release(fanout.ring_all)
# Not Channels' thread, which all consumers of the process share: reads here would queue behind each other.
_readers = ThreadPoolExecutor(4, thread_name_prefix="history")


class HistoryConsumer(AsyncWebsocketConsumer):
    """Sends a run's events from `after` on, and closes with 1000 once it has ended and all are sent."""

    async def connect(self) -> None:
        """Authorise before accepting: 4401 log in, 4403 forbidden, 4404 no such run."""
        self._follow: asyncio.Task[None] | None = None
        self.workflow_id: UUID = self.scope["url_route"]["kwargs"]["workflow_id"]
        refusal = await _in_thread(lambda: _refusal(self.scope, self.workflow_id))
        if refusal is not None:
            await self.close(code=refusal)
            return
        await self.accept()
        self._follow = asyncio.create_task(self._run(_after(self.scope)))

    async def disconnect(self, code: int) -> None:
        if self._follow is not None and self._follow is not asyncio.current_task():
            self._follow.cancel()
            with suppress(asyncio.CancelledError):
                await self._follow

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing is expected from the reader."""

    async def _run(self, after: int) -> None:
        try:
            code = await self._send_history(after)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("the live history of %s broke off", self.workflow_id)
            code = 1011
        with suppress(Exception):
            await self.close(code=code)

    async def _send_history(self, after: int) -> int:
        """Follow the run; returns the code to close with. Sending waits for a slow reader, and reads no further."""
        checked = time.monotonic()
        with fanout.bell(str(self.workflow_id)) as bell:
            while not lifespan.releasing:
                page = await self._read(after)
                for event in page.events:
                    await self.send(text_data=_frame(event))
                    after = event.seq
                if page.finished:
                    return FINISHED
                if time.monotonic() - checked > RECHECK_SECONDS:
                    checked = time.monotonic()
                    refusal = await _in_thread(lambda: _refusal(self.scope, self.workflow_id))
                    if refusal is not None:
                        return refusal
                if not page.events:
                    await bell.wait(POLL_SECONDS)
        return RESTARTING

    async def _read(self, after: int) -> Page:
        """The next events; a database that is away is asked again at the next poll."""
        try:
            return await _in_thread(lambda: read_after(self.workflow_id, after))
        except DatabaseError as error:
            logger.warning("the history of %s could not be read: %s", self.workflow_id, str(error).strip())
            return Page([], False)


def _frame(event: Event) -> str:
    return json.dumps(
        {
            "seq": event.seq,
            "type": event.type,
            "ref": event.ref,
            "task_id": event.task_id,
            "data": event.data,
            "at": event.at,
        }
    )


def _after(scope: Any) -> int:
    given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("after", ["0"])[0]
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0


def _refusal(scope: Any, workflow_id: UUID) -> int | None:
    """The code to refuse a reader with, or None. The user is read again, since rights may be taken away."""
    known = scope.get("user")
    user = None
    if known is not None and known.is_authenticated:
        user = get_user_model().objects.filter(pk=known.pk).first()
    address = (scope.get("client") or (None,))[0]
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
    verdict = may_view(user, address, headers)
    if verdict is not Verdict.YES:
        return LOG_IN if verdict is Verdict.LOG_IN else FORBIDDEN
    namespace = namespace_of(workflow_id)
    # A run of a namespace the reader may not enter is one that does not exist.
    hidden = namespace is not None and may_view(user, address, headers, namespace) is not Verdict.YES
    return NOT_FOUND if namespace is None or hidden else None


async def _in_thread(read: Callable[[], T]) -> T:
    def run() -> T:
        close_old_connections()
        try:
            return read()
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(_readers, run)
