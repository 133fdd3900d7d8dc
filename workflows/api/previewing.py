"""/api/workflow/{id}/preview/{action}: what an operator's action would run again and what it would keep."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, text
from orchestrator.errors import Invalid, NotFound
from workflows.api.schemas import OBJECT_ANSWER
from workflows.api.workflows import run_id
from workflows.services import control
from workflows.wire import parse_uuid


class PreviewAction(View):
    """Nothing is changed and nothing is locked; what is refused here would be refused there."""

    permission = "view"

    @extend_schema(operation_id="preview_action", responses=OBJECT_ANSWER)
    def get(self, request: Request, workflow_id: str, action: str) -> Response:
        namespace, run = self.who.namespace, run_id(workflow_id)
        if action == "retry":
            return Response(_shown(control.preview_retry(namespace, run)))
        if action == "restart":
            return Response(_shown(control.preview_restart(namespace, run)))
        if action == "rerun":
            shown = text(request, "reRunFromTaskId")
            task_id = parse_uuid(shown)
            if task_id is None:
                raise Invalid(problems=[("reRunFromTaskId", f"expected the id of a task, got {shown!r}")])
            return Response(_shown(control.preview_rerun(namespace, run, task_id)))
        raise NotFound(f"There is no preview of {action!r}; there are retry, rerun and restart")


def _shown(preview: control.Preview) -> dict[str, Any]:
    names = {"workflow_id": "workflowId", "runs_again": "runsAgain"}
    found = {names.get(name, name): value for name, value in asdict(preview).items()}
    return {
        name: str(value) if name == "workflowId" else [str(item) for item in value] for name, value in found.items()
    }
