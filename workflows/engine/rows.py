"""The rows a pass works on: those that were read, and drafts of those it makes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from workflows.engine.commands import Effect, ScheduleTask, TimerSpec, UpdateTask
from workflows.engine.state import TaskStatus, TaskView


class NeedRows(Exception):
    """Rows of these refs were not read."""

    def __init__(self, refs: Iterable[str]) -> None:
        self.refs = frozenset(refs)


class NeedOriginal(Exception):
    """The completed task that finished before `after` was not read."""

    def __init__(self, after: UUID) -> None:
        self.after = after


class TaskError(Exception):
    """A mistake that would recur: the task fails with this reason, never the pass."""


class RunEnded(Exception):
    """The run has been ended; the rest of the pass is void."""


@dataclass(slots=True, eq=False)
class Row:
    """A task while it is being decided on; `view` is None for a draft."""

    id: UUID
    ref: str
    iteration: str
    attempt: int
    name: str
    type: str
    status: TaskStatus
    input: Any
    output: Any = None
    reason: str | None = None
    cause: str | None = None
    state: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None
    consumed: bool = False
    view: TaskView | None = None
    changed: bool = False
    first_scheduled_at: datetime | None = None
    sub_workflow_id: UUID | None = None
    schedule: dict[str, Any] = field(default_factory=dict)
    timers: tuple[TimerSpec, ...] = ()
    effects: tuple[Effect, ...] = ()
    listeners: Any = None

    @classmethod
    def of(cls, view: TaskView) -> Row:
        return cls(
            view.id, view.ref, view.iteration, view.attempt, view.name, view.type, view.status, view.input, view.output,
            view.reason, view.cause, view.state, view.spec, view.consumed, view,
            first_scheduled_at=view.first_scheduled_at, sub_workflow_id=view.sub_workflow_id,
        )  # fmt: skip

    @property
    def path(self) -> tuple[int, ...]:
        """The iteration as numbers, which compare in order."""
        return tuple(map(int, self.iteration.split("."))) if self.iteration else ()

    def command(self) -> ScheduleTask | UpdateTask | None:
        """What the applier must do for this row."""
        if self.view is None:
            return ScheduleTask(
                self.id, self.ref, self.iteration, self.attempt, self.name, self.type, self.status, self.input,
                self.output, self.reason, self.cause, self.state, self.spec, self.consumed, timers=self.timers,
                effects=self.effects, first_scheduled_at=self.first_scheduled_at, sub_workflow_id=self.sub_workflow_id,
                **self.schedule,
            )  # fmt: skip
        if self.changed:
            return UpdateTask(self.id, self.status, self.output, self.reason, self.state, self.consumed)
        return None

    def document(self, workflow_id: UUID) -> dict[str, Any]:
        """What `${ref...}` sees of a task."""
        view = self.view
        return {
            "input": self.input,
            "output": self.output,
            "taskType": self.name if self.type == "SIMPLE" else self.type,
            "status": self.status.value,
            "referenceTaskName": self.ref,
            "retryCount": self.attempt,
            "taskDefName": self.name,
            "taskId": str(self.id),
            "workflowInstanceId": str(workflow_id),
            "reasonForIncompletion": self.reason,
            "iteration": self.path[-1] if self.iteration else 0,
            "workerId": view.worker_id if view else None,
            "pollCount": view.poll_count if view else 0,
            "scheduledTime": _millis(view.scheduled_at if view else None),
            "startTime": _millis(view.started_at if view else None),
            "endTime": _millis(view.ended_at if view else None),
        }


def _millis(moment: datetime | None) -> int:
    return int(moment.timestamp() * 1000) if moment else 0
