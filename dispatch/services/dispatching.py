"""The one door for workers: what they report; leases themselves are in `leasing`. [INV-7a, INV-7b]

Every write by a holder carries its lease token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from dispatch.models import Permit, QueuedTask, WorkerPoll
from dispatch.services import limiting
from dispatch.services.answers import misfit
from dispatch.services.leasing import (
    lease_system_tasks,
    lease_tasks,
    park,
    reclaim_next_batch,
    release_tasks,
    renew,
    renew_leases,
)
from orchestrator.db.hints import DECIDE, QUEUE, hint
from orchestrator.db.transactions import transaction
from orchestrator.errors import LeaseLost, NotFound
from orchestrator.services.secrets import Masker
from workflows import offloading, payloads
from workflows.engine.state import TaskStatus
from workflows.managers.history import NewEvent
from workflows.managers.offloaded import write_ahead
from workflows.managers.task import FoundTask, TaskEnd
from workflows.models import DecideQueue, HistoryEvent, Task, TaskLog
from workflows.transitions import end_tasks

__all__ = [
    "ReportOutcome",
    "TaskReport",
    "append_logs",
    "lease_system_tasks",
    "lease_tasks",
    "queue_sizes",
    "read_logs",
    "read_polls",
    "reclaim_next_batch",
    "record_polls",
    "release_tasks",
    "renew",
    "renew_leases",
    "report",
]


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a worker says of a task. Without a token it is fenced by the worker's id; `callback_seconds` is for IN_PROGRESS,
    as is `awaits`: the work is done, and others will end the task.
    """

    task_id: UUID
    workflow_id: UUID | None
    status: str
    lease_token: UUID | None = None
    worker_id: str | None = None
    output: dict[str, Any] | None = None
    reason: str | None = None
    callback_seconds: int = 0
    logs: tuple[tuple[str, datetime | None], ...] = ()
    extend: bool = False
    awaits: bool = False


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    """Whether a report was applied, and why not."""

    task_id: UUID
    applied: bool
    refusal: str | None = None


@dataclass(slots=True)
class _Sorted:
    """The reports of a batch, by what they do."""

    ends: list[tuple[TaskReport, FoundTask, UUID | None]] = field(default_factory=list)
    defers: list[tuple[TaskReport, FoundTask, UUID]] = field(default_factory=list)
    parks: list[tuple[TaskReport, FoundTask, UUID]] = field(default_factory=list)
    renewals: list[tuple[TaskReport, FoundTask, UUID]] = field(default_factory=list)
    refused: list[tuple[TaskReport, FoundTask, str]] = field(default_factory=list)


def report(reports: Sequence[TaskReport], *, strict: bool) -> list[ReportOutcome]:
    """Apply results of tasks, in one transaction; raises NotFound for an unknown task, Invalid for an answer
    that does not fit a HUMAN task's form.

    A late result changes no state and is kept in the history; with `strict` it raises LeaseLost. Without a token a
    queued task that nobody holds may still be ended. A task named twice takes its turns in that order.
    """
    outcomes: dict[int, ReportOutcome] = {}
    for turn in _turns(reports):
        outcomes.update(zip(turn, _apply([reports[position] for position in turn]), strict=True))
    lost = {outcome.task_id: outcome.refusal for outcome in outcomes.values() if not outcome.applied}
    if strict and lost:
        raise LeaseLost(task_id=next(iter(lost)), refused=lost)
    return [outcomes[position] for position in range(len(reports))]


def _turns(reports: Sequence[TaskReport]) -> list[list[int]]:
    """Positions in groups that name no task twice; nearly always one group."""
    turns: list[list[int]] = []
    seen: Counter[UUID] = Counter()
    for position, one in enumerate(reports):
        turn = seen[one.task_id]
        seen[one.task_id] += 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(position)
    return turns


def _apply(reports: Sequence[TaskReport]) -> list[ReportOutcome]:
    found = _find(reports)
    for r in reports:
        wrong = misfit(r.task_id, found[r.task_id], r.status, r.output)
        if wrong is not None:
            raise wrong
    reports = [_kept(one, found[one.task_id].namespace) for one in _masked(reports, found)]
    runs = {task.workflow_id for task in found.values()}
    gated = any(_ends(r) or r.awaits for r in reports)
    with transaction():
        if gated:
            DecideQueue.sql.enqueue(runs)
        todo = _sort(reports, found)
        _end(todo)
        _park(todo)
        _defer(todo)
        _renew(todo)
        refused = {r.task_id: reason for r, _, reason in todo.refused}
        _log([(r, found[r.task_id]) for r in reports if r.task_id not in refused])
        if gated:
            _keep_refusals(todo)
    if todo.refused and not gated:
        with transaction():  # a gate may not be waited for behind the queue rows of the first one (INV-12)
            DecideQueue.sql.enqueue(task.workflow_id for _, task, _ in todo.refused)
            _keep_refusals(todo)
    return [ReportOutcome(r.task_id, r.task_id not in refused, refused.get(r.task_id)) for r in reports]


def _find(reports: Sequence[TaskReport]) -> dict[UUID, FoundTask]:
    found = Task.sql.find(r.task_id for r in reports)
    for r in reports:
        task = found.get(r.task_id)
        if task is None or (r.workflow_id is not None and task.workflow_id != r.workflow_id):
            raise NotFound(f"Task not found for taskId: {r.task_id}", task_id=r.task_id)
    return found


def _masked(reports: Sequence[TaskReport], found: dict[UUID, FoundTask]) -> list[TaskReport]:
    """The reports without the values of secrets: what a worker was handed must not come back to be stored."""
    maskers = {namespace: Masker(namespace) for namespace in {t.namespace for t in found.values() if t.has_secrets}}
    return [
        _without(masker, r) if (masker := maskers.get(found[r.task_id].namespace)) is not None else r for r in reports
    ]


def _without(masker: Masker, r: TaskReport) -> TaskReport:
    return replace(
        r,
        output=masker.value(r.output),
        reason=None if r.reason is None else masker.text(r.reason),
        logs=tuple((masker.text(line), at) for line, at in r.logs),
    )


def _kept(r: TaskReport, namespace: str) -> TaskReport:
    """The report, or the final failure of an attempt whose output cannot be kept: another one would not help. A large
    output is written to the store already, while nothing is locked."""
    if r.extend:
        return r
    size, wrong = payloads.weigh("task output", r.output)
    if not wrong:
        most = offloading.most()
        if most is not None and size > most:
            write_ahead(namespace, r.output)
        return r
    reason = f"{wrong}; {r.reason}" if r.reason else wrong
    return replace(r, status="FAILED_WITH_TERMINAL_ERROR", output=None, reason=reason, callback_seconds=0)


def _ends(report_: TaskReport) -> bool:
    return TaskStatus(report_.status).terminal


def _sort(reports: Sequence[TaskReport], found: dict[UUID, FoundTask]) -> _Sorted:
    """Choose the fence of each report: its token, or the present holder's if the worker is the same."""
    todo = _Sorted()
    holders = QueuedTask.sql.holders(r.task_id for r in reports) if _locks_first(reports) else {}
    for r in reports:
        task = found[r.task_id]
        holder = holders.get(r.task_id)
        token = r.lease_token or (holder[0] if holder else None)
        stranger = (
            holder is not None and r.lease_token is None and r.worker_id and holder[1] and r.worker_id != holder[1]
        )
        if TaskStatus(task.status).terminal:
            todo.refused.append((r, task, f"the task had ended {task.status}"))
        elif stranger:
            todo.refused.append((r, task, f"the task is leased to worker {holder[1] if holder else None}"))
        elif _ends(r):
            todo.ends.append((r, task, token))
        elif token is None:
            todo.refused.append((r, task, "the task is not leased"))
        elif r.extend:
            todo.renewals.append((r, task, token))
        elif r.awaits:
            todo.parks.append((r, task, token))
        else:
            todo.defers.append((r, task, token))
    return todo


def _locks_first(reports: Sequence[TaskReport]) -> bool:
    """Whether the queue rows are locked before they are written: to stop a holder that is fenced by name, and where
    several statements would each lock some of them, which is not in one order. [INV-12]"""
    return any(r.lease_token is None for r in reports) or len({(_ends(r), r.extend, r.awaits) for r in reports}) > 1


def _end(todo: _Sorted) -> None:
    """Queue rows first (the fence), then the tasks; a task no worker holds is ended by its state alone."""
    if not todo.ends:
        return
    held = [(r.task_id, token) for r, _, token in todo.ends if token is not None]
    acknowledged = {task_id for task_id, _ in QueuedTask.sql.acknowledge(held)} if held else set()
    allowed = [(r, task) for r, task, token in todo.ends if token is None or r.task_id in acknowledged]
    lost = [(r, task) for r, task, token in todo.ends if token is not None and r.task_id not in acknowledged]
    ended = {
        task.id
        for task in end_tasks(
            [
                TaskEnd(r.task_id, task.workflow_id, r.status, r.output, r.reason, worker_id=r.worker_id)
                for r, task in allowed
            ]
        )
    }
    todo.refused += [(r, task, "its lease was lost") for r, task in lost]
    todo.refused += [(r, task, "the task had ended") for r, task in allowed if r.task_id not in ended]
    hint(DECIDE)
    if limiting.may_free((task.namespace, task.queue or "", task.type != "SIMPLE") for _, task in allowed):
        hint(QUEUE)


def _park(todo: _Sorted) -> None:
    if not todo.parks:
        return
    left = park([(r.task_id, token, task.workflow_id, task.namespace, r.output) for r, task, token in todo.parks])
    todo.refused += [(r, task, "its lease was lost") for r, task, _ in todo.parks if r.task_id not in left]


def _defer(todo: _Sorted) -> None:
    """Back to the queue for a later callback, output kept; the fence comes first."""
    if not todo.defers:
        return
    kept = {
        task_id for task_id, _ in QueuedTask.sql.defer([(r.task_id, t, r.callback_seconds) for r, _, t in todo.defers])
    }
    leases = [
        (task.workflow_id, r.task_id, token, r.output, r.callback_seconds)
        for r, task, token in todo.defers
        if r.task_id in kept
    ]
    if leases:
        Task.sql.reset(leases)
        Permit.sql.release(lease[1] for lease in leases)
        hint(QUEUE)
    todo.refused += [(r, task, "its lease was lost") for r, task, _ in todo.defers if r.task_id not in kept]


def _renew(todo: _Sorted) -> None:
    if not todo.renewals:
        return
    renewed = renew([(r.task_id, token) for r, _, token in todo.renewals], renewed=False)
    todo.refused += [(r, task, "its lease was lost") for r, task, _ in todo.renewals if r.task_id not in renewed]


def append_logs(task_id: UUID, lines: Sequence[str], *, lease_token: UUID | None = None) -> None:
    """Append log lines to a task; with a token, only while it is the current lease's. Raises NotFound, LeaseLost."""
    with transaction():
        if lease_token is not None:
            QueuedTask.sql.hold(task_id)  # the lease stands still while its token is compared (rule S)
        found = Task.sql.find([task_id]).get(task_id)
        if found is None:
            raise NotFound(f"Task not found for taskId: {task_id}", task_id=task_id)
        if lease_token is not None and found.lease_token != lease_token:
            raise LeaseLost(task_id=task_id)
        masker = Masker(found.namespace) if found.has_secrets else None
        shown = [masker.text(line) if masker else line for line in lines]
        TaskLog.sql.append([(found.workflow_id, task_id, line, None) for line in shown])


def _log(reports: Sequence[tuple[TaskReport, FoundTask]]) -> None:
    lines = [(task.workflow_id, r.task_id, line, at) for r, task in reports for line, at in r.logs[:100]]
    if lines:
        TaskLog.sql.append(lines)


def _keep_refusals(todo: _Sorted) -> None:
    """People look for late results: they stay in the history, under the run's gate."""
    HistoryEvent.sql.append(
        [
            NewEvent(
                task.workflow_id,
                "task.late_result_refused",
                {"status": r.status, "worker_id": r.worker_id, "reason": reason, "output": r.output},
                r.task_id,
                task.ref,
            )
            for r, task, reason in todo.refused
        ]
    )


def record_polls(polls: Sequence[tuple[str, str, str | None, str]]) -> None:
    """Record (namespace, queue, domain, worker) polls, apart from any lease."""
    if polls:
        with transaction():
            WorkerPoll.sql.record(polls)


def read_polls(namespace: str, queue: str | None = None) -> list[tuple[str, str | None, str, datetime]]:
    """(queue, domain, worker, time) of last polls, newest first."""
    return WorkerPoll.sql.read(namespace, queue)


def read_logs(task_id: UUID) -> list[tuple[str, datetime]]:
    """(line, time) of a task's log."""
    return TaskLog.sql.read(task_id)


def queue_sizes(namespace: str, queues: Sequence[str] | None = None) -> dict[str, tuple[int, int]]:
    """Queue -> (waiting, leased)."""
    return QueuedTask.sql.sizes(namespace, queues)


def ready(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """(namespace, queue) -> tasks that may be leased now, counted up to a hundred."""
    return limiting.capped(QueuedTask.sql.ready(keys))


def find_tasks(ids: Iterable[UUID]) -> dict[UUID, FoundTask]:
    """Where tasks are, and on which queue they were."""
    return Task.sql.find(ids)
