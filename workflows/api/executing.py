"""Execute and signal: start or go on with a run, and answer with where it ended or stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, body_object, empty, number, text
from orchestrator.errors import Invalid, NotFound
from workflows.api.schemas import EMPTY, OBJECT, OBJECT_ANSWER
from workflows.api.workflows import run_id, show, start_now, start_request
from workflows.services import control, executing, reading
from workflows.services.evaluation import evaluate_eagerly
from workflows.services.executing import Blocked
from workflows.wire import present, task_json

STRATEGIES = ("TARGET_WORKFLOW", "BLOCKING_WORKFLOW", "BLOCKING_TASK", "BLOCKING_TASK_INPUT")
MOST_SECONDS = 120


def strategy(request: Request) -> str:
    """The wanted shape of the answer."""
    found = text(request, "returnStrategy") or STRATEGIES[0]
    if found not in STRATEGIES:
        raise Invalid(problems=[("returnStrategy", f"expected one of {', '.join(STRATEGIES)}, got {found!r}")])
    return found


def wanted_refs(request: Request) -> list[str]:
    """The references whose end a caller waits for; SDKs write `None` for none."""
    return [ref for ref in (text(request, "waitUntilTaskRef") or "").split(",") if ref and ref != "None"]


def signal_response(
    namespace: str, target: UUID, wanted: str, *, timed_out: bool, request_id: str | None
) -> dict[str, Any]:
    """Conductor's SignalResponse: the target run, the run that blocks it, or the blocking task."""
    whole = reading.get_whole_run(namespace, target)
    blocked = executing.find_blocked(target) if wanted != "TARGET_WORKFLOW" else None
    answer: dict[str, Any] = {
        "responseType": wanted,
        "targetWorkflowId": str(target),
        "targetWorkflowStatus": whole.run.status,
        "requestId": request_id,
        "signalTimeout": timed_out,
    }
    if blocked is not None and wanted.startswith("BLOCKING_TASK"):
        return present(answer | _task(namespace, blocked))
    if blocked is not None and blocked.workflow_id != target:
        whole = reading.get_whole_run(namespace, blocked.workflow_id)
    return present({**show(whole), **answer})


def _task(namespace: str, blocked: Blocked) -> dict[str, Any]:
    run = reading.get_run(namespace, blocked.workflow_id)
    shown = task_json(blocked.task, run, reading.get_blueprint(run))
    return {**shown, "workflowId": str(run.id), "input": shown["inputData"], "output": shown["outputData"]}


class Execute(View):
    """Start a run and wait until it ends, blocks, or a named task has ended."""

    permission = "start"

    @extend_schema(operation_id="execute_workflow", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request, name: str, version: int = 0) -> Response:
        wanted = strategy(request)
        seconds = number(request, "waitForSeconds", 10, most=MOST_SECONDS)
        found = start_request({**body_object(request), "name": name}, self.who.namespace, self.who.name)
        workflow_id = start_now(replace(found, version=version or found.version))
        settled = executing.wait_for(workflow_id, wanted_refs(request), seconds)
        return Response(
            signal_response(
                self.who.namespace, workflow_id, wanted, timed_out=not settled, request_id=text(request, "requestId")
            )
        )


class ExecuteVersion(Execute):
    """The same for a version; 0 is the latest."""

    @extend_schema(operation_id="execute_workflow_version", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request, name: str, version: int = 0) -> Response:
        return super().post(request, name, version)


class Signal(View):
    """End the WAIT that blocks a run; nothing happens when none does."""

    permission = "work"
    lenient = True

    @extend_schema(operation_id="signal_workflow", request=OBJECT, responses=EMPTY)
    def post(self, request: Request, workflow_id: str, status: str) -> HttpResponse:
        signal(self, request, workflow_id, status)
        return empty()


class SignalSync(View):
    """End the WAIT that blocks a run; answers where it ended or stopped next."""

    permission = "work"
    lenient = True

    @extend_schema(operation_id="signal_workflow_sync", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request, workflow_id: str, status: str) -> Response:
        wanted = strategy(request)
        seconds = number(request, "timeoutMillis", 5000, most=MOST_SECONDS * 1000) / 1000
        blocked = signal(self, request, workflow_id, status)
        if blocked is None:
            raise NotFound(f"Found no blocked WAIT task of workflow {workflow_id}")
        target = run_id(workflow_id)
        settled = executing.wait_past(blocked, target, seconds)
        return Response(signal_response(self.who.namespace, target, wanted, timed_out=not settled, request_id=None))


def signal(self: View, request: Request, workflow_id: str, status: str) -> Blocked | None:
    """End the blocking WAIT with the body as its output."""
    run = reading.get_run(self.who.namespace, run_id(workflow_id), workflow_id)
    blocked = executing.find_blocked(run.id)
    if blocked is None:
        return None
    task = blocked.task
    control.complete_task(
        self.who.namespace, blocked.workflow_id, task.ref, status, body_object(request, "output"), actor=self.who.name,
        iteration=task.iteration or None,
    )  # fmt: skip
    evaluate_eagerly([blocked.workflow_id, *({run.id} - {blocked.workflow_id})])
    return blocked
