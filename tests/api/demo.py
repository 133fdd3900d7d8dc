from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

Call = Callable[..., HttpResponse]


@pytest.fixture(name="call")
def demo_call(committed: None, settings: Any) -> Call:
    """A request from this machine in demo mode: call(method, path, body)."""
    settings.OSTINATO = {**settings.OSTINATO, "DEMO_OPEN": True}
    client = Client(raise_request_exception=False)

    def request(
        method: str, path: str, body: Any = None, raw: bytes | None = None, type_: str = "application/json"
    ) -> HttpResponse:
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        return client.generic(method, path, data, content_type=type_)

    return request
