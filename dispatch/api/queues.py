"""Queues as people and SDKs see them: sizes, polls, pending tasks, and ends of tasks by the old queue paths."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from dispatch.api.tasks import complete_ref, get_workable
from dispatch.services import dispatching
from dispatch.services.polling import queue_name
from orchestrator.api.views import TextView, View, body_object, empty, number, text
from orchestrator.errors import NotFound
from workflows.api.schemas import EMPTY, LIST_ANSWER, NUMBER_ANSWER, OBJECT, OBJECT_ANSWER, TEXT_ANSWER
from workflows.services import control, reading
from workflows.services.evaluation import evaluate_for_client
from workflows.wire import parse_uuid, task_json

_ENDS = ("COMPLETED", "FAILED")


class QueueSizes(View):
    """Waiting tasks of the named types."""

    permission = "view"

    @extend_schema(operation_id="get_queue_sizes", responses=OBJECT_ANSWER)
    def get(self, request: Request) -> Response:
        names = request.query_params.getlist("taskType")
        found = dispatching.queue_sizes(self.who.namespace, names)
        return Response({name: sum(found.get(name, (0, 0))[:1]) for name in names})


class QueueSize(View):
    """Waiting tasks of one type."""

    permission = "view"

    @extend_schema(operation_id="get_queue_size", responses=NUMBER_ANSWER)
    def get(self, request: Request) -> Response:
        name = queue_name(text(request, "taskType") or "", text(request, "domain"))
        return Response(dispatching.queue_sizes(self.who.namespace, [name]).get(name, (0, 0))[0])


class Queues(View):
    """Waiting tasks of every queue."""

    permission = "view"

    @extend_schema(operation_id="list_queues", responses=OBJECT_ANSWER)
    def get(self, request: Request) -> Response:
        return Response({name: waiting for name, (waiting, _) in dispatching.queue_sizes(self.who.namespace).items()})


class QueuesVerbose(View):
    """Waiting and leased tasks of every queue."""

    permission = "view"

    @extend_schema(operation_id="list_queues_verbose", responses=OBJECT_ANSWER)
    def get(self, request: Request) -> Response:
        found = dispatching.queue_sizes(self.who.namespace)
        return Response({name: {"a": {"size": waiting, "uacked": leased}} for name, (waiting, leased) in found.items()})


class PollData(View):
    """Who polled a queue last."""

    permission = "view"

    @extend_schema(operation_id="get_poll_data", responses=LIST_ANSWER)
    def get(self, request: Request) -> Response:
        return Response(poll_data(self.who.namespace, text(request, "taskType")))


class AllPollData(View):
    """Who polled any queue last."""

    permission = "view"

    @extend_schema(operation_id="list_poll_data", responses=LIST_ANSWER)
    def get(self, request: Request) -> Response:
        return Response(poll_data(self.who.namespace, None))


def poll_data(namespace: str, name: str | None) -> list[dict[str, Any]]:
    """Last polls as JSON."""
    found = []
    for queue, domain, worker, at in dispatching.read_polls(namespace, name):
        entry = {"queueName": queue, "workerId": worker, "lastPollTime": int(at.timestamp() * 1000)}
        found.append({**entry, "domain": domain} if domain else entry)
    return found


class Requeue(TextView):
    """Nothing is ever off its queue here; answers how many tasks wait."""

    permission = "operate"

    @extend_schema(operation_id="requeue_tasks", request=None, responses=TEXT_ANSWER)
    def post(self, request: Request, name: str) -> Response:
        return Response(dispatching.queue_sizes(self.who.namespace, [name]).get(name, (0, 0))[0])


class PendingTasks(View):
    """Tasks of a type that wait for a worker or are with one."""

    permission = "view"

    @extend_schema(operation_id="list_pending_tasks", responses=LIST_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        first, count = number(request, "start", 0, most=1_000_000), number(request, "count", 100, most=1000)
        tasks = reading.queued_tasks(self.who.namespace, name, first, count)
        runs = reading.runs_by_id({task.workflow_id for task in tasks})
        return Response([task_json(task, runs.get(task.workflow_id), None) for task in tasks])


class CompletionQueues(View):
    """The queues that end tasks: here a message to one ends its task at once."""

    permission = "view"

    @extend_schema(operation_id="list_completion_queues", responses=OBJECT_ANSWER)
    def get(self, request: Request) -> Response:
        return Response({status: f"ends tasks {status}" for status in _ENDS})


class CompletionQueueSizes(View):
    """Messages that wait to end a task: there never are any."""

    permission = "view"

    @extend_schema(operation_id="get_completion_queue_sizes", responses=OBJECT_ANSWER)
    def get(self, request: Request) -> Response:
        return Response(dict.fromkeys(_ENDS, 0))


class EndByRef(View):
    """End the open task of a reference with the body as its output."""

    permission = "work"
    lenient = True

    @extend_schema(operation_id="end_task_by_ref", request=OBJECT, responses=EMPTY)
    def post(self, request: Request, workflow_id: str, ref: str, status: str) -> HttpResponse:
        if complete_ref(self, request, workflow_id, ref, status) is None:
            raise NotFound(f"Found no running task {ref} of workflow {workflow_id}")
        return empty()


class EndById(View):
    """End an open task with the body as its output."""

    permission = "work"
    lenient = True

    @extend_schema(operation_id="end_task_by_id", request=OBJECT, responses=EMPTY)
    def post(self, request: Request, workflow_id: str, task_id: str, status: str) -> HttpResponse:
        task = get_workable(self.who, parse_uuid(task_id), task_id)
        if task.workflow_id != parse_uuid(workflow_id):
            raise NotFound(f"Task {task_id} is not one of workflow {workflow_id}")
        control.complete_task(
            self.who.namespace, task.workflow_id, task.ref, status, body_object(request, "output"), actor=self.who.name,
            iteration=task.iteration or None,
        )  # fmt: skip
        evaluate_for_client(task.workflow_id)
        return empty()
