"""Verbs of the inbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from orchestrator.db import json, sql
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("workflows", "human_task.sql")


@dataclass(frozen=True, slots=True)
class StoredHumanTask:
    """An open HUMAN task, whose it is, and who has claimed it."""

    id: UUID
    workflow_id: UUID
    workflow_name: str
    ref: str
    iteration: str
    name: str
    assignee: str | None
    candidate_users: list[str]
    candidate_groups: list[str]
    claimed_by: str | None
    claimed_at: datetime | None
    created_at: datetime
    due_at: datetime | None
    escalated_at: datetime | None


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who wants a task: a user or `key:NAME`, their groups, and whether they may have `anyone`'s."""

    name: str
    groups: tuple[str, ...] = ()
    anyone: bool = False


@dataclass(frozen=True, slots=True)
class InboxFilter:
    """Which tasks of a namespace to list; None is all."""

    person: str | None = None
    group: str | None = None
    claimed: bool | None = None
    workflow_name: str | None = None


class HumanTaskManager(VerbManager):
    """Open HUMAN tasks. Lock order: level 7."""

    @requires_transaction
    def insert(self, rows: Sequence[dict[str, Any]]) -> None:
        """Put tasks into the inbox as they are made. [INV-11]"""
        _SQL.insert.send(rows=json.dumps(rows))

    @requires_transaction
    def delete_for_tasks(self, tasks: Sequence[tuple[UUID, UUID]]) -> None:
        """Take (run, task) rows that ended out of the inbox. [INV-11]"""
        _SQL.delete_for_tasks.send(workflow_ids=[w for w, _ in tasks], ids=[t for _, t in tasks])

    @requires_transaction
    def claim(self, workflow_id: UUID, task_id: UUID, who: Claimant) -> StoredHumanTask | None:
        """Claim a task for somebody who may have it; None when it is closed, held by another, or not theirs. [INV-9]"""
        return _task(
            _SQL.claim.row(
                workflow_id=workflow_id, id=task_id, who=who.name, groups=list(who.groups), anyone=who.anyone
            )
        )

    @requires_transaction
    def release(self, workflow_id: UUID, task_id: UUID, who: Claimant) -> StoredHumanTask | None:
        """Give a claim up; None when there is none that the caller may give up."""
        return _task(_SQL.release.row(workflow_id=workflow_id, id=task_id, who=who.name, anyone=who.anyone))

    @requires_transaction
    def reassign(
        self, workflow_id: UUID, task_id: UUID, assignee: str | None, users: Sequence[str], groups: Sequence[str]
    ) -> StoredHumanTask | None:
        """Give a task to others, and end its claim; None when it is closed."""
        return _task(
            _SQL.reassign.row(
                workflow_id=workflow_id, id=task_id, assignee=assignee, users=list(users), groups=list(groups)
            )
        )

    @requires_transaction
    def escalate(self, workflow_id: UUID, task_id: UUID, user: str | None, group: str | None) -> str | None:
        """Give an overdue task to a user or a group; returns who holds it and goes on with it."""
        groups = [] if group is None else [group]
        row = _SQL.escalate.row(workflow_id=workflow_id, id=task_id, assignee=user, groups=groups)
        return row[0] if row else None

    def find(self, namespace: str, task_id: UUID) -> StoredHumanTask | None:
        """An open task."""
        return _task(_SQL.find.row(namespace=namespace, id=task_id))

    def page(self, namespace: str, wanted: InboxFilter, *, after: UUID | None, batch: int) -> list[StoredHumanTask]:
        """Open tasks, oldest first, after one of them."""
        rows = _SQL.page.rows(
            namespace=namespace, person=wanted.person, group=wanted.group, claimed=wanted.claimed,
            workflow_name=wanted.workflow_name, after=after, batch=batch,
        )  # fmt: skip
        return [StoredHumanTask(*row) for row in rows]


def _task(row: tuple[Any, ...] | None) -> StoredHumanTask | None:
    return StoredHumanTask(*row) if row else None
