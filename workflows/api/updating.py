"""Moving a run on: /api/workflow/{id}/messages, and /state, which waits for where it stops, or shows it as it was."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import TextView, View, body_object, number, text
from orchestrator.errors import Invalid, NotFound
from workflows.api.executing import MOST_SECONDS, signal_response, wanted_refs
from workflows.api.schemas import OBJECT, OBJECT_ANSWER, TEXT_ANSWER
from workflows.api.workflows import run_id
from workflows.services import control, executing, history, reading
from workflows.services.evaluation import evaluate_for_client
from workflows.wire import millis, present, wire_ref


class State(View):
    """The tasks of a run at a seq of its history; a POST sets variables, ends a task, and waits as execute does."""

    permission = "operate"
    permissions = {"get": "view"}

    @extend_schema(operation_id="get_workflow_state", responses=OBJECT_ANSWER)
    def get(self, request: Request, workflow_id: str) -> Response:
        run = reading.get_run(self.who.namespace, run_id(workflow_id), workflow_id)
        found = history.state_at(run.id, number(request, "seq", 2**31 - 1))
        tasks = [
            present(
                {
                    "taskId": str(task.task_id),
                    "referenceTaskName": wire_ref(task.ref, task.iteration),
                    "taskDefName": task.name,
                    "retryCount": task.attempt,
                    "status": task.status,
                    "seq": task.seq,
                    "at": millis(task.at),
                    "reasonForIncompletion": task.reason,
                }
            )
            for task in found.tasks
        ]
        return Response(
            {
                "workflowId": str(run.id),
                "seq": found.seq,
                "at": millis(found.at),
                "status": found.status,
                "tasks": tasks,
            }
        )

    @extend_schema(operation_id="update_workflow_state", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request, workflow_id: str) -> Response:
        given = body_object(request)
        target = run_id(workflow_id)
        seconds = number(request, "waitForSeconds", 10, most=MOST_SECONDS)
        result = _result(given)
        if given.get("variables"):
            control.update_variables(self.who.namespace, target, given["variables"], actor=self.who.name)
        if result is not None:
            _end(self, target, str(given["taskReferenceName"]), result)
        reading.get_run(self.who.namespace, target, workflow_id)
        evaluate_for_client(target)
        settled = executing.wait_for(target, wanted_refs(request), seconds)
        return Response(
            signal_response(
                self.who.namespace,
                target,
                "TARGET_WORKFLOW",
                timed_out=not settled,
                request_id=text(request, "requestId"),
            )
        )


class Messages(TextView):
    """Send a message to a running run, for a PULL_WORKFLOW_MESSAGES task to take; answers the message's id."""

    permission = "operate"

    @extend_schema(operation_id="push_message", request=OBJECT, responses=TEXT_ANSWER)
    def post(self, request: Request, workflow_id: str) -> Response:
        given = body_object(request)
        found = control.push_message(self.who.namespace, run_id(workflow_id), given, actor=self.who.name)
        return Response(str(found))


def _result(given: dict[str, Any]) -> dict[str, Any] | None:
    result = given.get("taskResult")
    problems = []
    if result is not None and not isinstance(result, dict):
        problems.append(("taskResult", f"expected an object, got {type(result).__name__}"))
    elif result is not None and not (given.get("taskReferenceName") and isinstance(given["taskReferenceName"], str)):
        problems.append(("taskReferenceName", "expected the reference of the task that the result is for"))
    if problems:
        raise Invalid(problems=problems)
    return result


def _end(self: View, target: UUID, ref: str, result: dict[str, Any]) -> None:
    task_id = control.complete_task(
        self.who.namespace, target, ref, str(result.get("status") or "COMPLETED"), result.get("outputData"),
        actor=self.who.name, reason=result.get("reasonForIncompletion"), worker_id=result.get("workerId"),
    )  # fmt: skip
    if task_id is None:
        raise NotFound(f"Found no running task {ref} of workflow {target}")
