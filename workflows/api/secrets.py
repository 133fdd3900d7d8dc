"""/api/secrets and /api/environment: what definitions may refer to. A secret is written and used, never read back."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api import load
from orchestrator.api.views import TextView, View, empty
from orchestrator.errors import Invalid
from orchestrator.services import environment, secrets, tagging
from workflows.api.schemas import EMPTY, IDS_ANSWER, LIST_ANSWER, OBJECT_ANSWER, TEXT_ANSWER
from workflows.api.tags import tag_json, tags_view
from workflows.services.secrets import usage

_VALUE = {"application/json": {"type": "string"}, "text/plain": {"type": "string"}}
_FLAG = {(200, "application/json"): {"type": "boolean"}}


def text_body(request: Request) -> str:
    """The body as a text: a JSON text, or under a JSON content type the inside of one, as some SDKs send it."""
    raw = request._request.body
    try:
        shown = raw.decode()
    except UnicodeDecodeError:
        raise Invalid(problems=[("body", "expected UTF-8")]) from None
    if not (request.content_type or "").startswith("application/json"):
        return shown
    for candidate in (raw, b'"' + raw + b'"'):
        try:
            found = load(candidate)
        except Invalid:
            continue
        if isinstance(found, str):
            return found
    return shown


class Names(View):
    """The names of the secrets; SDKs ask by POST."""

    permission = "define"

    @extend_schema(operation_id="list_secrets", responses=IDS_ANSWER)
    def get(self, request: Request) -> Response:
        return Response(secrets.names(self.who.namespace))

    @extend_schema(operation_id="list_secrets_by_post", request=None, responses=IDS_ANSWER)
    def post(self, request: Request) -> Response:
        return Response(secrets.names(self.who.namespace))


class NamesWithTags(View):
    """The names of the secrets with their tags."""

    permission = "define"

    @extend_schema(operation_id="list_secrets_with_tags", responses=LIST_ANSWER)
    def get(self, request: Request) -> Response:
        tags: dict[str, list[dict[str, Any]]] = {}
        for tag in tagging.find(self.who.namespace, "secret"):
            tags.setdefault(tag.name, []).append(tag_json(tag))
        return Response([{"name": name, "tags": tags.get(name, [])} for name in secrets.names(self.who.namespace)])


class Secret(View):
    """Set or forget a secret; there is no way to read one."""

    permission = "admin"
    parser_classes: list[type] = []

    @extend_schema(operation_id="put_secret", request=_VALUE, responses=EMPTY)
    def put(self, request: Request, name: str) -> HttpResponse:
        secrets.put(self.who.namespace, name, text_body(request), actor=self.who.name)
        return empty()

    @extend_schema(operation_id="delete_secret", responses=EMPTY)
    def delete(self, request: Request, name: str) -> HttpResponse:
        secrets.delete(self.who.namespace, name, actor=self.who.name)
        return empty()


class SecretExists(View):
    """Whether there is a secret of the name."""

    permission = "define"

    @extend_schema(operation_id="secret_exists", responses=_FLAG)
    def get(self, request: Request, name: str) -> Response:
        return Response(secrets.exists(self.who.namespace, name))


class SecretUsage(View):
    """The tasks of registered definitions that refer to a secret."""

    permission = "define"

    @extend_schema(operation_id="get_secret_usage", responses=LIST_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        secrets.get(self.who.namespace, name)
        return Response(
            [
                {"workflowName": use.name, "workflowVersion": use.version, "taskReferenceName": use.ref}
                for use in usage(self.who.namespace, name)
            ]
        )


SecretTags = tags_view("secret", secrets.get, "secret_tags")


class Environment(View):
    """The environment variables by name."""

    permission = "define"

    @extend_schema(operation_id="list_environment", responses=OBJECT_ANSWER)
    def get(self, request: Request) -> Response:
        return Response(environment.values([self.who.namespace]).get(self.who.namespace, {}))


class EnvironmentVariable(TextView):
    """One environment variable."""

    permission = "admin"
    permissions = {"get": "define"}
    parser_classes: list[type] = []

    @extend_schema(operation_id="get_environment_variable", responses=TEXT_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        return Response(environment.get(self.who.namespace, name))

    @extend_schema(operation_id="put_environment_variable", request=_VALUE, responses=EMPTY)
    def put(self, request: Request, name: str) -> HttpResponse:
        environment.put(self.who.namespace, name, text_body(request), actor=self.who.name)
        return empty()

    @extend_schema(operation_id="delete_environment_variable", responses=EMPTY)
    def delete(self, request: Request, name: str) -> HttpResponse:
        environment.delete(self.who.namespace, name, actor=self.who.name)
        return empty()
