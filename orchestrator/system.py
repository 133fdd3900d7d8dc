"""/api/health and /api/version, where the native route in front of Django does not answer them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from orchestrator.api import TextRenderer
from orchestrator.db.sql import engine_connection


class Health(APIView):
    """Whether the database answers; open to all."""

    authentication_classes: list[type] = []
    permission_classes: list[type] = []
    permission = "open"

    @extend_schema(operation_id="health", responses={(200, "application/json"): {"type": "object"}})
    def get(self, request: Request) -> Response:
        with engine_connection().cursor() as cursor:
            cursor.execute("SELECT 1")
        return Response({"healthy": True})


class Version(APIView):
    """The version of the server; open to all."""

    authentication_classes: list[type] = []
    permission_classes: list[type] = []
    renderer_classes = [TextRenderer]
    permission = "open"

    @extend_schema(operation_id="version", responses={(200, "text/plain"): {"type": "string"}})
    def get(self, request: Request) -> Response:
        try:
            return Response(version("ostinato"))
        except PackageNotFoundError:
            return Response("development")
