"""Searches of runs: summaries, or whole runs with `-v2`; by what the run is, or by what its tasks are."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, body_list, flag, number, text
from orchestrator.errors import Invalid
from workflows.api.schemas import HITS_ANSWER, IDS
from workflows.api.workflows import show_listed
from workflows.models import Execution
from workflows.services import reading
from workflows.services.searching import RUNS, TASKS, Found, Search, search
from workflows.wire import parse_uuid, present, workflow_json, workflow_summaries

_MOST = 1000


def search_parameters(request: Request) -> Search:
    """query, freeText, sort, start, size and cursor of a search."""
    return Search(
        text(request, "query") or "",
        text(request, "freeText") or "*",
        text(request, "sort") or "",
        number(request, "start", 0, most=1_000_000),
        number(request, "size", 100, most=5000),
        text(request, "cursor"),
    )


def hits_json(found: Found, hits: list[dict[str, Any]]) -> dict[str, Any]:
    """A page of hits; `nextCursor` where there are more."""
    return present({"totalHits": found.total, "results": hits, "nextCursor": found.cursor})


class SearchRuns(View):
    """Runs by their fields."""

    permission = "view"

    @extend_schema(operation_id="search_workflows", responses=HITS_ANSWER)
    def get(self, request: Request) -> Response:
        found = search(RUNS, self.who.namespace, search_parameters(request))
        return Response(hits_json(found, workflow_summaries(found.hits)))


class SearchWhole(View):
    """The same, answering the runs without their tasks."""

    permission = "view"

    @extend_schema(operation_id="search_whole_workflows", responses=HITS_ANSWER)
    def get(self, request: Request) -> Response:
        found = search(RUNS, self.who.namespace, search_parameters(request))
        return Response(hits_json(found, [_without_definition(run) for run in found.hits]))


class SearchByTasks(View):
    """Runs that have a task of the query."""

    permission = "view"

    @extend_schema(operation_id="search_workflows_by_tasks", responses=HITS_ANSWER)
    def get(self, request: Request) -> Response:
        found, runs = by_tasks(self, request)
        return Response(hits_json(found, workflow_summaries(runs)))


class SearchWholeByTasks(View):
    """The same, answering the runs without their tasks."""

    permission = "view"

    @extend_schema(operation_id="search_whole_workflows_by_tasks", responses=HITS_ANSWER)
    def get(self, request: Request) -> Response:
        found, runs = by_tasks(self, request)
        return Response(hits_json(found, [_without_definition(run) for run in runs]))


class BulkSearch(View):
    """Runs by their ids; those that are not there are named under `bulkErrorResults`."""

    permission = "view"

    @extend_schema(operation_id="bulk_search", request=IDS, responses=HITS_ANSWER)
    def post(self, request: Request) -> Response:
        shown = [str(item) for item in body_list(request)]
        if len(shown) > _MOST:
            raise Invalid(problems=[("body", f"expected at most {_MOST} ids, got {len(shown)}")])
        ids = {item: parse_uuid(item) for item in shown}
        runs = reading.runs_by_id({found for found in ids.values() if found is not None}, self.who.namespace)
        tasks = flag(request, "includeTasks", True)
        found = [show_listed(runs[key], tasks=tasks) for key in ids.values() if key in runs]
        errors = {item: f"No such workflow found by id: {item}" for item, key in ids.items() if key not in runs}
        return Response({"bulkErrorResults": errors, "bulkSuccessfulResults": found})


def by_tasks(self: View, request: Request) -> tuple[Found, list[Execution]]:
    """The runs of the tasks that a search finds, in its order, each once."""
    found = search(TASKS, self.who.namespace, search_parameters(request))
    runs = reading.runs_by_id({task.workflow_id for task in found.hits}, self.who.namespace)
    ids = dict.fromkeys(task.workflow_id for task in found.hits)
    return found, [runs[key] for key in ids if key in runs]


def _without_definition(run: Execution) -> dict[str, Any]:
    return workflow_json(run, None, None)
