"""The native routes: paths answered on the event loop itself, without a thread or Django's middleware.

A route's path may hold `{name}` segments. A path or method that is not in the table is Django's.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import orjson

from orchestrator.runtime.metrics import CONTENT_TYPE, HTTP_REQUESTS, render
from orchestrator.web.body import BodyTooLarge, read
from orchestrator.web.health import check_health
from orchestrator.web.lifespan import Message, Receive, Send

logger = logging.getLogger(__name__)


class ClientLeft(Exception):
    """The client went away before its request was whole."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a native handler sees; `receive` also tells when the client leaves (`http.disconnect`)."""

    scope: Message
    receive: Receive
    params: dict[str, str] = field(default_factory=dict)

    def header(self, name: str) -> str | None:
        """The first header of this name, or None."""
        wanted = name.lower().encode("latin-1")
        return next((v.decode("latin-1") for k, v in self.scope["headers"] if k.lower() == wanted), None)

    def query(self) -> dict[str, list[str]]:
        return parse_qs(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)

    async def body(self) -> bytes:
        """The whole body; raises ClientLeft or BodyTooLarge."""
        found = await read(self.receive)
        if found is None:
            raise ClientLeft
        return found


@dataclass(frozen=True, slots=True)
class Response:
    """A native answer, sent whole."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @classmethod
    def json(cls, value: Any, status: int = 200) -> Response:
        return cls(status, orjson.dumps(value))


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """One entry of the table; `permission` names what the caller must hold, None means open to all.

    A request that `accepts` declines is Django's to answer.
    """

    method: str
    path: str
    handler: Handler
    permission: str | None = None
    accepts: Callable[[Request], bool] | None = None


class Router:
    """The table of native routes."""

    def __init__(self) -> None:
        self.routes: list[Route] = []
        self._exact: dict[tuple[str, str], Route] = {}
        self._patterns: dict[tuple[str, int], list[tuple[tuple[str, ...], Route]]] = {}

    def add(self, route: Route) -> None:
        """Put a route into the table; one of the same method and path is an error."""
        if any((r.method, r.path) == (route.method, route.path) for r in self.routes):
            raise ValueError(f"{route.method} {route.path} is routed twice")
        self.routes.append(route)
        if "{" not in route.path:
            self._exact[route.method, route.path] = route
            return
        segments = tuple(route.path.split("/"))
        self._patterns.setdefault((route.method, len(segments)), []).append((segments, route))

    def match(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route and its parameters, or None when Django answers."""
        method = "GET" if method == "HEAD" else method
        exact = self._exact.get((method, path))
        if exact is not None:
            return exact, {}
        given = path.split("/")
        for segments, route in self._patterns.get((method, len(given)), ()):
            params = _compare(segments, given)
            if params is not None:
                return route, params
        return None

    async def answer(self, route: Route, params: dict[str, str], scope: Message, receive: Receive, send: Send) -> None:
        """Run the handler and send its answer; an unexpected error is 500, a client that left gets none."""
        try:
            response = await route.handler(Request(scope, receive, params))
        except ClientLeft:
            return
        except BodyTooLarge:
            response = Response(413, b"request body too large", "text/plain")
        except Exception:
            logger.exception("%s %s failed", route.method, route.path)
            response = Response.json({"status": 500, "message": "Internal error."}, 500)
        HTTP_REQUESTS.labels(scope["method"], response.status).inc()
        headers = [
            (b"content-type", response.content_type.encode("latin-1")),
            (b"content-length", str(len(response.body)).encode()),
            *response.headers,
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else response.body})


def _compare(segments: tuple[str, ...], given: list[str]) -> dict[str, str] | None:
    params: dict[str, str] = {}
    for expected, actual in zip(segments, given, strict=True):
        if expected.startswith("{"):
            if not actual:
                return None
            params[expected[1:-1]] = actual
        elif expected != actual:
            return None
    return params


async def health(request: Request) -> Response:
    """200 when the whole system is up, else 503 with the state of each part."""
    problems = await check_health()
    if problems:
        return Response.json({"healthy": False, "problems": problems}, 503)
    return Response.json({"healthy": True})


async def metrics(request: Request) -> Response:
    """Prometheus text."""
    return Response(200, render(), CONTENT_TYPE)


router = Router()
router.add(Route("GET", "/health", health))
router.add(Route("GET", "/api/health", health))
router.add(Route("GET", "/metrics", metrics))
