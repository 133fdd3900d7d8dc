"""Deadlines: one transaction per firing, in the written lock order, with the timer row as the fence. [INV-13]"""

from __future__ import annotations

import structlog
from django.db import InterfaceError, OperationalError

from dispatch.models import QueuedTask
from orchestrator.conf import conf
from orchestrator.db.hints import DECIDE, hint
from orchestrator.db.transactions import transaction
from orchestrator.runtime.metrics import LATENESS
from workflows.engine.blueprint import Blueprint
from workflows.engine.retries import policy_for
from workflows.engine.state import TaskStatus, WorkflowStatus
from workflows.managers.execution import LockedExecution
from workflows.managers.history import NewEvent
from workflows.managers.task import TaskEnd
from workflows.managers.timer import DueTimer
from workflows.models import DecideQueue, Execution, HistoryEvent, Task, Timer
from workflows.services.escalating import pass_deadline
from workflows.services.revisions import blueprint_for
from workflows.transition_rows import failure_of
from workflows.transitions import end_runs, end_tasks, run_end, stop_children

log = structlog.get_logger(__name__)

_REASONS = {
    "TASK": ("TASK_TIMEOUT", "The task ran longer than timeoutSeconds."),
    "POLL": ("POLL_TIMEOUT", "No worker polled the task within pollTimeoutSeconds."),
    "RESPONSE": ("RESPONSE_TIMEOUT", "Nobody completed the task within responseTimeoutSeconds of its call."),
    "TOTAL": ("TOTAL_TIMEOUT", "The task's attempts took longer than totalTimeoutSeconds."),
}


class NotDue(Exception):
    """Somebody ended, fired or postponed the timer meanwhile: nothing of this firing is kept."""


def fire_next_batch() -> int:
    """Fire the timers that are due; one that throws backs off by itself."""
    fired = 0
    for timer in Timer.sql.peek_due(batch=100):
        try:
            with transaction():
                _fire(timer)
            fired += 1
            LATENESS.labels(timer.kind).observe(max(0.0, (timer.now - timer.due_at).total_seconds()))
        except NotDue:
            continue
        except (InterfaceError, OperationalError):
            raise  # the connection is at fault, not the timer: the loop backs off and nothing is recorded
        except Exception as error:
            log.exception("timer_failed", timer_id=str(timer.id), kind=timer.kind)
            with transaction():
                Timer.sql.record_failure(
                    timer.id, f"{type(error).__name__}: {error}", max_attempts=conf().DECIDE_MAX_ATTEMPTS
                )
    return fired


def _fire(timer: DueTimer) -> None:
    """Gate, run, then the task's rows, then the timer row; zero rows there undoes the rest."""
    parent = Execution.sql.parent_of(timer.workflow_id)
    gates = [timer.workflow_id]
    if timer.kind == "WORKFLOW" and parent is not None and parent[1] is not None:
        gates.append(parent[1])
    DecideQueue.sql.enqueue(gates)
    runs = Execution.sql.lock([timer.workflow_id])
    if runs and not WorkflowStatus(runs[0].status).terminal:
        if timer.kind == "WORKFLOW":
            _end_run(timer, runs[0])
            return
        _end_task(timer, runs[0])
        return
    _claim(timer)


def _claim(timer: DueTimer) -> None:
    if not Timer.sql.claim(timer.id):
        raise NotDue


def _end_run(timer: DueTimer, run: LockedExecution) -> None:
    _claim(timer)
    blueprint = _blueprint(run)
    definition = blueprint.definition
    seconds = definition.get("timeoutSeconds")
    if (definition.get("timeoutPolicy") or "ALERT_ONLY") == "ALERT_ONLY":
        data = {"kind": "WORKFLOW", "message": f"The workflow runs longer than timeoutSeconds={seconds}."}
        HistoryEvent.sql.append([NewEvent(run.id, "workflow.alert", data)])
        return
    end_runs(
        [
            run_end(
                run,
                WorkflowStatus.TIMED_OUT,
                reason=f"The workflow ran longer than timeoutSeconds={seconds}.",
                failure_workflow=failure_of(definition, run),
                root_ended=run.root_ended,
                undoable=blueprint.undoable,
            )
        ]
    )
    hint(DECIDE)


def _end_task(timer: DueTimer, run: LockedExecution) -> None:
    """The queue row is held before the timer is claimed: a lease or an answer that is under way is waited for."""
    if timer.task_id is None:
        _claim(timer)
        return
    QueuedTask.sql.hold(timer.task_id)
    task = next(iter(Task.sql.read_tasks(run.id, [timer.task_id])), None)
    applies = task is not None and not task.status.terminal and (timer.kind != "POLL" or task.poll_count == 0)
    _claim(timer)
    if task is None or not applies:
        return
    end: TaskEnd | None
    if timer.kind == "WAIT":
        end = TaskEnd(task.id, run.id, TaskStatus.COMPLETED, {})
    elif timer.kind == "DEADLINE":
        end = pass_deadline(run, task)
        if end is None:
            return
    else:
        cause, reason = _REASONS[timer.kind]
        if timer.kind != "RESPONSE" and policy_for(_blueprint(run), task).timeout_policy == "ALERT_ONLY":
            HistoryEvent.sql.append(
                [NewEvent(run.id, "task.alert", {"kind": cause, "message": reason}, task.id, task.ref)]
            )
            return
        end = TaskEnd(task.id, run.id, TaskStatus.TIMED_OUT, None, reason, cause)
    ended = end_tasks([end])
    stop_children(run.namespace, ended, f"The task {task.ref} of the parent workflow {run.id} timed out.")
    hint(DECIDE)


def _blueprint(run: LockedExecution) -> Blueprint:
    return blueprint_for([run.revision_id])[run.revision_id]
