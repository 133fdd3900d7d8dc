"""Verbs of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from orchestrator.db import json, sql
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction
from workflows import offloading
from workflows.engine.state import TaskStatus, TaskView
from workflows.managers.offloaded import stored, stored_value

_SQL = sql.load("workflows", "task.sql")
_STATUS = {status.value: status for status in TaskStatus}


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How a task ends; `output` None keeps what it had."""

    id: UUID
    workflow_id: UUID
    status: str
    output: Any = None
    reason: str | None = None
    cause: str | None = None
    consumed: bool = False
    worker_id: str | None = None
    state: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EndedTask:
    """A task that a verb really ended."""

    id: UUID
    workflow_id: UUID
    ref: str
    iteration: str
    attempt: int
    type: str
    status: str
    sub_workflow_id: UUID | None
    namespace: str
    listeners: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task handed to a worker, with its input; JSON columns are decoded, payloads in the store are References."""

    id: UUID
    workflow_id: UUID
    lease_token: UUID
    ref: str
    iteration: str
    attempt: int
    name: str
    type: str
    input: Any
    output: Any
    spec: Any
    listeners: dict[str, Any] | None
    domain: str | None
    priority: int
    poll_count: int
    response_seconds: int
    timeout_seconds: int
    retried_task_id: UUID | None
    first_scheduled_at: datetime
    scheduled_at: datetime
    started_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class FoundTask:
    """Where a task is and who holds it."""

    workflow_id: UUID
    namespace: str
    status: str
    ref: str
    type: str
    queue: str | None
    lease_token: UUID | None
    worker_id: str | None
    sub_workflow_id: UUID | None
    has_secrets: bool
    """Whether its namespace has any."""


@dataclass(frozen=True, slots=True)
class OpenTask:
    """An open task of a run."""

    id: UUID
    ref: str
    iteration: str
    attempt: int
    type: str
    status: str
    queue: str | None
    sub_workflow_id: UUID | None


@dataclass(frozen=True, slots=True)
class OutlineTask:
    """A task without its payloads.

    `state` is read of joins, loops, switches and `dynamic` tasks (made by a fork at run time) only, `joins` of joins.
    """

    id: UUID
    ref: str
    iteration: str
    attempt: int
    type: str
    status: TaskStatus
    ended: bool
    consumed: bool
    sub_workflow_id: UUID | None
    dynamic: bool
    state: dict[str, Any] | None
    joins: list[str] | None

    @property
    def path(self) -> tuple[int, ...]:
        """The iteration as numbers."""
        return tuple(map(int, self.iteration.split("."))) if self.iteration else ()


def _view(row: tuple[Any, ...]) -> tuple[UUID, TaskView]:
    load, opened = json.loads, offloading.load
    (workflow_id, id, ref, iteration, attempt, name, type, status, consumed, input, output, state, spec, reason, cause,
     child, worker_id, domain, poll_count, first, scheduled, started, ended) = row  # fmt: skip
    view = TaskView(
        id=id, ref=ref, iteration=iteration, attempt=attempt, name=name, type=type, status=_STATUS[status],
        consumed=consumed, input=opened(input), output=opened(output), reason=reason, cause=cause, state=load(state),
        spec=load(spec), scheduled_at=scheduled, started_at=started, ended_at=ended, first_scheduled_at=first,
        sub_workflow_id=child, worker_id=worker_id, domain=domain, poll_count=poll_count,
    )  # fmt: skip
    return workflow_id, view


def _ended(rows: Iterable[tuple[Any, ...]]) -> list[EndedTask]:
    return [EndedTask(*json.decode(row, 9, 10)) for row in rows]


def _started(row: tuple[Any, ...]) -> StartedTask:
    values = json.decode(row, 10, 12)
    values[8:10] = map(offloading.load, row[8:10])
    return StartedTask(*values)


def _outline(row: tuple[Any, ...]) -> OutlineTask:
    id, ref, iteration, attempt, type, status, ended, consumed, child, dynamic, state, joins = row
    return OutlineTask(
        id, ref, iteration, attempt, type, _STATUS[status], ended, consumed, child, dynamic, json.loads(state),
        json.loads(joins),
    )  # fmt: skip


class TaskManager(VerbManager):
    """Attempts of tasks. Lock order: level 6, after queue rows. What is read has References for payloads in the store."""

    @requires_transaction
    def insert(self, rows: Sequence[dict[str, Any]]) -> set[UUID]:
        """Insert tasks; returns the ids that were not absorbed by the identity. [INV-6a]"""
        return {row[0] for row in _SQL.insert.rows(rows=stored(rows, "input", "output"))}

    def read_frontier(self, ids: Sequence[UUID]) -> list[tuple[UUID, TaskView]]:
        """Open tasks and unconsumed ended ones of runs, as (run, task). [INV-8]"""
        return [_view(row) for row in _SQL.read_frontier.rows(ids=list(ids))]

    def read_refs(self, wanted: Sequence[tuple[UUID, str]]) -> list[tuple[UUID, TaskView]]:
        """The newest row of each (run, ref)."""
        rows = _SQL.read_refs.rows(ids=[w for w, _ in wanted], refs=[r for _, r in wanted])
        return [_view(row) for row in rows]

    def read_original(self, workflow_id: UUID, refs: Sequence[str], *, after: UUID | None) -> TaskView | None:
        """The completed task of these refs that finished before `after`, or last of all."""
        row = _SQL.read_original.row(workflow_id=workflow_id, refs=list(refs), after=after)
        return _view(row)[1] if row else None

    def read_turn(self, workflow_id: UUID, refs: Sequence[str], turns: Sequence[str]) -> list[TaskView]:
        """The newest ended attempts of refs in turns of loops."""
        rows = _SQL.read_turn.rows(workflow_id=workflow_id, refs=list(refs), turns=list(turns))
        return [_view(row)[1] for row in rows]

    def undoing(self, ids: Sequence[UUID]) -> set[UUID]:
        """Which runs undo their tasks."""
        return {row[0] for row in _SQL.undoing.rows(ids=list(ids))}

    def has_any(self, ids: Sequence[UUID]) -> set[UUID]:
        """Which runs have a task at all. [INV-8]"""
        return {row[0] for row in _SQL.has_any.rows(ids=list(ids))}

    @requires_transaction
    def lock(self, tasks: Sequence[tuple[UUID, UUID]]) -> None:
        """Lock (run, task) rows in order, where rows of several runs meet. [INV-12]"""
        _SQL.lock.rows(workflow_ids=[w for w, _ in tasks], ids=[t for _, t in tasks])

    @requires_transaction
    def end(self, ends: Sequence[TaskEnd]) -> list[EndedTask]:
        """End tasks that have not ended; returns those. [INV-7b, INV-11]"""
        return _ended(_SQL.end.rows(rows=stored(ends, "output"), workflow_ids=list({end.workflow_id for end in ends})))

    @requires_transaction
    def restate(self, rows: Sequence[tuple[UUID, UUID, str, str | None]]) -> list[EndedTask]:
        """Give consumed tasks (run, task, status, reason) the status their pass decided; only those that had counted as
        completed have their listeners."""
        data = [{"workflow_id": w, "id": t, "status": s, "reason": r} for w, t, s, r in rows]
        return _ended(_SQL.restate.rows(rows=json.dumps(data), workflow_ids=list({row[0] for row in rows})))

    @requires_transaction
    def update_open(self, rows: Sequence[dict[str, Any]]) -> None:
        """Update the bookkeeping of open operators."""
        _SQL.update_open.send(rows=stored(rows, "output"), workflow_ids=list({row["workflow_id"] for row in rows}))

    @requires_transaction
    def consume(self, tasks: Sequence[tuple[UUID, UUID]]) -> None:
        """Mark exactly the (run, task) rows a pass consumed. [INV-8]"""
        _SQL.consume.send(workflow_ids=[w for w, _ in tasks], ids=[t for _, t in tasks])

    @requires_transaction
    def cancel_open(self, workflow_ids: Sequence[UUID], reason: str | None) -> list[EndedTask]:
        """End every open task of runs that end. [INV-11]"""
        return _ended(_SQL.cancel_open.rows(workflow_ids=list(workflow_ids), reason=reason))

    @requires_transaction
    def start(self, leases: Sequence[tuple[UUID, UUID, UUID]], worker_id: str) -> list[StartedTask]:
        """Start (run, task, token) rows that are SCHEDULED. [INV-7a]"""
        rows = _SQL.start.rows(
            workflow_ids=[w for w, _, _ in leases],
            ids=[t for _, t, _ in leases],
            tokens=[k for _, _, k in leases],
            worker_id=worker_id,
        )
        return [_started(row) for row in rows]

    @requires_transaction
    def unstart(self, tasks: Sequence[tuple[UUID, UUID]]) -> None:
        """Undo the start of (run, task) rows in the transaction that started them. [INV-7c]"""
        _SQL.unstart.send(workflow_ids=[w for w, _ in tasks], ids=[t for _, t in tasks])

    @requires_transaction
    def reset(self, leases: Sequence[tuple[UUID, UUID, UUID, Any, int]]) -> set[UUID]:
        """Put (run, task, token, output, callback seconds) back to SCHEDULED; returns the ids reset. [INV-7a]"""
        rows = _SQL.reset.rows(
            workflow_ids=[x[0] for x in leases],
            ids=[x[1] for x in leases],
            tokens=[x[2] for x in leases],
            outputs=[None if x[3] is None else stored_value(x[0], x[3]) for x in leases],
            callbacks=[x[4] for x in leases],
        )
        return {row[0] for row in rows}

    @requires_transaction
    def park(self, tasks: Sequence[tuple[UUID, UUID, Any]]) -> dict[UUID, datetime | None]:
        """Let (run, task, output) wait for its end off its queue, which it has left; id -> when an answer is due."""
        rows = _SQL.park.rows(
            workflow_ids=[x[0] for x in tasks],
            ids=[x[1] for x in tasks],
            outputs=[None if x[2] is None else stored_value(x[0], x[2]) for x in tasks],
        )
        return dict(rows)

    @requires_transaction
    def touch(self, tasks: Sequence[tuple[UUID, UUID]]) -> None:
        """Show a heartbeat on (run, task) rows."""
        _SQL.touch.send(workflow_ids=[w for w, _ in tasks], ids=[t for _, t in tasks])

    def find(self, ids: Iterable[UUID]) -> dict[UUID, FoundTask]:
        """Where tasks are, known by their ids alone."""
        return {row[0]: FoundTask(*row[1:]) for row in _SQL.find.rows(ids=list(ids))}

    def find_open(self, workflow_id: UUID, ref: str | None = None) -> list[OpenTask]:
        """Open tasks of a run, of one ref or all; newest iteration first."""
        return [OpenTask(*row) for row in _SQL.find_open.rows(workflow_id=workflow_id, ref=ref)]

    def find_pulling(self, workflow_ids: Iterable[UUID]) -> list[tuple[UUID, UUID, Any]]:
        """(run, task, input) of open tasks that wait for messages, oldest first."""
        rows = _SQL.find_pulling.rows(workflow_ids=list(workflow_ids))
        return [(row[0], row[1], offloading.whole(offloading.load(row[2]))) for row in rows]

    def find_awaiting(self, namespace: str, webhook: str) -> list[tuple[UUID, UUID, str, Any]]:
        """(run, task, ref, input) of open tasks that wait for a delivery to this webhook or to any, oldest first."""
        rows = _SQL.find_awaiting.rows(namespace=namespace, webhook=webhook)
        return [(row[0], row[1], row[2], offloading.whole(offloading.load(row[3]))) for row in rows]

    def outline(self, workflow_id: UUID) -> list[OutlineTask]:
        """Every task of a run, without payloads, in the order they were made."""
        return [_outline(row) for row in _SQL.outline.rows(workflow_id=workflow_id)]

    def read_tasks(self, workflow_id: UUID, ids: Iterable[UUID]) -> list[TaskView]:
        """Named tasks of a run."""
        return [_view(row)[1] for row in _SQL.read_tasks.rows(workflow_id=workflow_id, ids=list(ids))]

    @requires_transaction
    def unskip(self, tasks: Sequence[tuple[UUID, str, str, int]]) -> None:
        """Let skipped (run, ref, iteration, attempt) rows be passed over, now that their turn has come."""
        _SQL.unskip.send(
            workflow_ids=[x[0] for x in tasks],
            refs=[x[1] for x in tasks],
            iterations=[x[2] for x in tasks],
            attempts=[x[3] for x in tasks],
        )

    @requires_transaction
    def reopen(self, workflow_id: UUID, ids: Iterable[UUID]) -> int:
        """Let cancelled operator rows go on."""
        return _SQL.reopen.execute(workflow_id=workflow_id, ids=list(ids))

    @requires_transaction
    def delete_for_runs(self, workflow_ids: Sequence[UUID]) -> int:
        """Delete every task of runs that are removed."""
        return _SQL.delete_for_runs.execute(workflow_ids=list(workflow_ids))

    @requires_transaction
    def delete(self, workflow_id: UUID, ids: Iterable[UUID] | None = None) -> int:
        """Delete tasks of a run: the named ones, or all."""
        return _SQL.delete.execute(workflow_id=workflow_id, ids=None if ids is None else list(ids))
