"""What a decision asks for: frozen commands, applied by the pass in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from workflows.engine.state import TaskStatus, WorkflowStatus


@dataclass(frozen=True, slots=True)
class TimerSpec:
    """A deadline to arm with its task: WAIT, POLL, TASK, TOTAL, or DEADLINE of a HUMAN."""

    kind: str
    due: datetime


@dataclass(frozen=True, slots=True)
class Inbox:
    """What the inbox shows of an open HUMAN task: whose it is, and when it is due."""

    workflow_name: str
    assignee: str | None = None
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What must be delivered after the commit, if the task it belongs to was really inserted. [INV-6d]"""

    topic: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScheduleTask:
    """Make a task; `queue` None means that no worker runs it. Delays and time-outs are in seconds."""

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
    queue: str | None = None
    domain: str | None = None
    delay_seconds: float = 0
    priority: int = 0
    response_seconds: int = 0
    timeout_seconds: int = 0
    retried_task_id: UUID | None = None
    first_scheduled_at: datetime | None = None
    sub_workflow_id: UUID | None = None
    inbox: Inbox | None = None
    timers: tuple[TimerSpec, ...] = ()
    effects: tuple[Effect, ...] = ()
    listeners: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class UpdateTask:
    """End an open operator, keep its books (a status that is not terminal), or restate an ended task."""

    id: UUID
    status: TaskStatus
    output: Any = None
    reason: str | None = None
    state: dict[str, Any] | None = None
    consumed: bool = False


@dataclass(frozen=True, slots=True)
class EndRun:
    """End the run; its open tasks are cancelled by whoever applies this.

    `undoable` names tasks with a compensation (None: there can be none): if any of them has completed, the run is not
    ended yet, and undoes those first.
    """

    status: WorkflowStatus
    output: Any = None
    reason: str | None = None
    failed_refs: tuple[str, ...] = ()
    failure_workflow: dict[str, Any] | None = None
    undoable: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """Something people should see in the history; nothing else changes."""

    kind: str
    ref: str
    message: str


Command = ScheduleTask | UpdateTask | EndRun | Alert


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass does to one run.

    `needs` names refs whose rows must be read before the decision can be made, and `original_after` the task before which
    the one to undo finished (nothing else is set then);
    `again` asks for one more pass; `stuck` names what never ran when nothing is left that could wake the run. [INV-10]
    """

    commands: tuple[Command, ...] = ()
    consumed: tuple[UUID, ...] = ()
    variables: dict[str, Any] | None = None
    root_ended: bool = False
    needs: frozenset[str] = frozenset()
    original_after: UUID | None = None
    stuck: tuple[str, ...] = ()
    again: bool = False

    @property
    def noop(self) -> bool:
        """Whether applying it would change nothing."""
        return not (
            self.commands or self.consumed or self.needs or self.again or self.original_after
            or self.variables is not None
        )  # fmt: skip
