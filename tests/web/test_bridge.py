"""The bridge from ASGI to Django's WSGI handler, and the native routes beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse

from orchestrator.web.lifespan import Lifespan, Message
from orchestrator.web.native import Request, Response, Route, Router
from orchestrator.web.wsgi_bridge import DjangoInThreads

View = Callable[[WSGIRequest], HttpResponseBase]


def handler(view: View) -> Callable[..., HttpResponseBase]:
    """What Django's WSGIHandler does around a view, without its middleware."""

    def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> HttpResponseBase:
        response = view(WSGIRequest(environ))
        start_response(f"{response.status_code} x", list(response.items()))
        return response

    return wsgi


def scope(method: str = "GET", path: str = "/x", headers: list[tuple[bytes, bytes]] | None = None) -> Message:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": b"q=1",
        "headers": headers or [],
        "client": ("10.0.0.1", 5),
        "server": ("127.0.0.1", 80),
    }


class Client:
    """One request: gives body chunks, keeps what is sent, and can leave."""

    def __init__(self, *chunks: bytes, leaves: bool = False) -> None:
        self.queue: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        self.arrived = asyncio.Event()
        for number, chunk in enumerate(chunks or (b"",)):
            more = leaves or number < len(chunks) - 1
            self.queue.put_nowait({"type": "http.request", "body": chunk, "more_body": more})
        if leaves:
            self.leave()

    def leave(self) -> None:
        self.queue.put_nowait({"type": "http.disconnect"})

    async def receive(self) -> Message:
        return await self.queue.get()

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.arrived.set()

    @property
    def body(self) -> bytes:
        return b"".join(m.get("body", b"") for m in self.sent if m["type"] == "http.response.body")

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])


def ask(view: View, *chunks: bytes, **options: Any) -> Client:
    async def run() -> Client:
        client = Client(*chunks)
        await DjangoInThreads(handler(view))(scope(**options), client.receive, client.send)
        return client

    return asyncio.run(run())


def test_a_chunked_body_without_length_arrives_whole() -> None:
    client = ask(lambda r: HttpResponse(r.body.upper()), b"ab", b"", b"cd", method="POST")
    assert client.body == b"ABCD"


def test_a_false_length_is_not_believed() -> None:
    client = ask(lambda r: HttpResponse(r.body), b"abcd", method="POST", headers=[(b"content-length", b"2")])
    assert client.body == b"abcd"


def test_a_large_body_is_spooled_whole() -> None:
    chunk = b"x" * 700_000
    client = ask(lambda r: HttpResponse(str(len(r.read()))), chunk, chunk, chunk, method="POST")
    assert client.body == b"2100000"


def test_a_body_cut_short_reaches_no_view() -> None:
    called = threading.Event()

    async def run() -> Client:
        client = Client(b"ab", leaves=True)
        view = lambda r: (called.set(), HttpResponse())[1]  # noqa: E731
        await DjangoInThreads(handler(view))(scope("POST"), client.receive, client.send)
        return client

    assert asyncio.run(run()).sent == []
    assert not called.is_set()


def test_head_has_headers_and_no_body() -> None:
    client = ask(lambda r: HttpResponse("abc", headers={"X-Y": "z"}), method="HEAD")
    assert client.body == b""
    assert (b"x-y", b"z") in client.sent[0]["headers"]


def test_headers_are_joined_and_underscores_dropped() -> None:
    given = [(b"x-a", b"1"), (b"x-a", b"2"), (b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"x_a", b"forged")]
    client = ask(lambda r: HttpResponse(f"{r.headers['x-a']}|{r.META['HTTP_COOKIE']}"), headers=given)
    assert client.body == b"1,2|a=1; b=2"


def test_paths_may_hold_any_character() -> None:
    assert ask(lambda r: HttpResponse(r.path), path="/ä/ö").body.decode() == "/ä/ö"


def test_an_error_outside_the_views_is_500() -> None:
    def broken(request: WSGIRequest) -> HttpResponseBase:
        raise RuntimeError

    assert ask(broken).status == 500


def test_a_streamed_response_stays_in_one_thread() -> None:
    threads: set[int] = set()

    def chunks() -> Iterator[bytes]:
        for number in range(3):
            threads.add(threading.get_ident())
            yield str(number).encode()

    client = ask(lambda r: StreamingHttpResponse(chunks()))
    assert client.body == b"012"
    assert len(client.sent) == 5
    assert len(threads) == 1


def test_a_client_that_leaves_ends_the_stream() -> None:
    closed = threading.Event()

    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            closed.set()

    async def run() -> None:
        client = Client()
        asking = asyncio.ensure_future(
            DjangoInThreads(handler(lambda r: StreamingHttpResponse(endless())))(scope(), client.receive, client.send)
        )
        await client.arrived.wait()
        client.leave()
        await asyncio.wait_for(asking, 10)

    asyncio.run(run())
    assert closed.wait(10)


def test_beyond_the_bound_it_says_busy() -> None:
    async def run() -> int:
        client = Client()
        await DjangoInThreads(handler(lambda r: HttpResponse()), max_waiting=0)(scope(), client.receive, client.send)
        return client.status

    assert asyncio.run(run()) == 503


async def _echo(request: Request) -> Response:
    return Response.json({**request.params, "body": (await request.body()).decode(), "q": request.query()["q"]})


@pytest.fixture
def router() -> Router:
    router = Router()
    router.add(Route("POST", "/tasks/{type}/poll", _echo))
    router.add(Route("GET", "/plain", _echo))
    return router


def test_native_routes_match_method_and_segments(router: Router) -> None:
    found = router.match("POST", "/tasks/a/poll")
    assert found is not None
    assert found[1] == {"type": "a"}
    assert router.match("GET", "/tasks/a/poll") is None
    assert router.match("POST", "/tasks//poll") is None
    assert router.match("POST", "/tasks/a/b/poll") is None
    assert router.match("HEAD", "/plain") is not None


def test_a_route_stands_once_in_the_table(router: Router) -> None:
    with pytest.raises(ValueError, match="routed twice"):
        router.add(Route("GET", "/plain", _echo))


def test_native_handlers_get_whole_bodies(router: Router) -> None:
    async def run() -> Client:
        client = Client(b"a", b"b")
        found = router.match("POST", "/tasks/t/poll")
        assert found is not None
        await router.answer(*found, scope("POST"), client.receive, client.send)
        return client

    client = asyncio.run(run())
    assert client.status == 200
    assert orjson.loads(client.body) == {"type": "t", "body": "ab", "q": ["1"]}


def test_the_release_runs_once_before_the_shutdown() -> None:
    async def run() -> list[str]:
        order: list[str] = []
        span = Lifespan()
        span.on_release(lambda: order.append("release"))

        async def shutdown() -> None:
            order.append("shutdown")

        span.on_shutdown(shutdown)
        messages = iter([{"type": "lifespan.shutdown"}])

        async def receive() -> Message:
            return next(messages)

        async def send(message: Message) -> None:
            order.append(message["type"])

        span.release()
        await span({"type": "lifespan"}, receive, send)
        return order

    assert asyncio.run(run()) == ["release", "shutdown", "lifespan.shutdown.complete"]
