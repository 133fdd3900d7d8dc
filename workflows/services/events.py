"""What event handlers do to runs: each action once, however often its event is delivered. [INV-5, INV-6d]

An action and the word that it is done are one transaction; a start has its own key instead, of the scope `event`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from orchestrator.db.ids import parse_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import Invalid, NotFound, OstinatoError
from outbox.models import EventExecution
from workflows.engine.masked_fields import carried
from workflows.models import Execution, Task
from workflows.services import control
from workflows.services.starting import StartRequest, start

Detail = dict[str, Any]


class _Done(Exception):
    """The action was done by an earlier delivery: nothing of this one is kept."""


def act(namespace: str, payload: dict[str, Any]) -> None:
    """Do one action of a handler; a refusal is its result, anything else is raised and tried again."""
    execution_id = UUID(payload["execution_id"])
    actor, detail = f"event:{payload['handler']}", payload["detail"]

    def finish(status: str, output: Detail | None = None, reason: str | None = None) -> None:
        if not EventExecution.sql.finish(execution_id, status, output, reason):
            raise _Done

    try:
        _ACTIONS[payload["action"]](namespace, detail, actor, finish, payload)
    except _Done:
        return
    except OstinatoError as error:
        if error.retryable:
            raise
        problems = "; ".join(f"{path}: {text}" for path, text in getattr(error, "problems", ()))
        with transaction():
            EventExecution.sql.finish(execution_id, "FAILED", None, f"{error.message} {problems}".strip())


Finish = Callable[..., None]


def _start_workflow(namespace: str, detail: Detail, actor: str, finish: Finish, payload: dict[str, Any]) -> None:
    given = detail.get("input")
    run = start(
        StartRequest(
            name=detail["name"],
            version=detail.get("version"),
            input={
                **(given if isinstance(given, dict) else {}),
                "conductor.event.messageId": payload["message_id"],
                "conductor.event.name": payload["event"],
            },
            namespace=namespace,
            correlation_id=detail.get("correlationId"),
            task_to_domain=detail.get("taskToDomain") or {},
            idempotency_key=payload["execution_id"],
            idempotency_strategy="RETURN_EXISTING",
            created_by=actor,
            scope="event",
            masked=carried(payload),
        )
    )
    with transaction():
        finish("COMPLETED", {"workflowId": str(run)})


def _end_task(status: str) -> Callable[..., None]:
    def end(namespace: str, detail: Detail, actor: str, finish: Finish, payload: dict[str, Any]) -> None:
        run, ref, task_id = _task_of(namespace, detail)

        def then(ended: UUID | None) -> None:
            if ended is None:
                named = f"The task {task_id}" if task_id else f"No task {ref}"
                finish("FAILED", reason=f"{named} of the run {run} is {'not ' if task_id else ''}open.")
            else:
                finish("COMPLETED", {"taskId": str(ended)})

        output = detail.get("output")
        control.complete_task(
            namespace, run, ref, status, output if isinstance(output, dict) else {}, actor=actor,
            reason=detail.get("reasonForIncompletion"), task_id=task_id, then=then,
        )  # fmt: skip

    return end


def _task_of(namespace: str, detail: Detail) -> tuple[UUID, str, UUID | None]:
    """(run, reference, id) of the task that an action names; no id when it is named by its reference."""
    if not detail.get("taskId"):
        return _run_of(namespace, detail), str(detail["taskRefName"]), None
    task_id = parse_id(str(detail["taskId"]))
    task = Task.sql.find([task_id]).get(task_id) if task_id else None
    elsewhere = task is not None and detail.get("workflowId") and parse_id(str(detail["workflowId"])) != task.workflow_id
    if task is None or task.namespace != namespace or elsewhere:
        raise NotFound(f"Task not found for taskId: {detail['taskId']}", task_id=detail["taskId"])
    return task.workflow_id, task.ref, task_id


def _run_of(namespace: str, detail: Detail) -> UUID:
    run = parse_id(str(detail.get("workflowId")))
    if run is None or not Execution.objects.filter(namespace=namespace, id=run).exists():
        raise NotFound(f"No such workflow found by id: {detail.get('workflowId')}", workflow_id=run)
    return run


def _terminate(namespace: str, detail: Detail, actor: str, finish: Finish, payload: dict[str, Any]) -> None:
    run, reason = _run_of(namespace, detail), detail.get("terminationReason")
    control.terminate(namespace, run, actor=actor, reason=reason, then=lambda _: finish("COMPLETED"))


def _update_variables(namespace: str, detail: Detail, actor: str, finish: Finish, payload: dict[str, Any]) -> None:
    variables = detail.get("variables")
    if not isinstance(variables, dict):
        raise Invalid(problems=[("variables", f"expected an object, got {type(variables).__name__}")])
    run = _run_of(namespace, detail)
    control.update_variables(namespace, run, variables, actor=actor, then=lambda _: finish("COMPLETED"))


_ACTIONS: dict[str, Callable[..., None]] = {
    "start_workflow": _start_workflow,
    "complete_task": _end_task("COMPLETED"),
    "fail_task": _end_task("FAILED"),
    "terminate_workflow": _terminate,
    "update_workflow_variables": _update_variables,
}
