"""/api/metadata: definitions."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, body_list, body_object, empty, flag, number, text
from orchestrator.errors import Invalid, OstinatoError
from workflows.api.schemas import BULK_ANSWER, EMPTY, HITS_ANSWER, IDS_ANSWER, LIST, LIST_ANSWER, OBJECT, OBJECT_ANSWER
from workflows.services import definitions
from workflows.services.comparing import compare_versions
from workflows.wire import definition_json, millis, task_definition_json


class WorkflowDefinitions(View):
    """Register, replace and list workflow definitions."""

    permission = "define"
    permissions = {"get": "view"}

    @extend_schema(operation_id="register_workflow", request=OBJECT, responses=EMPTY)
    def post(self, request: Request) -> HttpResponse:
        given = body_object(request)
        definitions.register(self.who.namespace, given, overwrite=flag(request, "overwrite"), created_by=self.who.name)
        return empty()

    @extend_schema(operation_id="replace_workflows", request=LIST, responses=BULK_ANSWER)
    def put(self, request: Request) -> Response:
        done, errors = [], {}
        for position, given in enumerate(body_list(request)):
            name = str(given.get("name") or f"[{position}]") if isinstance(given, dict) else f"[{position}]"
            try:
                definitions.register(self.who.namespace, given, overwrite=True, created_by=self.who.name)
            except OstinatoError as error:
                problems = "; ".join(f"{p}: {m}" for p, m in getattr(error, "problems", []))
                errors[name] = f"{error.message} {problems}".strip()
            else:
                done.append(name)
        if errors and not done:
            raise Invalid(problems=list(errors.items()))
        return Response(
            {"bulkErrorResults": errors, "bulkSuccessfulResults": done, "message": "Bulk Request has been processed."}
        )

    @extend_schema(operation_id="list_workflows", responses=LIST_ANSWER)
    def get(self, request: Request) -> Response:
        return Response([definition_json(found) for found in definitions.find(self.who.namespace)])


class ValidateDefinition(View):
    """Say what is wrong with a definition; nothing is stored."""

    permission = "define"

    @extend_schema(operation_id="validate_workflow", request=OBJECT, responses=EMPTY)
    def post(self, request: Request) -> HttpResponse:
        problems = definitions.check(self.who.namespace, request.data)
        if problems:
            raise Invalid(problems=problems)
        return empty()


class DefinitionDifference(View):
    """What one version of a definition changes in another."""

    permission = "view"

    @extend_schema(
        operation_id="compare_workflow_versions",
        parameters=[OpenApiParameter("from", int, required=True), OpenApiParameter("to", int, required=True)],
        responses=OBJECT_ANSWER,
    )
    def get(self, request: Request, name: str) -> Response:
        old, new = number(request, "from", 0), number(request, "to", 0)
        missing = [
            (key, "expected a version, a whole number from 1") for key, v in (("from", old), ("to", new)) if v < 1
        ]
        if missing:
            raise Invalid(problems=missing)
        return Response(compare_versions(self.who.namespace, name, old, new))


class LatestDefinitions(View):
    """The latest version of each definition."""

    permission = "view"

    @extend_schema(operation_id="list_latest_workflows", responses=LIST_ANSWER)
    def get(self, request: Request) -> Response:
        return Response([definition_json(found) for found in definitions.find_latest(self.who.namespace)])


class SearchDefinitions(View):
    """Pages of the latest version of each definition, by name; `freeText` is a part of the name in any case."""

    permission = "view"

    @extend_schema(
        operation_id="search_workflow_definitions",
        parameters=[OpenApiParameter("freeText", str), OpenApiParameter("start", int), OpenApiParameter("size", int)],
        responses=HITS_ANSWER,
    )
    def get(self, request: Request) -> Response:
        wanted = text(request, "freeText") or "*"
        found, total = definitions.find_page(
            self.who.namespace, "" if wanted == "*" else wanted, number(request, "start", 0),
            number(request, "size", 100, most=5000),
        )  # fmt: skip
        return Response({"totalHits": total, "results": [definition_json(stored) for stored in found]})


class DefinitionNames(View):
    """Names of definitions."""

    permission = "view"

    @extend_schema(operation_id="list_workflow_names", responses=IDS_ANSWER)
    def get(self, request: Request) -> Response:
        return Response(list(dict.fromkeys(name for name, *_ in definitions.find_versions(self.who.namespace))))


class DefinitionNamesAndVersions(View):
    """Names of definitions with their versions."""

    permission = "view"

    @extend_schema(operation_id="list_workflow_names_and_versions", responses=OBJECT_ANSWER)
    def get(self, request: Request) -> Response:
        found: dict[str, list[dict[str, Any]]] = {}
        for name, version, created_at, updated_at in definitions.find_versions(self.who.namespace):
            times = {"createTime": millis(created_at), "updateTime": millis(updated_at)}
            found.setdefault(name, []).append({"name": name, "version": version, **times})
        return Response(found)


class Definition(View):
    """One definition: a version of it, or the latest."""

    permission = "view"

    @extend_schema(operation_id="get_workflow_definition", responses=OBJECT_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        version = number(request, "version", 0) or None
        return Response(definition_json(definitions.get(self.who.namespace, name, version)))


class DefinitionVersions(View):
    """All versions of a definition."""

    permission = "view"

    @extend_schema(operation_id="list_workflow_versions", responses=LIST_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        return Response([definition_json(found) for found in definitions.find(self.who.namespace, name)])


class DefinitionVersion(View):
    """One version of a definition."""

    permission = "define"

    @extend_schema(operation_id="unregister_workflow", responses=EMPTY)
    def delete(self, request: Request, name: str, version: int) -> HttpResponse:
        definitions.unregister(self.who.namespace, name, version)
        return empty()


class TaskDefinitions(View):
    """Register, replace and list task definitions."""

    permission = "define"
    permissions = {"get": "view"}

    @extend_schema(operation_id="register_tasks", request=LIST, responses=EMPTY)
    def post(self, request: Request) -> HttpResponse:
        definitions.register_tasks(self.who.namespace, body_list(request))
        return empty()

    @extend_schema(operation_id="update_task_definition", request=OBJECT, responses=EMPTY)
    def put(self, request: Request) -> HttpResponse:
        definitions.update_task(self.who.namespace, body_object(request))
        return empty()

    @extend_schema(operation_id="list_task_definitions", responses=LIST_ANSWER)
    def get(self, request: Request) -> Response:
        return Response([task_definition_json(found) for found in definitions.find_tasks(self.who.namespace)])


class TaskDefinition(View):
    """One task definition."""

    permission = "define"
    permissions = {"get": "view"}

    @extend_schema(operation_id="get_task_definition", responses=OBJECT_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        return Response(task_definition_json(definitions.get_task(self.who.namespace, name)))

    @extend_schema(operation_id="unregister_task_definition", responses=EMPTY)
    def delete(self, request: Request, name: str) -> HttpResponse:
        definitions.unregister_task(self.who.namespace, name)
        return empty()
