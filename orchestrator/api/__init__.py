"""The plumbing of the HTTP API: bodies in and out, who may call, and errors as Conductor's clients expect them."""

from __future__ import annotations

import re
import socket
from math import ceil
from typing import Any

import orjson
import structlog
from django.db import DatabaseError, DataError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.authentication import SessionAuthentication
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator import access
from orchestrator.db import json
from orchestrator.errors import Invalid, OstinatoError

log = structlog.get_logger(__name__)

STATUSES = {
    "NOT_FOUND": 404, "INVALID": 400, "CONFLICT": 409, "ILLEGAL_STATE": 409, "LEASE_LOST": 409, "IDEMPOTENCY_MISMATCH": 422,
    "START_IN_PROGRESS": 409, "FORBIDDEN": 403, "UNAUTHENTICATED": 401, "LIMIT_EXCEEDED": 429, "METHOD_NOT_ALLOWED": 405,
    "TOO_LARGE": 413, "INVALID_TOKEN": 401, "EXPIRED_TOKEN": 401, "PAYLOAD_LOST": 410, "STORE_UNAVAILABLE": 503,
}  # fmt: skip
_CODES = {405: "METHOD_NOT_ALLOWED", 403: "FORBIDDEN", 401: "UNAUTHENTICATED", 429: "LIMIT_EXCEEDED"}
"""For what Django REST framework refuses by itself."""
_INSTANCE = socket.gethostname()


class OrjsonRenderer(BaseRenderer):
    """JSON as it is stored: integers of any size, nothing added."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return b"" if data is None else dump(data)


class TextRenderer(BaseRenderer):
    """Bare text: Conductor's ids."""

    media_type = "text/plain"
    format = "txt"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return dump(data) if isinstance(data, dict) else str(data).encode()


def dump(data: Any) -> bytes:
    """JSON bytes of an answer."""
    try:
        return orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return json.dumps(data).encode()


class AnyJSONParser(BaseParser):
    """A JSON body under any content type; an empty one is no body."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        raw = stream.read()
        lenient = getattr((parser_context or {}).get("view"), "lenient", False)
        return load(raw, lenient=lenient) if raw.strip() else None


_SUSPECT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


def load(raw: bytes, *, lenient: bool = False) -> Any:
    """The value of a request body; raises Invalid with the position of a mistake.

    Characters that cannot be stored are refused, or replaced when `lenient`: a worker's result must not be lost.
    """
    try:
        value = json.loads(raw)
        if not _SUSPECT.search(raw):
            return value
        if lenient:
            return json.clean(value)
        json.dumps(value)
        return value
    except (ValueError, RecursionError) as error:
        position = f"line {getattr(error, 'lineno', '?')}, column {getattr(error, 'colno', '?')}"
        raise Invalid(f"The body is not valid JSON: {error} ({position}).") from None


class IgnoreAccept(BaseContentNegotiation):
    """What a view answers does not depend on the Accept header."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


class PrincipalAuthentication(SessionAuthentication):
    """An API key or its token, a staff session, or the demo on loopback."""

    def authenticate(self, request: Request) -> tuple[access.Principal, None] | None:
        raw = request._request
        user = getattr(raw, "user", None)
        found = access.principal(user, raw.META.get("REMOTE_ADDR"), raw.headers)
        if found is None:
            return None
        if access.credentials(raw.headers) is None and user is not None and user.is_authenticated:
            # A browser sends the session's cookie whoever wrote the page.
            self.enforce_csrf(request)
        return found, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class DeclaredPermission(BasePermission):
    """Every view declares the permission it needs; one that does not is closed."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if getattr(view, "permission", None) is None:
            return False
        needed = getattr(view, "permissions", {}).get((request.method or "").lower(), view.permission)
        access.require(request.user if isinstance(request.user, access.Principal) else None, needed)
        return True


def error_body(code: str, message: str, status: int, *, retryable: bool = False, problems: Any = ()) -> dict[str, Any]:
    """Conductor's error body."""
    body: dict[str, Any] = {
        "status": status, "code": code, "message": message, "instance": _INSTANCE, "retryable": retryable,
    }  # fmt: skip
    if status == 401:
        body["error"] = code  # where SDKs look for what a refresh of their token would mend
    if problems:
        body["validationErrors"] = [{"path": path, "message": text} for path, text in problems]
    return body


def error_response(error: Exception, context: Any) -> Response:
    """The answer to an exception; what is no refusal is logged and answered without its text."""
    refused = refusal(error)
    if refused is not None:
        return _response(refused, getattr(error, "retry_after", None))
    if isinstance(error, (Http404, exceptions.NotFound)):
        return _response(error_body("NOT_FOUND", "There is nothing at this path.", 404))
    if isinstance(error, exceptions.APIException):
        code = _CODES.get(error.status_code, "INVALID")
        body = error_body(code, str(error.detail), error.status_code, retryable=error.status_code == 429)
        return _response(body, getattr(error, "wait", None))
    log.exception("request_failed", view=type(context.get("view")).__name__ if context else None)
    return _response(error_body("INTERNAL_ERROR", "The server failed; the error is in its log.", 500, retryable=True))


def _is_unstorable(error: DatabaseError) -> bool:
    """Whether PostgreSQL, or psycopg before it is asked, refused a value: names of paths and queries come so far unchecked."""
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return isinstance(error, DataError) or state.startswith("22") or state == "54000"


def refusal(error: Exception) -> dict[str, Any] | None:
    """The body of a refusal, with its status in it; None for an error that is ours."""
    if isinstance(error, DatabaseError) and _is_unstorable(error):
        log.warning("value_refused", error=str(error)[:200])
        return error_body("INVALID", "A value cannot be stored: it is out of range, too long or has a NUL.", 400)
    if not isinstance(error, OstinatoError):
        return None
    status = STATUSES.get(error.code, 400)
    problems = error.problems if isinstance(error, Invalid) else ()
    message = error.message
    if problems:
        message += " " + "; ".join(f"{path}: {text}" for path, text in problems[:5])
    return error_body(error.code, message, status, retryable=error.retryable, problems=problems)


def _response(body: dict[str, Any], wait: float | None = None) -> Response:
    response = Response(body, status=body["status"], content_type="application/json")
    if body["status"] == 429:
        response["Retry-After"] = retry_after(wait)
    return response


def retry_after(seconds: float | None) -> str:
    """The header of this name."""
    return str(max(1, ceil(seconds or 0)))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404 for a path nobody serves: JSON below /api."""
    return _plain(request, error_body("NOT_FOUND", f"There is nothing at {request.path}.", 404))


def failed(request: HttpRequest) -> HttpResponse:
    """500: the error is in the log."""
    return _plain(request, error_body("INTERNAL_ERROR", "The server failed; the error is in its log.", 500))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400 for what Django itself refuses."""
    return _plain(request, error_body("INVALID", "The request is malformed or too large.", 400))


def _plain(request: HttpRequest, body: dict[str, Any]) -> HttpResponse:
    return HttpResponse(dump(body), status=body["status"], content_type="application/json")
