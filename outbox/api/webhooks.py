"""/api/webhooks: addresses for deliveries from outside; and /api/webhook/{id}, where they come, open to all who prove them."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator import access
from orchestrator.api import load
from orchestrator.api.views import View, empty
from orchestrator.db.ids import parse_id
from orchestrator.errors import Invalid
from outbox.api.events import ANSWER, ANSWERS, EMPTY, OBJECT
from outbox.managers_webhooks import StoredWebhook
from outbox.services import webhooks


def webhook_json(found: StoredWebhook) -> dict[str, Any]:
    """A webhook and the path to send to; its verifier names secrets and holds none."""
    shown: dict[str, Any] = {
        "id": str(found.id), "name": found.name, "verifier": found.verifier, "path": f"/api/webhook/{found.id}",
        "createTime": int(found.created_at.timestamp() * 1000), "updateTime": int(found.updated_at.timestamp() * 1000),
    }  # fmt: skip
    more = {"deliveryHeader": found.delivery_header, "createdBy": found.created_by}
    return shown | {name: value for name, value in more.items() if value is not None}


class Webhooks(View):
    """Make and list webhooks."""

    permission = "define"

    @extend_schema(operation_id="create_webhook", request=OBJECT, responses=ANSWER)
    def post(self, request: Request) -> Response:
        return Response(webhook_json(webhooks.create(self.who.namespace, request.data, actor=self.who.name)))

    @extend_schema(operation_id="list_webhooks", responses=ANSWERS)
    def get(self, request: Request) -> Response:
        return Response([webhook_json(found) for found in webhooks.find_all(self.who.namespace)])


class Webhook(View):
    """One webhook."""

    permission = "define"

    @extend_schema(operation_id="get_webhook", responses=ANSWER)
    def get(self, request: Request, webhook_id: str) -> Response:
        return Response(webhook_json(webhooks.get(self.who.namespace, parse_id(webhook_id))))

    @extend_schema(operation_id="replace_webhook", request=OBJECT, responses=ANSWER)
    def put(self, request: Request, webhook_id: str) -> Response:
        found = webhooks.replace(self.who.namespace, parse_id(webhook_id), request.data, actor=self.who.name)
        return Response(webhook_json(found))

    @extend_schema(operation_id="delete_webhook", responses=EMPTY)
    def delete(self, request: Request, webhook_id: str) -> HttpResponse:
        webhooks.remove(self.who.namespace, parse_id(webhook_id), actor=self.who.name)
        return empty()


class Receive(View):
    """Deliver a JSON object to a webhook, proved as its verifier asks; open to all. Answers our id of the delivery."""

    authentication_classes: list[type] = []
    permission_classes: list[type] = []
    parser_classes: list[type] = []
    permission = "open"

    @extend_schema(operation_id="deliver_to_webhook", request=OBJECT, responses=ANSWER)
    def post(self, request: Request, webhook_id: str) -> Response:
        raw = request._request.body
        tried_from = access.tried_from(request.META.get("REMOTE_ADDR"), request.headers)
        admitted = webhooks.admit(parse_id(webhook_id), raw, request.headers, tried_from)
        payload = load(raw)
        if not isinstance(payload, dict):
            raise Invalid(problems=[("body", f"expected an object, got {type(payload).__name__}")])
        return Response({"id": str(webhooks.accept(admitted, payload))})
