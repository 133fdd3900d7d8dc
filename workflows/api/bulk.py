"""/api/workflow/bulk: one action on up to a thousand runs, with a result for each."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, body_list, flag, text
from orchestrator.errors import Invalid
from workflows.api.schemas import BULK_ANSWER, IDS
from workflows.services import control
from workflows.services.evaluation import evaluate_eagerly
from workflows.wire import parse_uuid

_MOST = 1000


def bulk_view(action: str, method: str, operation: str | None = None) -> type[View]:
    """The view of one bulk action."""

    def handle(self: View, request: Request) -> Response:
        shown = [str(item) for item in body_list(request)]
        if len(shown) > _MOST:
            raise Invalid(problems=[("body", f"expected at most {_MOST} ids, got {len(shown)}")])
        ids = {found: item for item in shown if (found := parse_uuid(item)) is not None}
        errors = {item: f"No such workflow found by id: {item}" for item in shown if parse_uuid(item) is None}
        results = control.bulk(self.who.namespace, action, list(ids), actor=self.who.name, **_options(action, request))
        evaluate_eagerly(list(ids))
        errors |= {ids[item.workflow_id]: item.error.message for item in results if item.error is not None}
        done = [ids[item.workflow_id] for item in results if item.error is None]
        return Response(
            {"bulkErrorResults": errors, "bulkSuccessfulResults": done, "message": "Bulk Request has been processed."}
        )

    described = extend_schema(operation_id=f"bulk_{operation or action}", request=IDS, responses=BULK_ANSWER)(handle)
    fields = {"permission": "operate", "__doc__": f"Bulk {action}.", method: described}
    return type(f"Bulk{(operation or action).title().replace('_', '')}", (View,), fields)


def _options(action: str, request: Request) -> dict[str, Any]:
    if action == "restart":
        return {"use_latest_definitions": flag(request, "useLatestDefinitions")}
    if action in ("terminate", "terminate_remove"):
        return {"reason": text(request, "reason")}
    return {}


VIEWS = {
    "pause": bulk_view("pause", "put"),
    "resume": bulk_view("resume", "put"),
    "restart": bulk_view("restart", "post"),
    "retry": bulk_view("retry", "post"),
    "terminate": bulk_view("terminate", "post"),
    "remove": bulk_view("remove", "delete"),
    "delete": bulk_view("remove", "post", "delete"),
    "terminate-remove": bulk_view("terminate_remove", "delete"),
}
"""By the last segment of their path; SDKs know two names for the removal."""
