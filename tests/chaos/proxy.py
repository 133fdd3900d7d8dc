"""A TCP proxy in front of PostgreSQL that cuts connections where it hurts."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass
from enum import Enum
from types import TracebackType

_COMMIT = b"COMMIT\0"


class Cut(Enum):
    """What happens to a connection."""

    NOW = "every connection, at once"
    STATEMENT = "the next one that sends anything: the server gets it, the answer is not waited for"
    COMMIT = "the next one that commits: the server never hears of it"
    ANSWER = "the next one that commits: the server has committed, the client never hears of it"


@dataclass(eq=False)
class _Link:
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    answer_is_lost: bool = False

    def abort(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()


class Proxy:
    """Listens on loopback in a thread of its own, passes everything on to a Unix socket; a context manager."""

    def __init__(self, socket_path: str) -> None:
        self.socket_path = socket_path
        self.port = 0
        self.cuts = 0
        self._links: set[_Link] = set()
        self._armed: list[Cut] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def url(self, dbname: str) -> str:
        """The database through this proxy."""
        return f"postgresql://ostinato@127.0.0.1:{self.port}/{dbname}?sslmode=disable"

    def cut(self, kind: Cut) -> None:
        """Cut now, or set the trap for the next statement or commit."""
        self._loop.call_soon_threadsafe(self._cut_now if kind is Cut.NOW else lambda: self._armed.append(kind))

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(self._end())

    async def _end(self) -> None:
        """Leave no connection and no task behind."""
        self._cut_now()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _cut_now(self) -> None:
        for link in list(self._links):
            self._cut(link)

    def _cut(self, link: _Link) -> None:
        self.cuts += 1
        link.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, server = await asyncio.open_unix_connection(self.socket_path)
        except OSError:  # the server is down
            writer.transport.abort()
            return
        link = _Link(writer, server)
        self._links.add(link)
        try:
            await asyncio.gather(self._ask(link, reader), self._answer(link, upstream))
        finally:
            self._links.discard(link)

    async def _ask(self, link: _Link, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                trap = self._trap_for(data)
                if trap is Cut.COMMIT:
                    self._cut(link)
                    return
                link.answer_is_lost = trap is Cut.ANSWER
                link.server.write(data)
                await link.server.drain()
                if trap is Cut.STATEMENT:
                    link.server.close()
                    self._cut(link)
        link.server.close()

    def _trap_for(self, data: bytes) -> Cut | None:
        if not self._armed or (self._armed[0] is not Cut.STATEMENT and _COMMIT not in data):
            return None
        return self._armed.pop(0)

    async def _answer(self, link: _Link, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if link.answer_is_lost:
                    self._cut(link)
                    return
                link.client.write(data)
                await link.client.drain()
        link.client.close()
