"""/api/token and /api/keys: how a client proves who it is."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator import access
from orchestrator.api.views import View, body_object, empty
from orchestrator.db.ids import parse_id
from orchestrator.errors import Invalid, InvalidToken, NotFound
from orchestrator.managers import StoredKey
from orchestrator.services import keys
from orchestrator.services.keys import KeyRequest

_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": {}}
BODY = {"application/json": _OBJECT}
ANSWER = {(200, "application/json"): _OBJECT}
ANSWERS = {(200, "application/json"): {"type": "array", "items": _OBJECT}}


def key_json(key: StoredKey, secret: str | None = None) -> dict[str, Any]:
    """A key; with its secret only where it was just made."""
    found: dict[str, Any] = {
        "id": str(key.id), "name": key.name, "namespace": key.namespace, "state": key.state,
        "permissions": key.permissions, "queues": key.queues, "createdBy": key.created_by,
    }  # fmt: skip
    moments = {
        "createTime": key.created_at, "expiresAt": key.expires_at, "revokedAt": key.revoked_at, "lastUsedAt": key.last_used_at,
    }  # fmt: skip
    found |= {name: int(moment.timestamp() * 1000) for name, moment in moments.items() if moment is not None}
    return found | ({"secret": secret} if secret else {})


class Token(View):
    """Exchange an API key for a token. The open demo has no use for one: 404 tells clients to go on without."""

    authentication_classes: list[type] = []
    permission_classes: list[type] = []
    permission = "open"

    @extend_schema(operation_id="create_token", request=BODY, responses=ANSWER)
    def post(self, request: Request) -> Response:
        given = body_object(request)
        wrong = [name for name in ("keyId", "keySecret") if not isinstance(given.get(name), str) or not given[name]]
        if wrong:
            raise Invalid(problems=[(name, f"expected a text, got {given.get(name)!r:.40}") for name in wrong])
        tried_from = access.tried_from(request.META.get("REMOTE_ADDR"), request.headers)
        try:
            token = keys.exchange(given["keyId"], given["keySecret"], tried_from)
        except InvalidToken:
            if tried_from is None:
                raise NotFound("This server is an open demo: call it without a token.") from None
            raise
        return Response({"token": token})


class UserInfo(View):
    """Who the caller is."""

    permission = "view"

    @extend_schema(operation_id="get_user_info", responses=ANSWER)
    def get(self, request: Request) -> Response:
        who = self.who
        return Response({
            "id": who.name, "name": who.name, "namespace": who.namespace, "permissions": sorted(who.permissions),
            "queues": list(who.queues),
        })  # fmt: skip


class Keys(View):
    """Make and list API keys of the caller's namespace."""

    permission = "admin"

    @extend_schema(operation_id="create_key", request=BODY, responses=ANSWER)
    def post(self, request: Request) -> Response:
        given = body_object(request)
        wanted = KeyRequest(
            self.who.namespace,
            _text(given, "name"),
            _texts(given, "permissions"),
            _texts(given, "queues"),
            _seconds(given, "expiresInSeconds"),
        )
        return Response(key_json(*keys.create(wanted, actor=self.who.name, granted=self.who.permissions)))

    @extend_schema(operation_id="list_keys", responses=ANSWERS)
    def get(self, request: Request) -> Response:
        return Response([key_json(key) for key in keys.find_all(self.who.namespace)])


class Key(View):
    """One API key; DELETE revokes it."""

    permission = "admin"

    @extend_schema(operation_id="get_key", responses=ANSWER)
    def get(self, request: Request, key_id: str) -> Response:
        return Response(key_json(keys.get(self.who.namespace, parse_id(key_id))))

    @extend_schema(operation_id="revoke_key", responses={200: None})
    def delete(self, request: Request, key_id: str) -> HttpResponse:
        keys.revoke(self.who.namespace, parse_id(key_id), actor=self.who.name)
        return empty()


class RotateKey(View):
    """A new secret for a key; the old one works on for `graceSeconds`."""

    permission = "admin"

    @extend_schema(operation_id="rotate_key", request=BODY, responses=ANSWER)
    def post(self, request: Request, key_id: str) -> Response:
        grace = _seconds(body_object(request), "graceSeconds") or 0
        return Response(
            key_json(*keys.rotate(self.who.namespace, parse_id(key_id), actor=self.who.name, grace_seconds=grace))
        )


def _text(given: dict[str, Any], name: str) -> str:
    if not isinstance(given.get(name), str):
        raise Invalid(problems=[(name, f"expected a text, got {given.get(name)!r:.40}")])
    return str(given[name])


def _texts(given: dict[str, Any], name: str) -> tuple[str, ...]:
    found = given.get(name) or []
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise Invalid(problems=[(name, f"expected a list of texts, got {found!r:.40}")])
    return tuple(found)


def _seconds(given: dict[str, Any], name: str) -> int | None:
    found = given.get(name)
    if found is not None and type(found) is not int:
        raise Invalid(problems=[(name, f"expected whole seconds, got {found!r:.40}")])
    return found
