"""Verbs of runs."""

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
from workflows.managers.offloaded import stored, stored_value

_SQL = sql.load("workflows", "execution.sql")


@dataclass(frozen=True, slots=True)
class NewExecution:
    """A run to insert; `admitted` False leaves it waiting for admission."""

    id: UUID
    namespace: str
    name: str
    version: int
    revision_id: UUID
    input: Any
    variables: dict[str, Any]
    priority: int = 0
    correlation_id: str | None = None
    idempotency_key: str | None = None
    task_to_domain: dict[str, str] | None = None
    parent_workflow_id: UUID | None = None
    parent_task_id: UUID | None = None
    depth: int = 0
    created_by: str | None = None
    attributes: dict[str, Any] | None = None
    admitted: bool = True


@dataclass(frozen=True, slots=True)
class LockedExecution:
    """A run under its row lock; JSON columns are decoded, payloads in the store are References."""

    id: UUID
    namespace: str
    name: str
    version: int
    revision_id: UUID
    status: str
    priority: int
    correlation_id: str | None
    input: Any
    output: Any
    variables: dict[str, Any]
    task_to_domain: dict[str, str]
    parent_workflow_id: UUID | None
    parent_task_id: UUID | None
    depth: int
    root_ended: bool
    reason: str | None
    created_by: str | None
    created_at: datetime
    admitted_at: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Progress:
    """What a pass leaves of a run that goes on."""

    id: UUID
    root_ended: bool
    variables: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ends, whatever the cause; `undoable` are tasks to undo before that, if they have completed."""

    id: UUID
    status: str
    output: Any = None
    reason: str | None = None
    failed_refs: tuple[str, ...] = ()
    variables: dict[str, Any] | None = None
    failure_workflow_id: UUID | None = None
    root_ended: bool = False
    failure_workflow_name: str | None = None
    failure_workflow_version: int | None = None
    undoable: tuple[str, ...] | None = None


def _locked(row: tuple[Any, ...]) -> LockedExecution:
    values = json.decode(row, 10, 12)
    values[8:10] = map(offloading.load, row[8:10])
    return LockedExecution(*values)


class ExecutionManager(VerbManager):
    """Runs. Lock order: level 4, by id, after their gates; never the parent's row."""

    def clock(self) -> datetime:
        """The database's time."""
        row = _SQL.clock.row()
        assert row is not None
        moment: datetime = row[0]
        return moment

    @requires_transaction
    def insert(self, runs: Sequence[NewExecution]) -> None:
        """Insert runs; their gates are enqueued by the caller in the same transaction."""
        rows = [
            {**{f: getattr(run, f) for f in NewExecution.__slots__}, "task_to_domain": run.task_to_domain or {}}
            for run in runs
        ]
        _SQL.insert.send(rows=stored(rows, "input", run="id"))

    @requires_transaction
    def lock(self, ids: Iterable[UUID]) -> list[LockedExecution]:
        """Lock runs in id order. [INV-4, INV-12]"""
        return [_locked(row) for row in _SQL.lock.rows(ids=sorted(ids))]

    @requires_transaction
    def progress(self, rows: Sequence[Progress]) -> None:
        """Record that a pass went by."""
        _SQL.progress.send(rows=json.dumps(rows), ids=[row.id for row in rows])

    @requires_transaction
    def finish(self, ends: Sequence[RunEnd]) -> None:
        """End runs that have not ended. [INV-11]"""
        _SQL.finish.send(rows=stored(ends, "output", run="id"), ids=[end.id for end in ends])

    @requires_transaction
    def set_status(self, workflow_id: UUID, status: str, *, expected: Sequence[str]) -> bool:
        """Move a run between RUNNING and PAUSED; False when it is in neither expected status."""
        return _SQL.set_status.execute(id=workflow_id, status=status, expected=list(expected)) == 1

    @requires_transaction
    def reopen(
        self,
        workflow_id: UUID,
        *,
        revision_id: UUID | None = None,
        version: int | None = None,
        input: Any = None,
        attributes: dict[str, Any] | None = None,
        variables: dict[str, Any] | None = None,
        correlation_id: str | None = None,
    ) -> bool:
        """Bring an ended run back to RUNNING; `attributes` are those of its input by its definition, both perhaps new."""
        return (
            _SQL.reopen.execute(
                id=workflow_id,
                revision_id=revision_id,
                version=version,
                input=None if input is None else stored_value(workflow_id, input),
                attributes=None if attributes is None else json.dumps(attributes),
                variables=None if variables is None else json.dumps(variables),
                correlation_id=correlation_id,
            )
            == 1
        )

    @requires_transaction
    def admit(self, ids: Iterable[UUID]) -> list[UUID]:
        """Let waiting runs run; returns those that had not ended."""
        return sorted(row[0] for row in _SQL.admit.rows(ids=sorted(ids)))

    @requires_transaction
    def set_variables(self, workflow_id: UUID, variables: dict[str, Any]) -> int:
        """Merge variables into a run's."""
        return _SQL.set_variables.execute(id=workflow_id, variables=json.dumps(variables))

    @requires_transaction
    def delete(self, ids: Sequence[UUID]) -> int:
        """Delete runs that have ended; returns how many."""
        return _SQL.delete.execute(ids=list(ids))

    def parent_of(self, workflow_id: UUID) -> tuple[str, UUID | None, UUID | None] | None:
        """(namespace, parent run, parent task) of a run, or None when there is no such run."""
        row = _SQL.parent_of.row(id=workflow_id)
        return (row[0], row[1], row[2]) if row else None

    def peek_finished(
        self, floor: UUID, *, completed: datetime, failed: datetime, batch: int, ids: Sequence[UUID] | None = None
    ) -> list[UUID]:
        """Runs (of `ids`, if given) below `floor` that ended before their moment, and whose parents did too; unlocked."""
        among = None if ids is None else list(ids)
        rows = _SQL.peek_finished.rows(floor=floor, completed=completed, failed=failed, batch=batch, ids=among)
        return [row[0] for row in rows]

    def stuck(self, *, idle: float, batch: int) -> list[tuple[str, UUID]]:
        """(namespace, run) of runs that nothing could ever wake or end, idle for `idle` seconds: each is a bug."""
        return [(row[0], row[1]) for row in _SQL.stuck.rows(idle=idle, batch=batch)]
