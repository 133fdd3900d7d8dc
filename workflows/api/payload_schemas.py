"""/api/schema: JSON Schemas that definitions name; `GET /api/schema` itself is the OpenAPI document of the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, empty, flag
from workflows.api.schemas import EMPTY, LIST, LIST_ANSWER, OBJECT_ANSWER
from workflows.managers.payload_schema import StoredSchema
from workflows.services import payload_schemas
from workflows.wire import millis, present

_DOCUMENT = SpectacularAPIView.as_view(authentication_classes=[], permission_classes=[])


def schema_json(stored: StoredSchema) -> dict[str, Any]:
    """A schema as SDKs read it."""
    return present(
        {
            "name": stored.name,
            "version": stored.version,
            "type": "JSON",
            "data": stored.data,
            "createTime": millis(stored.created_at),
            "createdBy": stored.created_by,
        }
    )


class SchemaRoot(View):
    """POST registers schemas: one, or a list of them. GET is the OpenAPI document, for anybody."""

    permission = "define"

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [] if self._reads() else super().get_authenticators()

    def get_permissions(self) -> Sequence[Any]:
        return [] if self._reads() else super().get_permissions()

    def _reads(self) -> bool:
        return self.request is not None and self.request.method == "GET"

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponseBase:
        return _DOCUMENT(request._request)

    @extend_schema(
        operation_id="register_schemas",
        parameters=[OpenApiParameter("newVersion", bool)],
        request=LIST,
        responses=LIST_ANSWER,
    )
    def post(self, request: Request) -> Response:
        given = request.data if isinstance(request.data, list) else [request.data]
        stored = payload_schemas.register(
            self.who.namespace, given, new_version=flag(request, "newVersion"), created_by=self.who.name
        )
        return Response([schema_json(one) for one in stored])


class Schemas(View):
    """Every version of every schema."""

    permission = "view"

    @extend_schema(operation_id="list_schemas", responses=LIST_ANSWER)
    def get(self, request: Request) -> Response:
        return Response([schema_json(stored) for stored in payload_schemas.find(self.who.namespace)])


class LatestSchema(View):
    """The latest version of a schema; DELETE forgets all of them."""

    permission = "define"
    permissions = {"get": "view"}

    @extend_schema(operation_id="get_latest_schema", responses=OBJECT_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        return Response(schema_json(payload_schemas.get(self.who.namespace, name)))

    @extend_schema(operation_id="unregister_schema", responses=EMPTY)
    def delete(self, request: Request, name: str) -> HttpResponse:
        payload_schemas.unregister(self.who.namespace, name)
        return empty()


class SchemaVersion(View):
    """One version of a schema."""

    permission = "define"
    permissions = {"get": "view"}

    @extend_schema(operation_id="get_schema_version", responses=OBJECT_ANSWER)
    def get(self, request: Request, name: str, version: int) -> Response:
        return Response(schema_json(payload_schemas.get(self.who.namespace, name, version)))

    @extend_schema(operation_id="unregister_schema_version", responses=EMPTY)
    def delete(self, request: Request, name: str, version: int) -> HttpResponse:
        payload_schemas.unregister(self.who.namespace, name, version)
        return empty()
