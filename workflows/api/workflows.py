"""/api/workflow: start, look at and act on runs. Unknown and malformed ids are 404."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import TextView, View, body_object, empty, flag, number, text
from orchestrator.errors import Invalid, NotFound
from workflows import masking
from workflows.api.schemas import (
    EMPTY,
    HITS_ANSWER,
    IDS_ANSWER,
    LIST_ANSWER,
    NOTHING,
    OBJECT,
    OBJECT_ANSWER,
    TEXT_ANSWER,
)  # fmt: skip
from workflows.models import Execution
from workflows.services import control, history, reading, simulation
from workflows.services.evaluation import evaluate_for_client
from workflows.services.starting import StartRequest, start
from workflows.wire import parse_uuid, task_json, workflow_json


def run_id(shown: str) -> UUID:
    """The id in a path; raises NotFound for what cannot be one."""
    found = parse_uuid(shown)
    if found is None:
        raise NotFound(f"No such workflow found by id: {shown}")
    return found


def show(whole: reading.WholeRun) -> dict[str, Any]:
    """A run as JSON, with its tasks."""
    return workflow_json(whole.run, whole.blueprint, whole.tasks)


def show_listed(run: Execution, *, tasks: bool) -> dict[str, Any]:
    """A run of a list as JSON."""
    return show(reading.get_whole_run(run.namespace, run.id, tasks=True) if tasks else reading.without_tasks(run))


def start_request(given: dict[str, Any], namespace: str, created_by: str) -> StartRequest:
    """Conductor's StartWorkflowRequest; raises Invalid for wrong types."""
    problems = [
        (name, f"expected {words}, got {type(given[name]).__name__}")
        for name, (kind, words) in _START_TYPES.items()
        if given.get(name) is not None and type(given[name]) is not kind
    ]
    if problems:
        raise Invalid(problems=problems)
    definition = given.get("workflowDef")
    return StartRequest(
        name=given.get("name") or (definition or {}).get("name") or "",
        version=given.get("version") or None,
        input=given.get("input") or {},
        namespace=namespace,
        correlation_id=given.get("correlationId"),
        priority=given.get("priority") or 0,
        idempotency_key=given.get("idempotencyKey") or None,
        idempotency_strategy=given.get("idempotencyStrategy") or "FAIL",
        task_to_domain=given.get("taskToDomain") or {},
        definition=definition,
        created_by=given.get("createdBy") or created_by,
    )


def start_now(request: StartRequest) -> UUID:
    """Start a run and take its first pass, so that the caller finds its first task."""
    workflow_id = start(request)
    evaluate_for_client(workflow_id)
    return workflow_id


_START_TYPES: dict[str, tuple[type, str]] = {
    "name": (str, "a text"), "version": (int, "a whole number"), "input": (dict, "an object"),
    "correlationId": (str, "a text"), "priority": (int, "a whole number"), "idempotencyKey": (str, "a text"),
    "idempotencyStrategy": (str, "a text"), "taskToDomain": (dict, "an object"), "workflowDef": (dict, "an object"),
    "createdBy": (str, "a text"),
}  # fmt: skip


class StartByBody(TextView):
    """Start a run; answers its id."""

    permission = "start"

    @extend_schema(operation_id="start_workflow", request=OBJECT, responses=TEXT_ANSWER)
    def post(self, request: Request) -> Response:
        return Response(start_now(start_request(body_object(request), self.who.namespace, self.who.name)))


class StartVersion(TextView):
    """Start a version of a definition, or the latest for 0; the body is the run's input."""

    permission = "start"

    @extend_schema(operation_id="start_workflow_version", request=OBJECT, responses=TEXT_ANSWER)
    def post(self, request: Request, name: str, version: int) -> Response:
        return Response(start_now(by_name(self, request, name, version)))


def by_name(self: View, request: Request, name: str, version: int) -> StartRequest:
    """What to start where the path names it and the body is the input."""
    return StartRequest(
        name,
        version=version or None,
        input=body_object(request, "input"),
        namespace=self.who.namespace,
        correlation_id=text(request, "correlationId"),
        priority=number(request, "priority", 0, most=99),
        created_by=self.who.name,
    )


class Workflow(View):
    """One run: look at it, or terminate it; a POST starts one by a definition's name."""

    permission = "operate"
    permissions = {"get": "view", "post": "start"}

    @extend_schema(operation_id="start_workflow_by_name", request=OBJECT, responses=TEXT_ANSWER)
    def post(self, request: Request, workflow_id: str) -> HttpResponse:
        found = by_name(self, request, workflow_id, number(request, "version", 0))
        return HttpResponse(str(start_now(found)), content_type="text/plain")

    @extend_schema(operation_id="get_workflow", responses=OBJECT_ANSWER)
    def get(self, request: Request, workflow_id: str) -> Response:
        tasks = flag(request, "includeTasks", True)
        return Response(
            show(reading.get_whole_run(self.who.namespace, parse_uuid(workflow_id), workflow_id, tasks=tasks))
        )

    @extend_schema(operation_id="terminate_workflow", responses=EMPTY)
    def delete(self, request: Request, workflow_id: str) -> HttpResponse:
        reason = text(request, "reason")
        control.terminate(
            self.who.namespace,
            run_id(workflow_id),
            actor=self.who.name,
            reason=reason,
            compensate=flag(request, "compensate"),
            trigger_failure_workflow=flag(request, "triggerFailureWorkflow"),
        )
        return empty()


class Status(View):
    """The status of a run."""

    permission = "view"

    @extend_schema(operation_id="get_workflow_status", responses=OBJECT_ANSWER)
    def get(self, request: Request, workflow_id: str) -> Response:
        run = reading.get_run(self.who.namespace, parse_uuid(workflow_id), workflow_id)
        found: dict[str, Any] = {"workflowId": str(run.id), "status": run.status}
        if run.correlation_id is not None:
            found["correlationId"] = run.correlation_id
        if flag(request, "includeOutput"):
            found["output"] = masking.shown(run.revision_id, run.output or {})
        if flag(request, "includeVariables"):
            found["variables"] = masking.shown(run.revision_id, run.variables)
        return Response(found)


class Tasks(View):
    """The tasks of a run, by pages."""

    permission = "view"

    @extend_schema(operation_id="list_workflow_tasks", responses=HITS_ANSWER)
    def get(self, request: Request, workflow_id: str) -> Response:
        run = reading.get_run(self.who.namespace, parse_uuid(workflow_id), workflow_id)
        first, count = number(request, "start", 0), number(request, "count", 15, most=1000)
        wanted = request.query_params.getlist("status")
        tasks = [t for t in reading.get_tasks(run) if not wanted or t.status in wanted]
        blueprint = reading.get_blueprint(run)
        page = [task_json(task, run, blueprint, first + i + 1) for i, task in enumerate(tasks[first : first + count])]
        return Response({"totalHits": len(tasks), "results": page})


class History(View):
    """The history of a run after a sequence number."""

    permission = "view"

    @extend_schema(operation_id="get_workflow_history", responses=LIST_ANSWER)
    def get(self, request: Request, workflow_id: str) -> Response:
        run = reading.get_run(self.who.namespace, parse_uuid(workflow_id), workflow_id)
        events = history.read_events(
            run, number(request, "after", 0), batch=number(request, "count", 500, least=1, most=1000)
        )
        return Response(
            [
                {"seq": e.seq, "type": e.type, "ref": e.ref, "taskId": str(e.task_id) if e.task_id else None, "data": e.data,
                 "at": int(e.at.timestamp() * 1000)}
                for e in events
            ]
        )  # fmt: skip


Act = Callable[..., Any]


def action_view(
    operation: str, act: Act, method: str, status: int, options: dict[str, tuple[str, Any]] | None = None
) -> type[View]:
    """A view for one operator action: `options` maps a keyword to (query parameter, default)."""

    def handle(self: View, request: Request, workflow_id: str) -> HttpResponse:
        given = {key: flag(request, name, default) for key, (name, default) in (options or {}).items()}
        act(self.who.namespace, run_id(workflow_id), actor=self.who.name, **given)
        evaluate_for_client(run_id(workflow_id))
        return empty(status)

    described = extend_schema(operation_id=operation, request=None, responses=NOTHING if status == 204 else EMPTY)(
        handle
    )
    methods = dict.fromkeys(method.split(), described)
    return type(
        operation.title().replace("_", ""), (View,), {"permission": "operate", "__doc__": act.__doc__, **methods}
    )


Pause = action_view("pause_workflow", control.pause, "put", 200)
Resume = action_view("resume_workflow", control.resume, "put", 200)
Decide = action_view("decide_workflow", control.nudge, "put", 200)
Restart = action_view(
    "restart_workflow", control.restart, "post", 204, {"use_latest_definitions": ("useLatestDefinitions", False)}
)
Retry = action_view(
    "retry_workflow", control.retry, "post", 204, {"resume_subworkflow_tasks": ("resumeSubworkflowTasks", False)}
)
ResetCallbacks = action_view("reset_callbacks", control.reset_callbacks, "post", 204)
Remove = action_view("remove_workflow", control.remove, "delete", 200)


class TerminateAndRemove(View):
    """Terminate a run if it is open, and delete it."""

    permission = "operate"

    @extend_schema(operation_id="terminate_and_remove_workflow", responses=EMPTY)
    def delete(self, request: Request, workflow_id: str) -> HttpResponse:
        reason = text(request, "reason")
        control.terminate_remove(self.who.namespace, run_id(workflow_id), actor=self.who.name, reason=reason)
        return empty()


class Rerun(TextView):
    """Run an ended run again from a task; answers its id."""

    permission = "operate"

    @extend_schema(operation_id="rerun_workflow", request=OBJECT, responses=TEXT_ANSWER)
    def post(self, request: Request, workflow_id: str) -> Response:
        given = body_object(request)
        shown = given.get("reRunFromTaskId")
        task_id = parse_uuid(shown)
        if shown and task_id is None:
            raise Invalid(problems=[("reRunFromTaskId", f"there is no task {shown!r}")])
        control.rerun(
            self.who.namespace,
            run_id(workflow_id),
            actor=self.who.name,
            task_id=task_id,
            task_input=given.get("taskInput"),
            workflow_input=given.get("workflowInput"),
            correlation_id=given.get("correlationId"),
        )
        evaluate_for_client(run_id(workflow_id))
        return Response(workflow_id)


class SkipTask(View):
    """Let a task that has not started be passed over."""

    permission = "operate"

    @extend_schema(operation_id="skip_task", request=OBJECT, responses=EMPTY)
    def put(self, request: Request, workflow_id: str, ref: str) -> HttpResponse:
        given = body_object(request)
        control.skip_task(
            self.who.namespace,
            run_id(workflow_id),
            ref,
            actor=self.who.name,
            input=given.get("taskInput"),
            output=given.get("taskOutput"),
        )
        return empty()


class Jump(View):
    """Go on with a later task, skipping those before it; some clients name it in the query only."""

    permission = "operate"

    @extend_schema(operation_id="jump_to_task", request=OBJECT, responses=EMPTY)
    def post(self, request: Request, workflow_id: str, ref: str) -> HttpResponse:
        if body_object(request):
            raise Invalid(problems=[("body", "a task's input comes from its definition: update variables instead")])
        wanted = text(request, "taskReferenceName") or ref
        control.jump(self.who.namespace, run_id(workflow_id), wanted, actor=self.who.name)
        evaluate_for_client(run_id(workflow_id))
        return empty()


class CancelTask(View):
    """Cancel the newest open task of a reference; unless it is optional, the run ends TERMINATED."""

    permission = "operate"

    @extend_schema(operation_id="cancel_task", request=None, responses=EMPTY)
    def put(self, request: Request, workflow_id: str, ref: str) -> HttpResponse:
        control.cancel_task(
            self.who.namespace, run_id(workflow_id), ref, actor=self.who.name, reason=text(request, "reason")
        )
        evaluate_for_client(run_id(workflow_id))
        return empty()


class Variables(View):
    """Merge variables into a run's; answers the run."""

    permission = "operate"

    @extend_schema(operation_id="update_variables", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request, workflow_id: str) -> Response:
        control.update_variables(self.who.namespace, run_id(workflow_id), body_object(request), actor=self.who.name)
        return Response(show(reading.get_whole_run(self.who.namespace, parse_uuid(workflow_id), workflow_id)))


class Running(View):
    """Ids of a definition's runs that have not ended."""

    permission = "view"

    @extend_schema(operation_id="list_running_workflows", responses=IDS_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        version = number(request, "version", 0) or None
        return Response([str(found) for found in reading.running(self.who.namespace, name, version)])


class TestRun(View):
    """Run a definition in memory on mocked results; nothing is stored."""

    permission = "start"

    @extend_schema(operation_id="test_workflow", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request) -> Response:
        given = body_object(request)
        return Response(simulation.simulate(start_request(given, self.who.namespace, self.who.name), given))
