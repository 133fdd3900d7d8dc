"""/api/event: handlers, what they did, and events from outside."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, body_object, empty, flag, number, text
from orchestrator.db.ids import parse_id
from orchestrator.errors import Invalid
from orchestrator.masking import mask_inside
from outbox.managers_events import StoredEventExecution, StoredHandler
from outbox.services import events
from workflows.engine.masked_fields import FIELD, carried

_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": {}}
OBJECT = {"application/json": _OBJECT}
ANSWER = {(200, "application/json"): _OBJECT}
ANSWERS = {(200, "application/json"): {"type": "array", "items": _OBJECT}}
EMPTY = {200: None}


def handler_json(found: StoredHandler) -> dict[str, Any]:
    """A handler as it was registered."""
    return {"condition": "", **found.definition, "name": found.name, "event": found.event, "active": found.active}


def execution_json(found: StoredEventExecution) -> dict[str, Any]:
    """What an action came to."""
    given = {name: value for name, value in found.detail.items() if name != FIELD}
    return {
        "id": str(found.id), "name": found.handler, "event": found.event, "messageId": found.message_id,
        "position": found.position, "action": found.action, "status": found.status,
        "input": mask_inside(given, carried(found.detail)),
        "output": found.output or {}, "reason": found.reason, "created": int(found.created_at.timestamp() * 1000),
        "ended": int(found.ended_at.timestamp() * 1000) if found.ended_at else 0,
    }  # fmt: skip


class Handlers(View):
    """Register, replace and list event handlers."""

    permission = "define"

    @extend_schema(operation_id="register_event_handler", request=OBJECT, responses=EMPTY)
    def post(self, request: Request) -> HttpResponse:
        given = request.data  # one object; some clients send a list
        for handler in given if isinstance(given, list) else [given]:
            events.register(self.who.namespace, handler, created_by=self.who.name)
        return empty()

    @extend_schema(operation_id="replace_event_handler", request=OBJECT, responses=EMPTY)
    def put(self, request: Request) -> HttpResponse:
        events.replace(self.who.namespace, request.data)
        return empty()

    @extend_schema(operation_id="list_event_handlers", responses=ANSWERS)
    def get(self, request: Request) -> Response:
        return Response([handler_json(found) for found in events.find(self.who.namespace)])


class HandlersOf(View):
    """The handlers of an event; DELETE forgets a handler by its name."""

    permission = "define"

    @extend_schema(operation_id="list_event_handlers_of_event", responses=ANSWERS)
    def get(self, request: Request, name: str) -> Response:
        active_only = flag(request, "activeOnly", default=True)
        return Response([handler_json(f) for f in events.find(self.who.namespace, name, active_only=active_only)])

    @extend_schema(operation_id="delete_event_handler", responses=EMPTY)
    def delete(self, request: Request, name: str) -> HttpResponse:
        events.remove(self.who.namespace, name)
        return empty()


class Publish(View):
    """Publish an event: `event`, `payload`, and an `id` by which a message that comes twice is acted on once."""

    permission = "start"

    @extend_schema(operation_id="publish_event", request=OBJECT, responses=ANSWER)
    def post(self, request: Request) -> Response:
        given = body_object(request)
        problems = []
        if not isinstance(given.get("event"), str) or ":" not in given["event"]:
            problems.append(("event", f"expected provider:name, got {given.get('event')!r:.40}"))
        if not isinstance(given.get("payload", {}), dict):
            problems.append(("payload", f"expected an object, got {type(given['payload']).__name__}"))
        if not isinstance(given.get("id", ""), str) or len(given.get("id", "")) > 255:
            problems.append(("id", "expected a text of at most 255 characters"))
        if problems:
            raise Invalid(problems=problems)
        message_id = events.publish(
            self.who.namespace, given["event"], given.get("payload", {}), message_id=given.get("id")
        )
        return Response({"id": message_id})


class Executions(View):
    """What handlers did, newest first."""

    permission = "view"

    @extend_schema(operation_id="list_event_executions", responses=ANSWERS)
    def get(self, request: Request) -> Response:
        found = events.find_executions(
            self.who.namespace,
            event=text(request, "event"),
            handler=text(request, "handler"),
            batch=number(request, "size", 100, least=1, most=1000),
        )
        return Response([execution_json(one) for one in found])


class Replay(View):
    """Do again what a handler could not do; answers what has become of it."""

    permission = "operate"

    @extend_schema(operation_id="replay_event_execution", request=None, responses=ANSWER)
    def post(self, request: Request, execution_id: str) -> Response:
        return Response(execution_json(events.replay(self.who.namespace, parse_id(execution_id), actor=self.who.name)))
