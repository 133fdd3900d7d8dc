"""/api/workflow/{id}/explain: why a run is not moving."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View
from workflows.api.schemas import OBJECT_ANSWER
from workflows.api.workflows import run_id
from workflows.services.explaining import Reason, explain
from workflows.wire import millis, present


class Explain(View):
    """What a run waits for, in plain words, with what to do about it."""

    permission = "view"

    @extend_schema(operation_id="explain_workflow", responses=OBJECT_ANSWER)
    def get(self, request: Request, workflow_id: str) -> Response:
        found = explain(self.who.namespace, run_id(workflow_id))
        return Response(
            {
                "workflowId": str(found.workflow_id),
                "status": found.status,
                "at": millis(found.at),
                "reasons": [_reason(reason) for reason in found.reasons],
                "more": found.more,
            }
        )


def _reason(reason: Reason) -> dict[str, Any]:
    return present(
        {
            "code": reason.code.value,
            "message": reason.message,
            "action": reason.action,
            "bug": True if reason.code.is_bug else None,
            "taskReferenceName": reason.ref,
            "iteration": reason.iteration or None,
            "taskId": str(reason.task_id) if reason.task_id else None,
            "until": millis(reason.until) if reason.until else None,
            "relatedWorkflowId": str(reason.related) if reason.related else None,
            "timerId": str(reason.timer_id) if reason.timer_id else None,
            "eventId": str(reason.event_id) if reason.event_id else None,
        }
    )
