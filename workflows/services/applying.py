"""Applies decisions: one statement per table for the whole batch. Called by the evaluation, inside its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog

from dispatch.models import QueuedTask
from orchestrator.db.hints import QUEUE, hint
from workflows.engine.commands import Alert, Decision, EndRun, ScheduleTask, UpdateTask
from workflows.engine.state import TaskStatus
from workflows.managers.execution import LockedExecution, Progress, RunEnd
from workflows.managers.history import NewEvent
from workflows.managers.task import TaskEnd
from workflows.models import Execution, HistoryEvent, Task
from workflows.services.revisions import blueprint_for
from workflows.transitions import NewTask, end_runs, end_tasks, make_tasks, restate_tasks, run_end

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Decided:
    """A run and what was decided for it."""

    run: LockedExecution
    decision: Decision


def ends_run(decision: Decision) -> bool:
    """Whether a decision ends its run, now or when its completed tasks are undone."""
    return bool(decision.commands) and isinstance(decision.commands[-1], EndRun)


def apply_decisions(decided: Sequence[Decided]) -> set[UUID]:
    """Write the decisions of a batch; returns the runs that need one more pass. [INV-3, INV-6a, INV-8]"""
    made: list[NewTask] = []
    ended: list[TaskEnd] = []
    restated: list[tuple[UUID, UUID, str, str | None]] = []
    updated: list[dict[str, Any]] = []
    consumed: list[tuple[UUID, UUID]] = []
    alerts: list[NewEvent] = []
    progress: list[Progress] = []
    finished: list[tuple[LockedExecution, RunEnd]] = []
    for item in decided:
        run, decision = item.run, item.decision
        consumed += [(run.id, task_id) for task_id in decision.consumed]
        already = set(decision.consumed)
        for command in decision.commands:
            if isinstance(command, ScheduleTask):
                made.append((run.id, run.namespace, run.priority, command))
            elif isinstance(command, UpdateTask):
                _sort_update(run.id, command, command.id in already, ended, restated, updated)
            elif isinstance(command, Alert):
                alerts.append(
                    NewEvent(run.id, "task.alert", {"kind": command.kind, "message": command.message}, ref=command.ref)
                )
            elif isinstance(command, EndRun):
                finished.append(_finish(run, decision, command))
        if decision.stuck:
            _report_stuck(run, decision)
        if not ends_run(decision) or finished[-1][1].undoable is not None:
            progress.append(Progress(run.id, decision.root_ended, decision.variables))
    if progress:
        Execution.sql.progress(progress)
    end_tasks(ended)
    if restated:
        restate_tasks(restated)
    if updated:
        Task.sql.update_open(updated)
    if consumed:
        Task.sql.consume(consumed)
    caps = _caps(decided)
    absorbed = make_tasks(made, held=caps)
    if caps:
        QueuedTask.sql.let_through(list(caps.items()))
        hint(QUEUE)
    HistoryEvent.sql.append(alerts)
    end_runs(finished)
    return absorbed


def _caps(decided: Sequence[Decided]) -> dict[UUID, int]:
    """Run -> its maxConcurrentTasks, of those that have one."""
    blueprints = blueprint_for(item.run.revision_id for item in decided)
    return {
        item.run.id: most
        for item in decided
        if (found := blueprints.get(item.run.revision_id)) and (most := found.definition.get("maxConcurrentTasks"))
    }


def _sort_update(
    workflow_id: UUID,
    command: UpdateTask,
    already_ended: bool,
    ended: list[TaskEnd],
    restated: list[tuple[UUID, UUID, str, str | None]],
    updated: list[dict[str, Any]],
) -> None:
    """An update of a task that ended before restates it; of an open one, ends it or keeps its books."""
    status = TaskStatus(command.status)
    if already_ended:
        restated.append((workflow_id, command.id, status, command.reason))
    elif status.terminal:
        ended.append(
            TaskEnd(
                command.id,
                workflow_id,
                status,
                command.output,
                command.reason,
                consumed=command.consumed,
                state=command.state,
            )
        )
    else:
        updated.append({"workflow_id": workflow_id, "id": command.id, "state": command.state, "output": command.output})


def _finish(run: LockedExecution, decision: Decision, command: EndRun) -> tuple[LockedExecution, RunEnd]:
    return run_end(
        run,
        command.status,
        output=command.output,
        reason=command.reason,
        failed_refs=tuple(command.failed_refs),
        variables=decision.variables,
        failure_workflow=command.failure_workflow,
        root_ended=decision.root_ended,
        undoable=command.undoable,
    )


def _report_stuck(run: LockedExecution, decision: Decision) -> None:
    """INV-10: what cannot be proved complete is reported with what is missing, never called COMPLETED."""
    log.error("run_stuck", workflow_id=str(run.id), missing=list(decision.stuck))
    HistoryEvent.sql.append([NewEvent(run.id, "workflow.stuck", {"missing": list(decision.stuck)})])
