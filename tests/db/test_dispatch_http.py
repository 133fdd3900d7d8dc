"""The HTTP task: how answers and failures become outcomes, and where its requests may not go."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dispatch.system_tasks import http
from dispatch.system_tasks.http import Refused, refuse_inside, run_http


class Handler(BaseHTTPRequestHandler):
    """Answers what the path asks for, and tells what it got."""

    def log_message(self, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self._answer(200, json.dumps({"method": self.command, "body": body, "headers": dict(self.headers)}))

    def do_GET(self) -> None:
        what, _, rest = self.path.strip("/").partition("/")
        if what == "status":
            self._answer(int(rest), '{"why": "asked"}')
        elif what == "redirect":
            self.send_response(302)
            self.send_header("Location", "http://" + rest)
            self.end_headers()
        elif what == "again":
            self.send_response(302)
            self.send_header("Location", "/again")
            self.end_headers()
        elif what == "text":
            self._answer(200, "plain", "text/plain; charset=no-such-charset")
        elif what == "large":
            self._answer(200, "x" * (http._MOST_BYTES + 1))
        elif what == "hang":
            self.server.release.wait(10)  # type: ignore[attr-defined]
        else:
            self._answer(200, json.dumps({"path": self.path, "accept": self.headers["Accept"]}))

    do_PUT = do_POST

    def _answer(self, status: int, body: str, kind: str = "application/json") -> None:
        raw = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("X-Two", "1")
        self.send_header("X-Two", "2")
        self.end_headers()
        self.wfile.write(raw)


@pytest.fixture
def server() -> Iterator[str]:
    """host:port of a server on loopback."""
    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.release = threading.Event()  # type: ignore[attr-defined]
    found.daemon_threads = True
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{found.server_port}"
    found.release.set()  # type: ignore[attr-defined]
    found.shutdown()
    found.server_close()
    thread.join()


@pytest.fixture
def private(settings: Any) -> None:
    settings.OSTINATO = {**getattr(settings, "OSTINATO", {}), "HTTP_ALLOW_PRIVATE": True}


@pytest.fixture
def public_only(settings: Any) -> None:
    settings.OSTINATO = {**getattr(settings, "OSTINATO", {}), "HTTP_ALLOW_PRIVATE": False}


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("nested", [True, False])
def test_an_answer_is_structured_output(server: str, nested: bool) -> None:
    request = {"uri": f"http://{server}/some/path", "method": "get"}
    outcome = run_http({"http_request": request} if nested else request)
    assert outcome.status == "COMPLETED"
    response = outcome.output["response"]
    assert (response["statusCode"], response["reasonPhrase"]) == (200, "OK")
    assert response["body"] == {"path": "/some/path", "accept": "application/json"}
    assert response["headers"]["X-Two"] == ["1", "2"]


@pytest.mark.usefixtures("private")
def test_a_body_and_headers_are_sent(server: str) -> None:
    outcome = run_http(
        {"uri": f"http://{server}/", "method": "POST", "body": {"a": [1]}, "headers": {"X-Mine": "yes", "X-Number": 5}}
    )
    got = outcome.output["response"]["body"]
    assert json.loads(got["body"]) == {"a": [1]}
    assert got["headers"]["Content-Type"] == "application/json"
    assert (got["headers"]["X-Mine"], got["headers"]["X-Number"]) == ("yes", "5")


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize(
    ("status", "expected"),
    [(400, True), (401, True), (404, True), (422, True), (408, False), (425, False), (429, False), (500, False), (503, False)],
)  # fmt: skip
def test_failures_carry_the_response_and_only_some_are_tried_again(server: str, status: int, expected: bool) -> None:
    outcome = run_http({"uri": f"http://{server}/status/{status}"})
    assert outcome.status == ("FAILED_WITH_TERMINAL_ERROR" if expected else "FAILED")
    assert outcome.output["response"]["statusCode"] == status
    assert outcome.output["response"]["body"] == {"why": "asked"}
    assert str(status) in (outcome.reason or "")


@pytest.mark.usefixtures("private")
def test_nobody_listening_a_silent_server_and_too_much_are_failures_that_are_tried_again(server: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]
        assert run_http({"uri": f"http://127.0.0.1:{closed}/"}).status == "FAILED"
    silent = run_http({"uri": f"http://{server}/hang", "connectionTimeOut": 100, "readTimeOut": 100})
    assert silent.status == "FAILED" and silent.output == {}
    large = run_http({"uri": f"http://{server}/large"})
    assert large.status == "FAILED" and "larger than" in (large.reason or "")
    assert run_http({"uri": "http://no-such-name.invalid/"}).status == "FAILED"


@pytest.mark.usefixtures("private")
def test_an_unknown_charset_is_read_as_utf8(server: str) -> None:
    assert run_http({"uri": f"http://{server}/text"}).output["response"]["body"] == "plain"


@pytest.mark.parametrize("uri", [None, 5, "", "ftp://example.org/", "file:///etc/passwd", "example.org", "http://"])
def test_a_bad_address_is_not_tried_again(uri: Any) -> None:
    assert run_http({"uri": uri}).status == "FAILED_WITH_TERMINAL_ERROR"


INSIDE = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "192.0.2.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1",
    "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::", "2002:a00:1::", "2001:db8::1",
]  # fmt: skip


@pytest.mark.usefixtures("public_only")
@pytest.mark.parametrize("address", INSIDE)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    with pytest.raises(Refused, match="HTTP_ALLOW_PRIVATE"):
        refuse_inside(address)


@pytest.mark.usefixtures("public_only")
@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"])
def test_public_addresses_are_allowed(address: str) -> None:
    refuse_inside(address)


@pytest.mark.usefixtures("public_only")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0"]
)
def test_no_spelling_of_loopback_gets_through(server: str, host: str) -> None:
    port = server.rpartition(":")[2]
    outcome = run_http({"uri": f"http://{host}:{port}/"})
    assert outcome.status in ("FAILED_WITH_TERMINAL_ERROR", "FAILED")
    assert outcome.output == {}


@pytest.mark.usefixtures("public_only")
def test_a_refused_address_is_not_tried_again(server: str) -> None:
    outcome = run_http({"uri": f"http://{server}/"})
    assert outcome.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "not public" in (outcome.reason or "")


def test_every_redirect_passes_the_guard(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def guard(host: str) -> None:
        seen.append(host)
        if host != "127.0.0.1":
            raise Refused(f"the address {host} is not public")

    monkeypatch.setattr(http, "refuse_inside", guard)
    port = server.rpartition(":")[2]
    assert run_http({"uri": f"http://{server}/redirect/{server}/there"}).output["response"]["body"]["path"] == "/there"
    outcome = run_http({"uri": f"http://{server}/redirect/127.0.0.2:{port}/there"})
    assert outcome.status == "FAILED_WITH_TERMINAL_ERROR"
    assert seen[-1] == "127.0.0.2"


@pytest.mark.usefixtures("private")
def test_redirects_have_an_end(server: str) -> None:
    outcome = run_http({"uri": f"http://{server}/again"})
    assert outcome.status == "FAILED" and outcome.output == {}
