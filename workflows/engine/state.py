"""What a decision is made from: frozen views of a run and its tasks, and the statuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class TaskStatus(StrEnum):
    """Conductor's task statuses."""

    SCHEDULED = "SCHEDULED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_ERRORS = "COMPLETED_WITH_ERRORS"
    FAILED = "FAILED"
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"
    TIMED_OUT = "TIMED_OUT"
    CANCELED = "CANCELED"
    SKIPPED = "SKIPPED"

    @property
    def terminal(self) -> bool:
        return self not in _OPEN

    @property
    def successful(self) -> bool:
        return self in _SUCCESSFUL

    @property
    def retriable(self) -> bool:
        return self in _RETRIABLE


_OPEN = frozenset({TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS})
_SUCCESSFUL = frozenset({TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS, TaskStatus.SKIPPED})
_RETRIABLE = frozenset({TaskStatus.FAILED, TaskStatus.TIMED_OUT})
FAILURES = frozenset({TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR, TaskStatus.TIMED_OUT})
"""A task that ended so has a reason."""


class WorkflowStatus(StrEnum):
    """Conductor's workflow statuses."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    TERMINATED = "TERMINATED"

    @property
    def terminal(self) -> bool:
        return self not in (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED)


@dataclass(frozen=True, slots=True)
class TaskView:
    """One attempt of one task, as a pass sees it."""

    id: UUID
    ref: str
    iteration: str
    attempt: int
    name: str
    type: str
    status: TaskStatus
    consumed: bool
    input: Any
    output: Any
    reason: str | None
    cause: str | None
    state: dict[str, Any] | None
    spec: dict[str, Any] | None
    scheduled_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    first_scheduled_at: datetime | None
    sub_workflow_id: UUID | None
    worker_id: str | None
    domain: str | None
    poll_count: int


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """A run, as a pass sees it."""

    id: UUID
    namespace: str
    name: str
    version: int
    status: WorkflowStatus
    input: dict[str, Any]
    output: Any
    variables: dict[str, Any]
    correlation_id: str | None
    priority: int
    parent_workflow_id: UUID | None
    parent_task_id: UUID | None
    task_to_domain: dict[str, str]
    created_at: datetime
    root_ended: bool
    has_any_task: bool
    depth: int
    reason: str | None
    created_by: str | None


Excess = Callable[[str, Any], str | None]
"""(`task output` and the like, value) -> why the value is too large to be kept, or None."""


def _anything(what: str, value: Any) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class State:
    """Everything a pass may look at.

    `tasks` holds all open rows, all unconsumed ended rows, and the newest rows of the refs in `loaded`;
    a ref that is in neither is unknown, not absent. `originals` are completed tasks to be undone, each by the id of the
    one that finished after it.
    """

    workflow: WorkflowView
    tasks: tuple[TaskView, ...]
    loaded: frozenset[str]
    now: datetime
    env: dict[str, Any]
    new_id: Callable[[], UUID]
    originals: Mapping[UUID, TaskView | None] = field(default_factory=dict)
    excess: Excess = _anything
