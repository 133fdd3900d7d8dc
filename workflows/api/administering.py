"""/api/admin: what the server is set to, and a push for a run that does not move."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import TextView, View
from orchestrator.conf import conf
from workflows.api.schemas import OBJECT_ANSWER, TEXT_ANSWER
from workflows.api.workflows import run_id
from workflows.services import control
from workflows.services.evaluation import evaluate_eagerly
from workflows.services.explaining import explain


class Config(View):
    """Numbers and switches of the settings; texts may be credentials and are left out."""

    permission = "admin"

    @extend_schema(operation_id="get_config", responses=OBJECT_ANSWER)
    def get(self, request: Request) -> Response:
        settings: dict[str, Any] = {field.name: getattr(conf(), field.name) for field in fields(conf())}
        return Response({name: value for name, value in settings.items() if isinstance(value, (bool, int, float))})


class Sweep(TextView):
    """Ask for a pass over a run; answers `true.<id>`."""

    permission = "operate"

    @extend_schema(operation_id="sweep_workflow", request=None, responses=TEXT_ANSWER)
    def post(self, request: Request, workflow_id: str) -> Response:
        control.nudge(self.who.namespace, run_id(workflow_id), actor=self.who.name)
        evaluate_eagerly([run_id(workflow_id)])
        return Response(f"true.{workflow_id}")


class VerifyAndRepair(TextView):
    """Look for what should not be, and ask for a pass if there is; answers whether there was."""

    permission = "operate"

    @extend_schema(operation_id="verify_workflow", request=None, responses=TEXT_ANSWER)
    def post(self, request: Request, workflow_id: str) -> Response:
        broken = bool(explain(self.who.namespace, run_id(workflow_id)).bugs)
        if broken:
            control.nudge(self.who.namespace, run_id(workflow_id), actor=self.who.name)
            evaluate_eagerly([run_id(workflow_id)])
        return Response("true" if broken else "false")
