"""What passes between a parent and a child outside the parent's pass: refusals to start, and the cascade."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from orchestrator.db.hints import DECIDE, hint
from orchestrator.db.transactions import transaction
from workflows.engine.state import TaskStatus, WorkflowStatus
from workflows.managers.execution import LockedExecution
from workflows.managers.task import TaskEnd
from workflows.models import DecideQueue, Execution, IdempotencyKey, Task
from workflows.services.revisions import blueprint_for
from workflows.transitions import end_runs, end_tasks, run_end

CASCADE = "cascade"


def key(payload: dict[str, Any]) -> str:
    """The identity of a child's start: parent, ref, iteration path, attempt, and the child's own id. [INV-6c]

    The id was minted with the task's row; a rerun or restart makes the same attempt anew, and must not be absorbed by
    the child of the row that it wiped.
    """
    child = payload.get("child_id") or payload["workflow_id"]
    return f"{payload['parent_workflow_id']}:{payload['ref']}:{payload['iteration']}:{payload['attempt']}:{child}"


def refuse(namespace: str, payload: dict[str, Any], reason: str) -> None:
    """End the parent's task, since its child can never start."""
    parent, task = UUID(payload["parent_workflow_id"]), UUID(payload["parent_task_id"])
    with transaction():
        DecideQueue.sql.enqueue([parent])
        end_tasks([TaskEnd(task, parent, TaskStatus.FAILED_WITH_TERMINAL_ERROR, None, reason, "SUB_WORKFLOW")])
        hint(DECIDE)


def end_starter(payload: dict[str, Any], refusal: str | None = None) -> None:
    """End the START_WORKFLOW task whose run has started, or never can."""
    starter, task = UUID(payload["starter_workflow_id"]), UUID(payload["starter_task_id"])
    status = TaskStatus.FAILED_WITH_TERMINAL_ERROR if refusal else TaskStatus.COMPLETED
    with transaction():
        DecideQueue.sql.enqueue([starter])
        end_tasks([TaskEnd(task, starter, status, None, refusal)])
        hint(DECIDE)


def terminate(namespace: str, payload: dict[str, Any]) -> None:
    """End a child whose parent ended; one that has not started gives its key away, so that a late start is absorbed."""
    child = UUID(payload["workflow_id"])
    with transaction():
        if IdempotencyKey.sql.claim(namespace, "child", key(payload), child, CASCADE):
            return
    found = Execution.sql.parent_of(child)
    if found is None:
        return
    with transaction():
        DecideQueue.sql.enqueue([child, *([found[1]] if found[1] else [])])
        for run in Execution.sql.lock([child]):
            if not WorkflowStatus(run.status).terminal and not _awaited(run):
                blueprint = blueprint_for([run.revision_id]).get(run.revision_id)
                undoable = blueprint.undoable if blueprint is not None and payload.get("compensate") else None
                end = run_end(
                    run, WorkflowStatus.TERMINATED, reason=payload["reason"], root_ended=run.root_ended, undoable=undoable
                )
                end_runs([end])
        hint(DECIDE)


def _awaited(run: LockedExecution) -> bool:
    """Whether the parent waits for this child (again): then the event is a late delivery from before a retry."""
    task = Task.sql.find([run.parent_task_id]).get(run.parent_task_id) if run.parent_task_id else None
    return task is not None and not TaskStatus(task.status).terminal
