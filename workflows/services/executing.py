"""Synchronous execution and signals: waiting for a run to end or block, and telling a blocked one to go on.

A wait holds no transaction, no lock and no connection between two looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

from workflows.engine.state import TaskStatus, WorkflowStatus
from workflows.models import Execution, Task

_LOOK_SECONDS = 0.03


@dataclass(frozen=True, slots=True)
class Blocked:
    """The WAIT or YIELD that blocks a run, and the run it stands in: the run itself or a child at any depth."""

    workflow_id: UUID
    task: Task


def find_blocked(workflow_id: UUID) -> Blocked | None:
    """The first open YIELD, or WAIT without a time, of a run, else of its running children, depth first."""
    open_tasks = list(Task.objects.filter(workflow_id=workflow_id, ended_at=None, consumed=False).order_by("id"))
    for task in open_tasks:
        given = task.input or {}
        if task.type == "YIELD" or (task.type == "WAIT" and not given.get("duration") and not given.get("until")):
            return Blocked(workflow_id, task)
    for task in open_tasks:
        if task.sub_workflow_id is not None:
            found = find_blocked(task.sub_workflow_id)
            if found is not None:
                return found
    return None


def wait_for(workflow_id: UUID, refs: Collection[str], seconds: float) -> bool:
    """Wait until a run has ended, is blocked, or a task of `refs` has ended; False when the time was over first."""
    return _until(lambda: _has_settled(workflow_id, refs), seconds)


def wait_past(blocked: Blocked, target: UUID, seconds: float) -> bool:
    """Wait until a signalled run has ended or is blocked elsewhere; False when the time was over first."""

    def moved_on() -> bool:
        found = find_blocked(target)
        return (found is not None and found.task.id != blocked.task.id) or _ended(target)

    return _until(moved_on, seconds)


def _has_settled(workflow_id: UUID, refs: Collection[str]) -> bool:
    if _ended(workflow_id):
        return True
    if refs:
        ended = Task.objects.filter(workflow_id=workflow_id, ref__in=refs, ended_at__isnull=False)
        if any(TaskStatus(status).terminal for status in ended.values_list("status", flat=True)):
            return True
    return find_blocked(workflow_id) is not None


def _ended(workflow_id: UUID) -> bool:
    status = Execution.objects.filter(id=workflow_id).values_list("status", flat=True).first()
    return status is None or WorkflowStatus(status).terminal


def _until(settled: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not settled():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        threading.Event().wait(min(_LOOK_SECONDS, left))
    return True
