"""The base of the API's views, and their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from orchestrator import access
from orchestrator.api import TextRenderer
from orchestrator.errors import Forbidden, Invalid


class View(APIView):
    """A view of the API; `permission` is what a caller needs, `permissions` what it needs instead for some methods."""

    permission: str | None = None
    permissions: Mapping[str, str] = {}
    lenient = False
    """Whether characters that cannot be stored are replaced in the body, rather than refused."""

    @property
    def who(self) -> access.Principal:
        """The caller."""
        caller = self.request.user
        assert isinstance(caller, access.Principal)
        return caller


class TextView(View):
    """A view whose answer is bare text."""

    renderer_classes = [TextRenderer]


def text(request: Request, name: str, default: str | None = None) -> str | None:
    """A query parameter; empty and `None` mean absent."""
    value = request.query_params.get(name)
    return default if value in (None, "", "None") else value


def flag(request: Request, name: str, default: bool = False) -> bool:
    """A boolean query parameter, in any case."""
    value = text(request, name)
    if value is None:
        return default
    if value.lower() in ("true", "1"):
        return True
    if value.lower() in ("false", "0"):
        return False
    raise Invalid(problems=[(name, f"expected true or false, got {value!r}")])


def number(request: Request, name: str, default: int, *, least: int = 0, most: int = 2**31 - 1) -> int:
    """A whole number among the query parameters."""
    value = text(request, name)
    if value is None:
        return default
    try:
        found = int(value)
    except ValueError:
        found = least - 1
    if found < least or found > most:
        raise Invalid(problems=[(name, f"expected a whole number from {least} to {most}, got {value!r:.40}")])
    return found


def body_object(request: Request, name: str = "body") -> dict[str, Any]:
    """The body as an object; no body is an empty one."""
    data = request.data
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise Invalid(problems=[(name, f"expected an object, got {type(data).__name__}")])
    return data


def body_list(request: Request, name: str = "body") -> list[Any]:
    """The body as a list."""
    if not isinstance(request.data, list):
        raise Invalid(problems=[(name, f"expected a list, got {type(request.data).__name__}")])
    return request.data


def empty(status: int = 200) -> HttpResponse:
    """An answer without a body."""
    response = HttpResponse(b"", status=status, content_type="application/json")
    response["Content-Length"] = "0"
    return response


def refuse_browser(request: Request) -> None:
    """Refuse a GET that acts where a page of any site could make a browser send it; programs may."""
    if access.credentials(request.headers) is None and ("Sec-Fetch-Site" in request.headers or request.COOKIES):
        raise Forbidden("A browser may not change anything by GET: use PUT, or an API key.")
