"""HTTP: one request, its response as structured output, on failure too; guarded against reaching inside.

The guard sees the address of every connect (after name resolution, for each redirect), so what was checked is what
is connected to.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from typing import Any

import aiohttp

from dispatch.system_tasks.outcome import Outcome, awaiting, completed, failed
from orchestrator.conf import conf

_MOST_BYTES = 8 * 1024 * 1024
_RETRIABLE = frozenset({408, 425, 429})
_MOST_REDIRECTS = 5


class Refused(OSError):
    """The guard refused an address."""


def run_http_task(given: dict[str, Any]) -> Outcome:
    """Make the request; with `asyncComplete` in the input a good answer is not the end of the task."""
    elsewhere = given.get("asyncComplete")
    if elsewhere is not None and not isinstance(elsewhere, bool):
        return failed(f"asyncComplete: expected true or false, got {elsewhere!r:.40}", terminal=True)
    outcome = run_http(given)
    return awaiting(outcome.output) if elsewhere and outcome.status == "COMPLETED" else outcome


def run_http(given: dict[str, Any]) -> Outcome:
    """Make the request of `http_request`, or of the input itself; times are in milliseconds."""
    request = given.get("http_request") if isinstance(given.get("http_request"), dict) else given
    assert isinstance(request, dict)
    uri, method = request.get("uri"), str(request.get("method") or "GET").upper()
    if not isinstance(uri, str) or not uri.startswith(("http://", "https://")):
        return failed(f"uri: expected an http or https address, got {uri!r}", terminal=True)
    try:
        response = asyncio.run(_request(uri, method, request))
    except Refused as error:
        return failed(str(error), terminal=True)
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, Refused):
            return failed(str(error.os_error), terminal=True)
        return failed(f"{method} {uri} failed: {error}", terminal=False)
    except aiohttp.InvalidURL:
        return failed(f"uri: {uri!r} is not a valid address", terminal=True)
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        return failed(f"{method} {uri} failed: {str(error) or type(error).__name__}", terminal=False)
    status = response["statusCode"]
    if status < 400:
        return completed({"response": response})
    reason = f"{method} {uri} answered {status} {response['reasonPhrase']}"
    return failed(reason, {"response": response}, terminal=status < 500 and status not in _RETRIABLE)


async def _request(uri: str, method: str, request: dict[str, Any]) -> dict[str, Any]:
    connect = _seconds(request.get("connectionTimeOut"), 3.0)
    timeout = aiohttp.ClientTimeout(
        total=connect + _seconds(request.get("readTimeOut"), 3.0), sock_connect=connect
    )
    connector = aiohttp.TCPConnector(socket_factory=_guarded_socket)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session,
        session.request(
            method, uri, headers=_headers(request), data=_body(request), max_redirects=_MOST_REDIRECTS
        ) as response,
    ):
        raw = await response.content.read(_MOST_BYTES + 1)
        while len(raw) <= _MOST_BYTES and not response.content.at_eof():
            raw += await response.content.read(_MOST_BYTES + 1 - len(raw))
        if len(raw) > _MOST_BYTES:
            raise ValueError(f"the response is larger than {_MOST_BYTES} bytes")
        headers: dict[str, list[str]] = {}
        for name, value in response.headers.items():
            headers.setdefault(name, []).append(value)
        text = _decoded(raw, response.charset).replace("\x00", "\ufffd")
        return {
            "statusCode": response.status,
            "reasonPhrase": response.reason or "",
            "headers": headers,
            "body": _parsed(text),
        }


def _guarded_socket(address: tuple[Any, ...]) -> socket.socket:
    family, type_, protocol, _, where = address
    refuse_inside(str(where[0]))
    return socket.socket(family=family, type=type_, proto=protocol)


def refuse_inside(host: str) -> None:
    """Raise Refused for an address that is not on the public internet, unless the settings allow it."""
    if conf().HTTP_ALLOW_PRIVATE:
        return
    ip = ipaddress.ip_address(host.split("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped:
            ip = ip.ipv4_mapped
        elif ip in ipaddress.ip_network("64:ff9b::/96"):
            ip = ipaddress.ip_address(int(ip) & 0xFFFFFFFF)
        elif ip.sixtofour:
            ip = ip.sixtofour
    if not ip.is_global or ip.is_multicast or ip.is_reserved or getattr(ip, "is_site_local", False):
        raise Refused(f"the address {host} is not public; OSTINATO_HTTP_ALLOW_PRIVATE=true allows such requests")


def _headers(request: dict[str, Any]) -> dict[str, str]:
    accept = request.get("accept") or "application/json"
    headers = {"Accept": ", ".join(accept) if isinstance(accept, list) else str(accept)}
    if request.get("body") is not None:
        headers["Content-Type"] = str(request.get("contentType") or "application/json")
    given = request.get("headers")
    if isinstance(given, dict):
        for name, value in given.items():
            headers[str(name)] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return headers


def _body(request: dict[str, Any]) -> bytes | None:
    body = request.get("body")
    if body is None:
        return None
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _decoded(raw: bytes, charset: str | None) -> str:
    """An encoding nobody knows is read as UTF-8."""
    try:
        return raw.decode(charset or "utf-8", "replace")
    except LookupError:
        return raw.decode("utf-8", "replace")


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (dict, list)) or type(value) in (int, float) else text


def _seconds(milliseconds: Any, default: float) -> float:
    return milliseconds / 1000 if isinstance(milliseconds, (int, float)) and milliseconds > 0 else default
