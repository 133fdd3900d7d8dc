"""Answers to HUMAN tasks that come by a worker's report: they fit the task's form, or nothing is applied."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from orchestrator.errors import Invalid
from workflows import offloading
from workflows.engine.human import misfits
from workflows.engine.state import TaskStatus
from workflows.managers.task import FoundTask
from workflows.models import Task


def misfit(task_id: UUID, task: FoundTask, status: str, output: Any) -> Invalid | None:
    """What is wrong with a report that completes a HUMAN task; nothing with any other report."""
    if task.type != "HUMAN" or not TaskStatus(status).successful or TaskStatus(task.status).terminal:
        return None
    for view in map(offloading.whole_task, Task.sql.read_tasks(task.workflow_id, [task_id])):
        problems = misfits(view.input, view.output if output is None else output, "outputData")
        if problems:
            return Invalid(problems=problems)
    return None
