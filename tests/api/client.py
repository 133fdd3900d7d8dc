"""Calls of the API through Django's test client, and the routes there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.views import View

METHODS = ("get", "post", "put", "patch", "delete")
UNKNOWN = "00000000-0000-7000-8000-000000000000"
"""An id that could be one of ours and is not."""
_VALUES = {"version": "1", "status": "COMPLETED", "workflow_id": UNKNOWN, "task_id": UNKNOWN}


class Caller:
    """Sends JSON, or bytes as they are."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.client.generic(  # type: ignore[return-value]
            method.upper(), f"/api/{path}", raw, content_type="application/json", **headers
        )

    def json(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """The decoded answer, which must have this status and be JSON."""
        response = self(method, path, body)
        assert response.status_code == status, (method, path, response.status_code, response.content)
        assert response["Content-Type"] == "application/json"
        return json.loads(response.content)

    def text(self, method: str, path: str, body: Any = None) -> str:
        """The bare text of an answer."""
        response = self(method, path, body)
        assert response.status_code == 200, (method, path, response.status_code, response.content)
        assert response["Content-Type"].split(";")[0] == "text/plain"
        return response.content.decode()

    def empty(self, method: str, path: str, body: Any = None, status: int = 200) -> None:
        """Call for an answer without a body."""
        response = self(method, path, body)
        assert (response.status_code, response.content) == (status, b""), (method, path)

    def refused(self, method: str, path: str, body: Any = None, status: int = 400) -> dict[str, Any]:
        """Conductor's error body of a refusal."""
        found: dict[str, Any] = self.json(method, path, body, status)
        assert found["status"] == status
        assert {"code", "message", "instance", "retryable"} <= found.keys()
        return found


@pytest.fixture(name="api")
def demo_api(committed: None, settings: Any) -> Caller:
    """The demo on loopback, which may do everything; an exception in a view is an answer, as it is on a port."""
    settings.OSTINATO = {**settings.OSTINATO, "DEMO_OPEN": True}
    return Caller(Client(raise_request_exception=False))


def routes() -> Iterator[tuple[str, type[View]]]:
    """(pattern, view class) of everything below /api/, as the resolver has it."""
    yield from _walk("", get_resolver().url_patterns)


def _walk(prefix: str, patterns: Any) -> Iterator[tuple[str, type[View]]]:
    for found in patterns:
        path = prefix + str(found.pattern)
        if isinstance(found, URLResolver):
            yield from _walk(path, found.url_patterns)
        elif isinstance(found, URLPattern) and path.startswith("api/"):
            yield path.removeprefix("api/"), getattr(found.callback, "cls", None) or found.callback.view_class


def filled(pattern: str, **values: str) -> str:
    """A path of the pattern, with ids of nothing unless others are given."""
    parts = []
    for part in pattern.split("/"):
        if part.startswith("<"):
            name = part.strip("<>").split(":")[1]
            parts.append(values.get(name) or _VALUES.get(name) or "anything")
        else:
            parts.append(part)
    return "/".join(parts)


def methods(view: type[View]) -> list[str]:
    """The methods a view serves."""
    return [method for method in METHODS if hasattr(view, method)]


def calls(*wanted: str) -> list[tuple[str, str]]:
    """(method, pattern) of every route, or of those with these methods."""
    return [(m, pattern) for pattern, view in routes() for m in methods(view) if not wanted or m in wanted]
