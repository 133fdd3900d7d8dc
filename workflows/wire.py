"""Runs and tasks as Conductor's JSON: nulls left out of our fields and kept inside users' maps, times in milliseconds.

Whatever is shown is masked; only what is handed to a worker is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from orchestrator.errors import PayloadLost, StoreUnavailable
from orchestrator.masking import NOTHING, Names, mask, mask_inside
from workflows import masking
from workflows.engine.blueprint import Blueprint
from workflows.managers.definition import StoredDefinition, StoredTaskDefinition
from workflows.managers.task import StartedTask
from workflows.models import Execution, Task

_TASK_DEFAULTS: dict[str, Any] = {
    "retryCount": 3, "timeoutSeconds": 0, "inputKeys": [], "outputKeys": [], "timeoutPolicy": "TIME_OUT_WF",
    "retryLogic": "FIXED", "retryDelaySeconds": 60, "responseTimeoutSeconds": 3600, "inputTemplate": {},
    "rateLimitPerFrequency": 0, "rateLimitFrequencyInSeconds": 1, "backoffScaleFactor": 1,
}  # fmt: skip
_WORKFLOW_DEFAULTS: dict[str, Any] = {
    "inputParameters": [], "outputParameters": {}, "schemaVersion": 2, "restartable": True,
    "workflowStatusListenerEnabled": False, "timeoutPolicy": "ALERT_ONLY", "timeoutSeconds": 0, "variables": {},
    "inputTemplate": {},
}  # fmt: skip


def millis(moment: datetime | None) -> int:
    """Epoch milliseconds; 0 for "not yet"."""
    return int(moment.timestamp() * 1000) if moment else 0


def iso(moment: datetime | None) -> str:
    """The ISO text that summaries carry."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z" if moment else ""


def present(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def definition_json(stored: StoredDefinition) -> dict[str, Any]:
    """A workflow definition with Conductor's defaults."""
    times = {"createTime": millis(stored.created_at), "updateTime": millis(stored.updated_at)}
    return present({**_WORKFLOW_DEFAULTS, **times, **stored.definition})


def task_definition_json(stored: StoredTaskDefinition) -> dict[str, Any]:
    """A task definition with Conductor's defaults."""
    times = {"createTime": millis(stored.created_at), "updateTime": millis(stored.updated_at)}
    return present({**_TASK_DEFAULTS, **stored.definition, **times})


def wire_ref(ref: str, iteration: str) -> str:
    """A task's reference as clients see it: `ref__2` in a loop's second turn, `ref__2__1` in an inner one."""
    return ref + "".join(f"__{turn}" for turn in iteration.split(".")) if iteration else ref


def workflow_json(run: Execution, blueprint: Blueprint | None, tasks: Iterable[Task] | None) -> dict[str, Any]:
    """A run; `tasks` None leaves them out."""
    hidden = masking.names(run.revision_id)
    fields = {
        "workflowId": str(run.id),
        "workflowName": run.name,
        "workflowType": run.name,
        "workflowVersion": run.version,
        "version": run.version,
        "workflowDefinition": _WORKFLOW_DEFAULTS | blueprint.definition if blueprint else None,
        "status": run.status,
        "createTime": millis(run.created_at),
        "startTime": millis(run.created_at),
        "updateTime": millis(run.updated_at),
        "endTime": millis(run.ended_at),
        "lastRetriedTime": millis(run.last_retried_at),
        "input": mask(run.input, hidden),
        "output": {} if run.output is None else mask(run.output, hidden),
        "variables": mask(run.variables, hidden),
        "correlationId": run.correlation_id,
        "idempotencyKey": run.idempotency_key,
        "priority": run.priority,
        "parentWorkflowId": str(run.parent_workflow_id) if run.parent_workflow_id else None,
        "parentWorkflowTaskId": str(run.parent_task_id) if run.parent_task_id else None,
        "reasonForIncompletion": run.reason,
        "failedReferenceTaskNames": run.failed_refs or [],
        "taskToDomain": run.task_to_domain,
        "createdBy": run.created_by,
        "history": [],
    }
    found = present(fields)
    listed = [] if tasks is None else [task_json(task, run, blueprint, seq) for seq, task in enumerate(tasks, 1)]
    found["tasks"] = listed
    found["failedTaskNames"] = sorted(
        {t["taskDefName"] for t in listed if t["referenceTaskName"] in found["failedReferenceTaskNames"]}
    )
    return found


def task_json(task: Task, run: Execution | None, blueprint: Blueprint | None, seq: int = 0) -> dict[str, Any]:
    """A task of a run; without its run it is not known what may be shown of its payloads, and none is."""
    given, output, spec = (task.input, task.output, task.spec) if run else (None, None, None)
    hidden = masking.names(run.revision_id) if run else NOTHING
    return _task(
        blueprint, seq, hidden,
        id=task.id, workflow_id=task.workflow_id, ref=task.ref, iteration=task.iteration, attempt=task.attempt,
        name=task.name, type=task.type, status=task.status, input=given, output=output, spec=spec,
        domain=task.domain, priority=task.priority, poll_count=task.poll_count, response_seconds=task.response_seconds,
        retried_task_id=task.retried_task_id, scheduled_at=task.scheduled_at, started_at=task.started_at,
        updated_at=task.updated_at, ended_at=task.ended_at, first_scheduled_at=task.first_scheduled_at,
        worker_id=task.worker_id, reason=task.reason, callback_seconds=task.callback_seconds, consumed=task.consumed,
        sub_workflow_id=task.sub_workflow_id, workflow_type=run.name if run else None,
        correlation_id=run.correlation_id if run else None, lease_token=None,
    )  # fmt: skip


def started_json(task: StartedTask, run: Execution, blueprint: Blueprint | None, worker_id: str) -> dict[str, Any]:
    """A task as it is handed to a worker, with its lease token and nothing masked."""
    return _task(
        blueprint, 0, NOTHING,
        id=task.id, workflow_id=task.workflow_id, ref=task.ref, iteration=task.iteration, attempt=task.attempt,
        name=task.name, type=task.type, status="IN_PROGRESS", input=task.input, output=task.output, spec=task.spec,
        domain=task.domain, priority=task.priority, poll_count=task.poll_count, response_seconds=task.response_seconds,
        retried_task_id=task.retried_task_id, scheduled_at=task.scheduled_at, started_at=task.started_at,
        updated_at=task.updated_at, ended_at=None, first_scheduled_at=task.first_scheduled_at, worker_id=worker_id,
        reason=None, callback_seconds=0, consumed=False, sub_workflow_id=None, workflow_type=run.name,
        correlation_id=run.correlation_id, lease_token=task.lease_token,
    )  # fmt: skip


def _task(blueprint: Blueprint | None, seq: int, hidden: Names, **t: Any) -> dict[str, Any]:
    node = blueprint.find(t["ref"]) if blueprint else None
    # A task made at run time came with its run's data; the others stand in the definition.
    spec = mask_inside(t["spec"], hidden) if t["spec"] else node.spec if node else {}
    definition = spec.get("taskDefinition") or (blueprint.task_definitions.get(t["name"]) if blueprint else None)
    turns = t["iteration"].split(".") if t["iteration"] else []
    started = t["started_at"]
    return present({
        "taskId": str(t["id"]),
        "taskType": t["name"] if t["type"] == "SIMPLE" else t["type"],
        "taskDefName": t["name"],
        "referenceTaskName": wire_ref(t["ref"], t["iteration"]),
        "status": t["status"],
        "inputData": mask(t["input"] or {}, hidden),
        "outputData": {} if t["output"] is None else mask(t["output"], hidden),
        "workflowTask": spec or None,
        "taskDefinition": definition,
        "workflowInstanceId": str(t["workflow_id"]),
        "workflowType": t["workflow_type"],
        "correlationId": t["correlation_id"],
        "retryCount": t["attempt"],
        "retriedTaskId": str(t["retried_task_id"]) if t["retried_task_id"] else None,
        "retried": False,
        "executed": t["consumed"],
        "seq": seq,
        "iteration": int(turns[-1]) if turns else 0,
        "loopOverTask": bool(turns),
        "pollCount": t["poll_count"],
        "callbackAfterSeconds": t["callback_seconds"],
        "callbackFromWorker": True,
        "responseTimeoutSeconds": t["response_seconds"],
        "workerId": t["worker_id"],
        "domain": t["domain"],
        "workflowPriority": t["priority"],
        "scheduledTime": millis(t["scheduled_at"]),
        "startTime": millis(started),
        "endTime": millis(t["ended_at"]),
        "updateTime": millis(t["updated_at"]),
        "firstStartTime": millis(started),
        "queueWaitTime": max(0, millis(started) - millis(t["scheduled_at"])) if started else 0,
        "startDelayInSeconds": 0,
        "rateLimitPerFrequency": 0,
        "rateLimitFrequencyInSeconds": 1,
        "subWorkflowId": str(t["sub_workflow_id"]) if t["sub_workflow_id"] else None,
        "subworkflowChanged": False,
        "reasonForIncompletion": t["reason"],
        "leaseToken": str(t["lease_token"]) if t["lease_token"] else None,
    })  # fmt: skip


def _text(row: Execution | Task, name: str, hidden: Names) -> str:
    """A payload as the text of its JSON; a list is not lost over one that cannot be read, which says why."""
    from orchestrator.db import json

    try:
        return json.dumps(mask(getattr(row, name) or {}, hidden))
    except (PayloadLost, StoreUnavailable) as error:
        return error.message


def workflow_summaries(runs: Collection[Execution]) -> list[dict[str, Any]]:
    """Runs in a list."""
    masking.names_by_revision(run.revision_id for run in runs)  # together
    return [workflow_summary(run) for run in runs]


def workflow_summary(run: Execution) -> dict[str, Any]:
    """A run in a list; times, input and output are texts."""
    hidden = masking.names(run.revision_id)
    return present({
        "workflowType": run.name,
        "version": run.version,
        "workflowId": str(run.id),
        "correlationId": run.correlation_id,
        "startTime": iso(run.created_at),
        "updateTime": iso(run.updated_at),
        "endTime": iso(run.ended_at),
        "status": run.status,
        "input": _text(run, "input", hidden),
        "output": _text(run, "output", hidden),
        "reasonForIncompletion": run.reason,
        "executionTime": max(0, millis(run.ended_at or run.updated_at) - millis(run.created_at)),
        "failedReferenceTaskNames": ",".join(run.failed_refs or []),
        "priority": run.priority,
        "createdBy": run.created_by,
        "searchAttributes": run.attributes,
        "parentWorkflowId": str(run.parent_workflow_id or ""),
    })  # fmt: skip


def task_summary(task: Task, run: Execution | None) -> dict[str, Any]:
    """A task in a list; masked as `task_json` is."""
    given, output = "{}", "{}"
    if run:
        hidden = masking.names(run.revision_id)
        given, output = (_text(task, name, hidden) for name in ("input", "output"))
    started = millis(task.started_at)
    return present({
        "workflowId": str(task.workflow_id),
        "workflowType": run.name if run else "",
        "correlationId": run.correlation_id if run else None,
        "scheduledTime": iso(task.scheduled_at),
        "startTime": iso(task.started_at),
        "updateTime": iso(task.updated_at),
        "endTime": iso(task.ended_at),
        "status": task.status,
        "reasonForIncompletion": task.reason,
        "executionTime": max(0, millis(task.ended_at) - started) if task.ended_at else 0,
        "queueWaitTime": max(0, started - millis(task.scheduled_at)) if started else 0,
        "taskDefName": task.name,
        "taskType": task.name if task.type == "SIMPLE" else task.type,
        "taskReferenceName": wire_ref(task.ref, task.iteration),
        "input": given,
        "output": output,
        "taskId": str(task.id),
        "workflowPriority": task.priority,
    })  # fmt: skip


def parse_uuid(text: Any) -> UUID | None:
    """A client's id, or None when it cannot be one of ours."""
    from orchestrator.db.ids import parse_id

    return parse_id(text) if isinstance(text, str) else None
