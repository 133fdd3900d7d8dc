"""/api/tasks: poll, update, look. What SDKs' workers call."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from dispatch.handing_out import open_all
from dispatch.services import dispatching
from dispatch.services.dispatching import TaskReport
from dispatch.services.polling import poll, queue_name
from orchestrator import access
from orchestrator.api.views import TextView, View, body_list, body_object, empty, number, text
from orchestrator.errors import Forbidden, Invalid, NotFound
from workflows import models
from workflows.api.schemas import (
    EMPTY,
    HITS_ANSWER,
    LIST,
    LIST_ANSWER,
    OBJECT,
    OBJECT_ANSWER,
    TEXT_ANSWER,
)  # fmt: skip
from workflows.api.searching import hits_json, search_parameters
from workflows.api.workflows import run_id, show
from workflows.managers.task import StartedTask
from workflows.services import control, reading
from workflows.services.evaluation import evaluate_eagerly, evaluate_for_client
from workflows.services.searching import TASKS, search
from workflows.wire import parse_uuid, started_json, task_json, task_summary

STATUSES = ("IN_PROGRESS", "COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "CANCELED")
MOST_LOGS = 100
MOST_BATCH = 1000
MOST_POLL_MILLIS = 30_000
MOST_SECONDS = 2**31 - 1


def handed_out(tasks: list[StartedTask], worker_id: str) -> list[dict[str, Any]]:
    """Leased tasks as JSON, with their secrets; one whose secret does not exist is ended and left out."""
    runs = reading.runs_by_id({task.workflow_id for task in tasks})
    tasks = open_all(tasks, runs)
    return [
        started_json(task, runs[task.workflow_id], reading.get_blueprint(runs[task.workflow_id]), worker_id)
        for task in tasks
    ]


def task_report(given: Any) -> TaskReport:
    """Conductor's TaskResult; raises Invalid for wrong types, NotFound for an id that is not one of ours."""
    if not isinstance(given, dict):
        raise Invalid(problems=[("body", f"expected an object, got {type(given).__name__}")])
    problems = [
        (name, f"expected an id, got {given.get(name)!r}")
        for name in ("taskId", "workflowInstanceId")
        if not isinstance(given.get(name), str) or not given[name]
    ]
    if given.get("status") not in STATUSES:
        problems.append(("status", f"expected one of {', '.join(STATUSES)}, got {given.get('status')!r}"))
    output = given.get("outputData")
    if output is not None and not isinstance(output, dict):
        problems.append(("outputData", f"expected an object, got {type(output).__name__}"))
    callback = given.get("callbackAfterSeconds") or 0
    if type(callback) not in (int, float) or not 0 <= callback <= MOST_SECONDS:
        problems.append(("callbackAfterSeconds", f"expected a number of seconds, got {callback!r}"))
    worker = given.get("workerId")
    if worker is not None and not isinstance(worker, str):
        problems.append(("workerId", f"expected a text, got {type(worker).__name__}"))
    token = given.get("leaseToken")
    if token and parse_uuid(token) is None:
        problems.append(("leaseToken", f"expected a token, got {token!r}"))
    if problems:
        raise Invalid(problems=problems)
    task_id, workflow_id = parse_uuid(given["taskId"]), parse_uuid(given["workflowInstanceId"])
    if task_id is None or workflow_id is None:
        raise NotFound(f"Task not found for taskId: {given['taskId']}")
    reason = given.get("reasonForIncompletion")
    return TaskReport(
        task_id,
        workflow_id,
        given["status"],
        lease_token=parse_uuid(token) if token else None,
        worker_id=given.get("workerId") or None,
        output=output,
        reason=None if reason is None else str(reason)[:500],
        callback_seconds=int(callback),
        logs=tuple(_logs(given.get("logs"))),
        extend=bool(given.get("extendLease")),
    )


def _logs(given: Any) -> list[tuple[str, datetime | None]]:
    entries = given[:MOST_LOGS] if isinstance(given, list) else []
    return [
        (str(entry["log"]), _moment(entry.get("createdTime")))
        for entry in entries
        if isinstance(entry, dict) and entry.get("log") is not None
    ]


def _moment(value: Any) -> datetime | None:
    """A client's time: milliseconds, or seconds from those who send seconds."""
    if not isinstance(value, (int, float)) or value <= 0:
        return None
    try:
        return datetime.fromtimestamp(value / 1000 if value > 10**11 else value, tz=UTC)
    except (OverflowError, OSError, ValueError):
        return None


def report_one(self: View, given: Any, *, strict: bool = False) -> TaskReport:
    """Apply one TaskResult."""
    report = task_report(given)
    get_workable(self.who, report.task_id)
    dispatching.report([report], strict=strict or report.lease_token is not None)
    evaluate_ended([report])
    return report


def evaluate_ended(reports: list[TaskReport]) -> None:
    """Go on with the runs whose tasks ended, before the worker asks for its next task."""
    runs = {r.workflow_id for r in reports if r.status != "IN_PROGRESS" and r.workflow_id is not None}
    if runs:
        evaluate_eagerly(list(runs))


def get_workable(who: access.Principal, task_id: UUID | None, shown: str = "") -> models.Task:
    """A task that the caller may work on; raises NotFound or Forbidden."""
    task = reading.get_task(who.namespace, task_id, shown)
    access.require_queue(who, queue_name(task.name, task.domain))
    return task


def hand_out(self: View, request: Request, name: str, *, batch: int, seconds: float) -> list[dict[str, Any]]:
    """Tasks of a type that the caller may work on, as JSON."""
    worker, domain = text(request, "workerid") or "", text(request, "domain")
    access.require_queue(self.who, queue_name(name, domain))
    found = poll(self.who.namespace, name, domain, batch=batch, worker_id=worker, seconds=seconds)
    return handed_out(found, worker)


class Poll(View):
    """Hand out one task of a type, or 204."""

    permission = "work"

    @extend_schema(operation_id="poll_task", responses={**OBJECT_ANSWER, 204: None})
    def get(self, request: Request, name: str) -> HttpResponse:
        found = hand_out(self, request, name, batch=1, seconds=0)
        return Response(found[0]) if found else empty(204)


class PollBatch(View):
    """Hand out up to `count` tasks of a type, waiting up to `timeout` milliseconds for the first."""

    permission = "work"

    @extend_schema(operation_id="poll_tasks", responses=LIST_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        count = number(request, "count", 1, least=1, most=MOST_BATCH)
        seconds = number(request, "timeout", 100, most=MOST_POLL_MILLIS) / 1000
        return Response(hand_out(self, request, name, batch=count, seconds=seconds))


class Update(TextView):
    """Report a task; answers its id. A late result is accepted and changes nothing."""

    permission = "work"
    lenient = True

    @extend_schema(operation_id="update_task", request=OBJECT, responses=TEXT_ANSWER)
    def post(self, request: Request) -> Response:
        return Response(report_one(self, request.data).task_id)


class UpdateV2(View):
    """Report a task; answers the next one of its type for the same worker, or 204."""

    permission = "work"
    lenient = True

    @extend_schema(operation_id="update_task_v2", request=OBJECT, responses={**OBJECT_ANSWER, 204: None})
    def post(self, request: Request) -> HttpResponse:
        report = report_one(self, request.data)
        task = reading.get_task(self.who.namespace, report.task_id)
        worker = report.worker_id or task.worker_id or ""
        if report.status == "IN_PROGRESS":
            return empty(204)
        found = handed_out(
            poll(self.who.namespace, task.name, task.domain, batch=1, worker_id=worker, seconds=0), worker
        )
        return Response(found[0]) if found else empty(204)


class UpdateBatch(View):
    """Report many tasks in one transaction; each gets its own answer."""

    permission = "work"
    lenient = True

    @extend_schema(operation_id="update_tasks", request=LIST, responses=LIST_ANSWER)
    def post(self, request: Request) -> Response:
        reports = [task_report(given) for given in body_list(request)]
        for report in reports:
            get_workable(self.who, report.task_id)
        outcomes = dispatching.report(reports, strict=False)
        evaluate_ended(reports)
        return Response([{"taskId": str(o.task_id), "applied": o.applied, "reason": o.refusal or ""} for o in outcomes])


class UpdateByRef(TextView):
    """End the open task of a reference; answers its id, or nothing when none is open."""

    permission = "work"
    lenient = True

    @extend_schema(operation_id="update_task_by_ref", request=OBJECT, responses=TEXT_ANSWER)
    def post(self, request: Request, workflow_id: str, ref: str, status: str) -> HttpResponse:
        return HttpResponse(str(complete_ref(self, request, workflow_id, ref, status) or ""), content_type="text/plain")


class UpdateByRefSync(View):
    """The same, answering the run."""

    permission = "work"
    lenient = True

    @extend_schema(operation_id="update_task_by_ref_sync", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request, workflow_id: str, ref: str, status: str) -> Response:
        if complete_ref(self, request, workflow_id, ref, status) is None:
            raise NotFound(f"Found no running task {ref} of workflow {workflow_id}")
        return Response(show(reading.get_whole_run(self.who.namespace, run_id(workflow_id))))


def complete_ref(self: View, request: Request, workflow_id: str, ref: str, status: str) -> Any:
    """End a task by its reference, with or without its loop suffix."""
    if self.who.queues:
        raise Forbidden(f"{self.who.name} may work on some queues only, and so report tasks by their id only.")
    iteration = None
    if "__" in ref:
        head, _, tail = ref.partition("__")
        if all(part.isdigit() for part in tail.split("__")):
            ref, iteration = head, tail.replace("__", ".")
    task_id = control.complete_task(
        self.who.namespace, run_id(workflow_id), ref, status, body_object(request, "output"), actor=self.who.name,
        worker_id=text(request, "workerid"), iteration=iteration,
    )  # fmt: skip
    evaluate_for_client(run_id(workflow_id))
    return task_id


class Task(View):
    """One task."""

    permission = "view"

    @extend_schema(operation_id="get_task", responses=OBJECT_ANSWER)
    def get(self, request: Request, task_id: str) -> Response:
        task = reading.get_task(self.who.namespace, parse_uuid(task_id), task_id)
        run = reading.get_run(self.who.namespace, task.workflow_id)
        return Response(task_json(task, run, reading.get_blueprint(run)))


class Log(View):
    """The log of a task: raw lines in, entries out."""

    permission = "work"
    permissions = {"get": "view"}
    parser_classes: list[type] = []

    @extend_schema(operation_id="append_task_log", request={"text/plain": {"type": "string"}}, responses=EMPTY)
    def post(self, request: Request, task_id: str) -> HttpResponse:
        task = get_workable(self.who, parse_uuid(task_id), task_id)
        line = request._request.body.decode("utf-8", "replace").replace("\x00", "\ufffd")
        dispatching.append_logs(task.id, [line])
        return empty()

    @extend_schema(operation_id="get_task_log", responses={**LIST_ANSWER, 204: None})
    def get(self, request: Request, task_id: str) -> HttpResponse:
        task = reading.get_task(self.who.namespace, parse_uuid(task_id), task_id)
        lines = [
            {"log": line, "taskId": str(task.id), "createdTime": int(at.timestamp() * 1000)}
            for line, at in dispatching.read_logs(task.id)
        ]
        return Response(lines) if lines else empty(204)


class Heartbeat(View):
    """Extend the lease of a task."""

    permission = "work"

    @extend_schema(operation_id="heartbeat_task", request=OBJECT, responses=EMPTY)
    def post(self, request: Request, task_id: str) -> HttpResponse:
        task = get_workable(self.who, parse_uuid(task_id), task_id)
        given = body_object(request)
        token = given.get("leaseToken")
        dispatching.report(
            [
                TaskReport(
                    task.id, task.workflow_id, "IN_PROGRESS", lease_token=parse_uuid(token), worker_id=given.get("workerId"),
                    extend=True,
                )
            ],
            strict=True,
        )  # fmt: skip
        return empty()


class Search(View):
    """Tasks by the basic fields."""

    permission = "view"

    @extend_schema(operation_id="search_tasks", responses=HITS_ANSWER)
    def get(self, request: Request) -> Response:
        found = search(TASKS, self.who.namespace, search_parameters(request))
        runs = reading.runs_by_id({task.workflow_id for task in found.hits})
        hits = [task_summary(task, runs.get(task.workflow_id)) for task in found.hits]
        return Response(hits_json(found, hits))


class SearchWhole(View):
    """The same, answering the tasks with their input and output."""

    permission = "view"

    @extend_schema(operation_id="search_whole_tasks", responses=HITS_ANSWER)
    def get(self, request: Request) -> Response:
        found = search(TASKS, self.who.namespace, search_parameters(request))
        runs = reading.runs_by_id({task.workflow_id for task in found.hits})
        hits = [task_json(task, runs.get(task.workflow_id), None) for task in found.hits]
        return Response(hits_json(found, hits))
