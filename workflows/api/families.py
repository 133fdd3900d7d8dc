"""Runs that belong together: by correlation id, and by who started whom."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, body_list, body_object, flag
from orchestrator.errors import Invalid
from workflows.api.schemas import IDS, LIST_ANSWER, OBJECT, OBJECT_ANSWER
from workflows.api.workflows import run_id, show_listed
from workflows.services import reading
from workflows.wire import workflow_summaries

_MOST = 100
"""Correlation ids, and names, in one request."""


class Correlated(View):
    """Runs of a definition with a correlation id."""

    permission = "view"

    @extend_schema(operation_id="list_correlated_workflows", responses=LIST_ANSWER)
    def get(self, request: Request, name: str, correlation_id: str) -> Response:
        return Response(_correlated(self, request, [name], [correlation_id]).get(correlation_id, []))


class CorrelatedList(View):
    """Runs of a definition by correlation ids."""

    permission = "view"

    @extend_schema(operation_id="find_correlated_workflows", request=IDS, responses=OBJECT_ANSWER)
    def post(self, request: Request, name: str) -> Response:
        return Response(_correlated(self, request, [name], [str(key) for key in body_list(request)]))


class CorrelatedBatch(View):
    """Runs of several definitions by correlation ids."""

    permission = "view"

    @extend_schema(operation_id="find_correlated_workflows_of_many", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request) -> Response:
        given = body_object(request)
        names, ids = (_texts(given, name) for name in ("workflowNames", "correlationIds"))
        return Response(_correlated(self, request, names, ids))


class Family(View):
    """A run and every run below it, parents first; summaries with `summaryOnly`."""

    permission = "view"

    @extend_schema(operation_id="get_workflow_family", responses=LIST_ANSWER)
    def get(self, request: Request, workflow_id: str) -> Response:
        found = reading.family(self.who.namespace, run_id(workflow_id), workflow_id)
        if flag(request, "summaryOnly"):
            return Response(workflow_summaries(found))
        return Response([show_listed(run, tasks=True) for run in found])


def _correlated(self: View, request: Request, names: list[str], ids: list[str]) -> dict[str, Any]:
    closed, tasks = flag(request, "includeClosed"), flag(request, "includeTasks")
    found: dict[str, Any] = {}
    for key in dict.fromkeys(ids):
        runs = [
            run
            for name in dict.fromkeys(names)
            for run in reading.correlated(self.who.namespace, name, key, closed=closed)
        ]
        if runs:
            found[key] = [show_listed(run, tasks=tasks) for run in runs]
    return found


def _texts(given: dict[str, Any], name: str) -> list[str]:
    found = given.get(name)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found) or len(found) > _MOST:
        raise Invalid(problems=[(name, f"expected a list of at most {_MOST} texts, got {found!r:.40}")])
    return found
