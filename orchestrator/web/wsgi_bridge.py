"""Django's WSGI handler under ASGI, in a bounded pool of threads.

Django's own ASGI handler costs ten times as much per request, and the adapters there are hand Django an
empty body for a chunked request. Here the body is read whole first and its measured length is given.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from django.http.response import HttpResponseBase

from orchestrator.runtime.metrics import HTTP_REQUESTS
from orchestrator.web.body import BodyTooLarge, spool
from orchestrator.web.lifespan import Message, Receive, Send

logger = logging.getLogger(__name__)

_WATCH_AFTER_SECONDS = 0.25
_NO_BODY = {204, 304}


class ClientGone(Exception):
    """The client left while its response was being sent."""


class Exchange:
    """One request on its way through a thread; `gone` is set when the client has left."""

    def __init__(self, send: Send, loop: asyncio.AbstractEventLoop) -> None:
        self._send = send
        self._loop = loop
        self.gone = False

    def push(self, message: Message) -> None:
        """Send from the worker thread and wait until it is sent: that is the back-pressure."""
        if self.gone:
            raise ClientGone
        try:
            asyncio.run_coroutine_threadsafe(self._deliver(message), self._loop).result()
        except ClientGone:
            raise
        except Exception as error:
            raise ClientGone from error

    async def _deliver(self, message: Message) -> None:
        # The server's send() answers with an awaitable that is not a coroutine.
        await self._send(message)


class DjangoInThreads:
    """ASGI application around Django's WSGI handler."""

    def __init__(self, handler: Callable[..., Any], threads: int = 8, max_waiting: int = 2000) -> None:
        self._handler = handler
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="django")
        self._max_waiting = max_waiting
        self._waiting = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if self._waiting >= self._max_waiting:
            await _plain(send, 503, b"busy", retry_after=True)
            return
        try:
            spooled = await spool(receive)
        except BodyTooLarge:
            await _plain(send, 413, b"request body too large")
            return
        if spooled is None:
            return
        body, size = spooled
        self._waiting += 1
        try:
            messages = await self._in_thread(environ(scope, body, size), receive, send)
        finally:
            self._waiting -= 1
            body.close()
        for message in messages:
            await send(message)

    async def _in_thread(self, env: dict[str, Any], receive: Receive, send: Send) -> list[Message]:
        """Run the handler; a short answer comes back as messages, a streamed one is sent from the thread."""
        loop = asyncio.get_running_loop()
        exchange = Exchange(send, loop)
        future = loop.run_in_executor(self._pool, self._run, env, exchange)
        await asyncio.wait({future}, timeout=_WATCH_AFTER_SECONDS)
        # Short requests never pay for the watch.
        watch = None if future.done() else asyncio.ensure_future(_watch(receive, exchange))
        try:
            return await future
        finally:
            if watch is not None:
                watch.cancel()

    def _run(self, env: dict[str, Any], exchange: Exchange) -> list[Message]:
        started: list[Message] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
            started.append({"type": "http.response.start", "status": int(status[:3]), "headers": encoded})

        try:
            response = self._handler(env, start_response)
        except Exception:
            logger.exception("Django's handler failed")
            return _messages(500, b"internal error")
        try:
            return self._answer(env["REQUEST_METHOD"], response, started[0], exchange)
        finally:
            response.close()

    def _answer(self, method: str, response: HttpResponseBase, start: Message, exchange: Exchange) -> list[Message]:
        HTTP_REQUESTS.labels(method, start["status"]).inc()
        if method == "HEAD" or start["status"] in _NO_BODY:
            return [start, {"type": "http.response.body", "body": b""}]
        if not response.streaming:
            return [start, {"type": "http.response.body", "body": b"".join(response)}]  # type: ignore[arg-type]
        try:
            exchange.push(start)
            for chunk in response:  # type: ignore[attr-defined]
                if chunk:
                    exchange.push({"type": "http.response.body", "body": bytes(chunk), "more_body": True})
            exchange.push({"type": "http.response.body", "body": b""})
        except ClientGone:
            logger.debug("the client left during a streamed response")
        return []

    async def close(self) -> None:
        """Wait for the requests in progress and end the threads."""
        await asyncio.to_thread(self._pool.shutdown)


async def _watch(receive: Receive, exchange: Exchange) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    exchange.gone = True


def environ(scope: Message, body: IO[bytes], size: int) -> dict[str, Any]:
    """The WSGI environment; the length is the measured one, never the header's."""
    host, port = (scope.get("server") or ("127.0.0.1", 80))[:2]
    client = scope.get("client") or ("", 0)
    root = scope.get("root_path", "")
    env: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": root.encode().decode("latin-1"),
        "PATH_INFO": scope["path"].removeprefix(root).encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": str(host),
        "SERVER_PORT": str(port or 80),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": str(client[0]),
        "REMOTE_PORT": str(client[1]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    _add_headers(env, scope["headers"])
    env["CONTENT_LENGTH"] = str(size)
    return env


def _add_headers(env: dict[str, Any], headers: list[tuple[bytes, bytes]]) -> None:
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if "_" in name:
            # HTTP_X_Y could be sent as x_y past a proxy that guards x-y.
            continue
        key = name.upper().replace("-", "_")
        key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
        if key in env:
            value = f"{env[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{value}"
        env[key] = value


def _messages(status: int, text: bytes, retry_after: bool = False) -> list[Message]:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(text)).encode())]
    if retry_after:
        headers.append((b"retry-after", b"1"))
    return [
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": text},
    ]


async def _plain(send: Send, status: int, text: bytes, retry_after: bool = False) -> None:
    for message in _messages(status, text, retry_after):
        await send(message)
