"""GET_WORKFLOW and UPDATE_TASK: a task that reads another run of its namespace, or ends a task of one."""

from __future__ import annotations

from typing import Any

from dispatch.system_tasks.outcome import Outcome, completed, failed
from orchestrator.db.ids import parse_id
from orchestrator.errors import OstinatoError
from workflows.models import Task
from workflows.services import reading
from workflows.services.control.tasks import complete_task
from workflows.wire import workflow_json

_STATUSES = ("COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "IN_PROGRESS")


def run_get_workflow(given: dict[str, Any], namespace: str) -> Outcome:
    """The run named `id`, as the API shows it; with its tasks if `includeTasks`."""
    shown = given.get("id")
    try:
        run = reading.get_run(namespace, parse_id(str(shown)), str(shown))
        return completed(workflow_json(run, None, reading.get_tasks(run) if given.get("includeTasks") else None))
    except OstinatoError as error:
        return failed(error.message, terminal=True)


def run_update_task(given: dict[str, Any], namespace: str, actor: str) -> Outcome:
    """End a task, or add to its output; named by `taskId`, or by `workflowId` and `taskRefName`.

    A task that ended with this very status before is no failure: this one may be handed out twice.
    """
    status, output = given.get("taskStatus") or "COMPLETED", given.get("taskOutput")
    if status not in _STATUSES:
        return failed(f"taskStatus: expected one of {', '.join(_STATUSES)}, got {status!r}", terminal=True)
    if output is not None and not isinstance(output, dict):
        return failed(f"taskOutput: expected an object, got {type(output).__name__}", terminal=True)
    task = _find(given, namespace)
    if task is None:
        asked = given.get("taskId") or f"{given.get('workflowId')}/{given.get('taskRefName')}"
        return failed(f"no task {asked} was found", terminal=True)
    try:
        updated = complete_task(
            namespace, task.workflow_id, task.ref, status, output, actor=actor, iteration=task.iteration,
            task_id=task.id if given.get("taskId") else None,
        )  # fmt: skip
    except OstinatoError as error:
        return failed(error.message, terminal=True)
    if updated is None:
        task.refresh_from_db(fields=["status"])
        if task.status != status:
            return failed(f"the task {task.ref} ({task.id}) had ended {task.status}", terminal=True)
    return completed({"taskId": str(updated or task.id), "workflowId": str(task.workflow_id), "status": status})


def _find(given: dict[str, Any], namespace: str) -> Task | None:
    """The task by its id, or the newest attempt of a ref in its newest turn; open ones first."""
    rows = Task.objects.filter(namespace=namespace)
    if given.get("taskId"):
        return rows.filter(id=parse_id(str(given["taskId"]))).first()
    rows = rows.filter(workflow_id=parse_id(str(given.get("workflowId"))), ref=str(given.get("taskRefName")))
    return rows.filter(ended_at=None).order_by("-id").first() or rows.order_by("-id").first()
