"""Reads behind the question why a run is not moving, one verb each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from orchestrator.db import json, sql

_SQL = sql.load("workflows", "explaining.sql")


@dataclass(frozen=True, slots=True)
class RunPicture:
    """A run with its decide request; `enqueued_at` None means that none waits. `now` is the database's time."""

    status: str
    admitted_at: datetime | None
    created_at: datetime
    reason: str | None
    enqueued_at: datetime | None
    attempts: int | None
    next_attempt_at: datetime | None
    last_error: str | None
    quarantined: bool | None
    now: datetime


@dataclass(frozen=True, slots=True)
class OpenPicture:
    """An open task with its queue row; `queued` False means that it has none. `awaits` is the input of one for a webhook."""

    id: UUID
    ref: str
    iteration: str
    attempt: int
    name: str
    type: str
    status: str
    queue: str | None
    domain: str | None
    sub_workflow_id: UUID | None
    state: dict[str, Any] | None
    awaits: dict[str, Any] | None
    timed: bool
    callback_seconds: int
    queued: bool
    visible_at: datetime | None
    worker_id: str | None
    lease_expires_at: datetime | None
    redeliveries: int | None
    held: bool


@dataclass(frozen=True, slots=True)
class TimerPicture:
    """A deadline of the run or of one of its tasks."""

    id: UUID
    kind: str
    task_id: UUID | None
    due_at: datetime
    attempts: int
    last_error: str | None
    quarantined: bool


@dataclass(frozen=True, slots=True)
class QueuePicture:
    """When somebody last asked for a queue, and how many tasks wait in it (up to a hundred)."""

    queue: str
    last_poll_at: datetime | None
    waiting: int


@dataclass(frozen=True, slots=True)
class ChildPicture:
    """A run that a task waits for."""

    id: UUID
    name: str
    status: str
    ended: bool


@dataclass(frozen=True, slots=True)
class DeliveryPicture:
    """The start of the run `workflow_id`, on its way."""

    workflow_id: UUID
    id: UUID
    attempts: int
    next_attempt_at: datetime
    last_error: str | None
    dead: bool


@dataclass(frozen=True, slots=True)
class DeadEventPicture:
    """An event of the task `id` that became the dead letter `event_id`, on its way to its handlers or to one of them.

    If `incoming`, it is a delivery to the webhook `event`, on its way to the task.
    """

    id: UUID
    ref: str
    iteration: str
    attempt: int
    event: str
    handler: str | None
    incoming: bool
    event_id: UUID
    attempts: int
    last_error: str | None


class ExplainQueries:
    """Pictures of a run; they only read and never wait."""

    def run(self, namespace: str, workflow_id: UUID) -> RunPicture | None:
        """The run, or None when there is no such run in the namespace."""
        row = _SQL.run.row(namespace=namespace, id=workflow_id)
        return RunPicture(*row) if row else None

    def open_tasks(self, workflow_id: UUID, *, batch: int) -> list[OpenPicture]:
        """Its open tasks, oldest first."""
        rows = _SQL.open_tasks.rows(workflow_id=workflow_id, batch=batch)
        return [OpenPicture(*json.decode(row, 10, 12)) for row in rows]

    def unseen_tasks(self, workflow_id: UUID) -> int:
        """How many of its tasks have ended since the last pass."""
        row = _SQL.unseen_tasks.row(workflow_id=workflow_id)
        return int(row[0]) if row else 0

    def timers(self, workflow_id: UUID, *, batch: int) -> list[TimerPicture]:
        """Its deadlines, next first."""
        return [TimerPicture(*row) for row in _SQL.timers.rows(workflow_id=workflow_id, batch=batch)]

    def queues(self, namespace: str, wanted: Sequence[tuple[str, str, str | None]]) -> dict[str, QueuePicture]:
        """The state of (queue, task name, domain) queues, by queue."""
        rows = _SQL.queues.rows(
            namespace=namespace,
            queues=[x[0] for x in wanted],
            names=[x[1] for x in wanted],
            domains=[x[2] for x in wanted],
        )
        return {row[0]: QueuePicture(*row) for row in rows}

    def children(self, ids: Sequence[UUID]) -> dict[UUID, ChildPicture]:
        """Runs that tasks wait for, by id."""
        return {row[0]: ChildPicture(*row) for row in _SQL.children.rows(ids=list(ids))}

    def deliveries(self, workflow_id: UUID, *, batch: int) -> dict[UUID, DeliveryPicture]:
        """Undelivered starts that a run asked for, by the id of the task that asked."""
        rows = _SQL.deliveries.rows(workflow_id=workflow_id, batch=batch)
        return {row[0]: DeliveryPicture(*row[1:]) for row in rows}

    def dead_events(self, namespace: str, workflow_id: UUID, *, batch: int) -> list[DeadEventPicture]:
        """Dead letters of its EVENT tasks, and for those that wait for webhooks; oldest first."""
        rows = _SQL.dead_events.rows(namespace=namespace, workflow_id=workflow_id, batch=batch)
        return [DeadEventPicture(*row) for row in rows]
