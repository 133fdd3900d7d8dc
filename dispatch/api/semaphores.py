"""/api/semaphores: named permits that tasks of several definitions share, and who holds them."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from dispatch.services import limiting
from dispatch.services.limiting import SemaphoreView
from orchestrator.api.views import View, body_object, empty
from workflows.api.schemas import EMPTY, LIST_ANSWER, OBJECT, OBJECT_ANSWER
from workflows.wire import millis


def semaphore_json(view: SemaphoreView) -> dict[str, Any]:
    """A semaphore with its holders, oldest first, and the queues that are polled for it in vain."""
    found = view.semaphore
    return {
        "name": found.name, "permits": found.permits, "taken": found.taken, "description": found.description,
        "createTime": millis(found.created_at), "updateTime": millis(found.updated_at),
        "holders": [
            {
                "taskId": str(holder.task_id), "workflowInstanceId": str(holder.workflow_id), "permits": holder.permits,
                "queue": holder.queue, "workerId": holder.worker_id, "acquiredTime": millis(holder.acquired_at),
                "leaseExpiryTime": millis(holder.lease_expires_at) if holder.lease_expires_at else None,
            }
            for holder in view.holders
        ],
        "waiters": [
            {"queue": one.queue, "taskName": one.name, "tasks": one.ready, "askedTime": millis(one.asked_at)}
            for one in view.waiters
        ],
    }  # fmt: skip


class Semaphores(View):
    """Every semaphore of the namespace."""

    permission = "view"

    @extend_schema(operation_id="list_semaphores", responses=LIST_ANSWER)
    def get(self, request: Request) -> Response:
        return Response([semaphore_json(found) for found in limiting.find_semaphores(self.who.namespace)])


class Semaphore(View):
    """One semaphore: read it with its holders, make it or change its permits, remove it."""

    permission = "define"

    @extend_schema(operation_id="get_semaphore", responses=OBJECT_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        return Response(semaphore_json(limiting.get_semaphore(self.who.namespace, name)))

    @extend_schema(operation_id="put_semaphore", request=OBJECT, responses=EMPTY)
    def put(self, request: Request, name: str) -> HttpResponse:
        given = body_object(request)
        limiting.put_semaphore(self.who.namespace, name, given.get("permits"), given.get("description"))
        return empty()

    @extend_schema(operation_id="delete_semaphore", responses=EMPTY)
    def delete(self, request: Request, name: str) -> HttpResponse:
        limiting.delete_semaphore(self.who.namespace, name)
        return empty()
