"""The one door for workers: lease, renew, report, release, reclaim. [INV-7a, INV-7b]

Leasing and the task's start are one transaction; every write by a holder carries its lease token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog

from dispatch.managers import Lease
from dispatch.models import QueuedTask, WorkerPoll
from orchestrator.conf import conf
from orchestrator.db.hints import DECIDE, QUEUE, TIMER, hint
from orchestrator.db.transactions import transaction
from orchestrator.errors import LeaseLost, NotFound
from workflows.engine.state import TaskStatus
from workflows.managers.history import NewEvent
from workflows.managers.task import FoundTask, StartedTask, TaskEnd
from workflows.managers.timer import NewTimer
from workflows.models import DecideQueue, HistoryEvent, Task, TaskLog, Timer
from workflows.transitions import end_tasks

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a worker says of a task. Without a token it is fenced by the worker's id; `callback_seconds` is for IN_PROGRESS."""

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
    renewals: list[tuple[TaskReport, FoundTask, UUID]] = field(default_factory=list)
    refused: list[tuple[TaskReport, FoundTask, str]] = field(default_factory=list)


def lease_tasks(
    namespace: str, queue: str, *, batch: int, worker_id: str, lease_seconds: int | None = None
) -> list[StartedTask]:
    """Lease and start up to `batch` ready tasks of a queue, highest priority first."""
    seconds = lease_seconds or conf().LEASE_SECONDS
    with transaction():
        return _start(
            QueuedTask.sql.lease(namespace, queue, batch=batch, worker_id=worker_id, lease_seconds=seconds),
            namespace,
            worker_id,
        )


def lease_system_tasks(queues: Sequence[str], *, batch: int, worker_id: str) -> list[StartedTask]:
    """Lease and start tasks of shared queues, of every namespace."""
    with transaction():
        leases = QueuedTask.sql.lease_shared(
            queues, batch=batch, worker_id=worker_id, lease_seconds=conf().LEASE_SECONDS
        )
        return _start(leases, "", worker_id)


def _start(leases: Sequence[Lease], namespace: str, worker_id: str) -> list[StartedTask]:
    """Start the tasks of fresh leases, and arm the deadlines that begin with them."""
    if not leases:
        return []
    started = {
        task.id: task
        for task in Task.sql.start([(lease.workflow_id, lease.id, lease.lease_token) for lease in leases], worker_id)
    }
    dead = [lease.id for lease in leases if lease.id not in started]
    if dead:
        QueuedTask.sql.drop(dead)
    timers = [
        timer for lease in leases if lease.id in started for timer in _timers(lease, started[lease.id], namespace)
    ]
    if timers:
        Timer.sql.insert(timers)
        hint(TIMER)
    return [started[lease.id] for lease in leases if lease.id in started]


def _timers(lease: Lease, task: StartedTask, namespace: str) -> list[NewTimer]:
    found = []
    if lease.response_seconds:
        due = task.updated_at + timedelta(seconds=lease.response_seconds)
        found.append(NewTimer(namespace, "RESPONSE", lease.workflow_id, due, lease.id, lease.lease_token))
    if lease.timeout_seconds and task.poll_count == 1:
        due = task.started_at + timedelta(seconds=lease.timeout_seconds)
        found.append(NewTimer(namespace, "TASK", lease.workflow_id, due, lease.id, lease.lease_token))
    return found


def report(reports: Sequence[TaskReport], *, strict: bool) -> list[ReportOutcome]:
    """Apply results of tasks, in one transaction; raises NotFound for an unknown task.

    A late result changes no state and is kept in the history; with `strict` it raises LeaseLost.
    """
    found = _find(reports)
    runs = {task.workflow_id for task in found.values()}
    with transaction():
        if any(_ends(r) for r in reports):
            DecideQueue.sql.enqueue(runs)
        todo = _sort(reports, found)
        _end(todo)
        _defer(todo)
        _renew(todo)
        _log([(r, found[r.task_id]) for r in reports])
        if any(_ends(r) for r in reports):
            _keep_refusals(todo)
    if todo.refused and not any(_ends(r) for r in reports):
        with transaction():  # a gate may not be waited for behind the queue rows of the first one (INV-12)
            DecideQueue.sql.enqueue(task.workflow_id for _, task, _ in todo.refused)
            _keep_refusals(todo)
    refused = {r.task_id: reason for r, _, reason in todo.refused}
    if strict and refused:
        raise LeaseLost(task_id=next(iter(refused)), refused=refused)
    return [ReportOutcome(r.task_id, r.task_id not in refused, refused.get(r.task_id)) for r in reports]


def _find(reports: Sequence[TaskReport]) -> dict[UUID, FoundTask]:
    found = Task.sql.find(r.task_id for r in reports)
    for r in reports:
        task = found.get(r.task_id)
        if task is None or (r.workflow_id is not None and task.workflow_id != r.workflow_id):
            raise NotFound(f"Task not found for taskId: {r.task_id}", task_id=r.task_id)
    return found


def _ends(report_: TaskReport) -> bool:
    return TaskStatus(report_.status).terminal


def _sort(reports: Sequence[TaskReport], found: dict[UUID, FoundTask]) -> _Sorted:
    """Choose the fence of each report: its token, or the present holder's if the worker is the same."""
    todo = _Sorted()
    holders = QueuedTask.sql.holders(r.task_id for r in reports)
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
        else:
            todo.defers.append((r, task, token))
    return todo


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
        Timer.sql.delete_for_leases([lease[:3] for lease in leases], ["RESPONSE"])
        hint(QUEUE)
    todo.refused += [(r, task, "its lease was lost") for r, task, _ in todo.defers if r.task_id not in kept]


def _renew(todo: _Sorted) -> None:
    if not todo.renewals:
        return
    renewed = renew([(r.task_id, token) for r, _, token in todo.renewals])
    todo.refused += [(r, task, "its lease was lost") for r, task, _ in todo.renewals if r.task_id not in renewed]


def renew_leases(leases: Sequence[tuple[UUID, UUID]]) -> set[UUID]:
    """Extend (task, token) leases; a task that is not in the answer is lost or cancelled, and its worker should stop."""
    with transaction():
        return renew(leases)


def renew(leases: Sequence[tuple[UUID, UUID]]) -> set[UUID]:
    """Inside a transaction: leases, then the tasks' update time, then their response deadlines and no other."""
    held = QueuedTask.sql.renew(leases, lease_seconds=conf().LEASE_SECONDS)
    if held:
        Task.sql.touch([(run, task) for task, run, _, _ in held])
        Timer.sql.postpone([(run, task, token, seconds) for task, run, token, seconds in held if seconds])
    return {task for task, _, _, _ in held}


def release_tasks(leases: Sequence[tuple[UUID, UUID]]) -> None:
    """Hand (task, token) leases back unworked, at once."""
    with transaction():
        kept = QueuedTask.sql.defer([(task, token, 0.0) for task, token in leases])
        tokens = dict(leases)
        held = [(run, task, tokens[task], None, 0) for task, run in kept]
        if held:
            Task.sql.reset(held)
            Timer.sql.delete_for_leases([lease[:3] for lease in held], ["RESPONSE"])
            hint(QUEUE)


def append_logs(task_id: UUID, lines: Sequence[str], *, lease_token: UUID | None = None) -> None:
    """Append log lines to a task; with a token, only while it is the current lease's. Raises NotFound, LeaseLost."""
    with transaction():
        found = Task.sql.find([task_id]).get(task_id)
        if found is None:
            raise NotFound(f"Task not found for taskId: {task_id}", task_id=task_id)
        if lease_token is not None and found.lease_token != lease_token:
            raise LeaseLost(task_id=task_id)
        TaskLog.sql.append([(found.workflow_id, task_id, line, None) for line in lines])


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


def reclaim_next_batch() -> int:
    """Take back leases that expired; an attempt that was handed out too often ends TIMED_OUT."""
    expired = QueuedTask.sql.peek_expired(batch=100)
    if not expired:
        return 0
    settings = conf()
    with transaction():
        taken = QueuedTask.sql.reclaim(expired, max_redeliveries=settings.MAX_REDELIVERIES)
        if taken:
            Task.sql.reset([(run, task, token, None, 0) for task, run, token in taken])
            Timer.sql.delete_for_leases([(run, task, token) for task, run, token in taken], ["RESPONSE"])
            hint(QUEUE)
    log.warning("leases_reclaimed", count=len(taken)) if taken else None
    exhausted = [lease for lease in expired if lease.redeliveries >= settings.MAX_REDELIVERIES]
    for lease in exhausted:
        with transaction():
            DecideQueue.sql.enqueue([lease.workflow_id])
            if QueuedTask.sql.exhaust(lease):
                reason = f"The task was handed out {lease.redeliveries + 1} times and its worker never answered."
                end_tasks([TaskEnd(lease.id, lease.workflow_id, TaskStatus.TIMED_OUT, None, reason, "REDELIVERIES")])
                hint(DECIDE)
    return len(taken) + len(exhausted)


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
