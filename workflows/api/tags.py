"""Tags of definitions and schedules, under the paths that SDKs know; one tag or a list of them is taken alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, empty
from orchestrator.managers import StoredTag
from orchestrator.services import tagging
from workflows.api.schemas import EMPTY, LIST, LIST_ANSWER
from workflows.services import definitions, scheduling


def tag_json(tag: StoredTag) -> dict[str, Any]:
    """A tag as SDKs read it."""
    return {"type": "METADATA", "key": tag.key, "value": tag.value}


def tags_view(kind: str, exists: Callable[[str, str], Any], operation: str) -> type[View]:
    """The view of the tags of one kind of object; `exists(namespace, name)` raises NotFound."""

    @extend_schema(operation_id=f"list_{operation}", responses=LIST_ANSWER)
    def get(self: View, request: Request, name: str) -> Response:
        exists(self.who.namespace, name)
        return Response([tag_json(tag) for tag in tagging.find(self.who.namespace, kind, name)])

    def changing(method: str, change: Callable[..., None]) -> Any:
        @extend_schema(operation_id=f"{method}_{operation}", request=LIST, responses=EMPTY)
        def handle(self: View, request: Request, name: str) -> HttpResponse:
            exists(self.who.namespace, name)
            change(self.who.namespace, kind, name, tagging.read(request.data), actor=self.who.name)
            return empty()

        return handle

    fields = {
        "permission": "define",
        "permissions": {"get": "view"},
        "__doc__": f"Tags of a {kind}.",
        "get": get,
        "post": changing("add", tagging.add),
        "put": changing("set", tagging.replace),
        "delete": changing("remove", tagging.remove),
    }
    return type("".join(word.title() for word in operation.split("_")), (View,), fields)


WorkflowTags = tags_view("workflow", definitions.get, "workflow_tags")
WorkflowTagsByKind = tags_view("workflow", definitions.get, "tags_of_workflow")
TaskTags = tags_view("task", definitions.get_task, "task_tags")
ScheduleTags = tags_view("schedule", scheduling.get, "schedule_tags")


class AllTags(View):
    """Every tag of the namespace with the object it is on."""

    permission = "view"

    @extend_schema(operation_id="list_tags", responses=LIST_ANSWER)
    def get(self, request: Request) -> Response:
        return Response(
            [
                {**tag_json(tag), "objectType": tag.kind, "objectName": tag.name}
                for tag in tagging.find(self.who.namespace)
            ]
        )
