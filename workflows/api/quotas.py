"""/api/quota: how many runs the caller's tenant may have at a time."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, body_object
from orchestrator.errors import Invalid
from workflows.api.schemas import OBJECT, OBJECT_ANSWER
from workflows.services import admission


class Quota(View):
    """The tenant's quota and what of it is used; null is no limit."""

    permission = "admin"

    @extend_schema(operation_id="get_quota", responses=OBJECT_ANSWER)
    def get(self, request: Request) -> Response:
        return Response(admission.get_quota(self.who.namespace))

    @extend_schema(operation_id="put_quota", request=OBJECT, responses=OBJECT_ANSWER)
    def put(self, request: Request) -> Response:
        given = body_object(request)
        if "maxConcurrentExecutions" not in given:
            raise Invalid(problems=[("maxConcurrentExecutions", "expected a whole number or null, got nothing")])
        return Response(admission.put_quota(self.who.namespace, given["maxConcurrentExecutions"]))
