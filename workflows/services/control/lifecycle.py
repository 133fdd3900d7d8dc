"""Actions on a run as a whole: pause, resume, terminate, nudge, variables, delays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from dispatch.models import QueuedTask
from orchestrator.db.hints import QUEUE, hint
from orchestrator.errors import Invalid
from workflows import payloads
from workflows.engine.state import WorkflowStatus
from workflows.managers.execution import LockedExecution
from workflows.models import DecideQueue, Execution
from workflows.services.control.acting import FAILED, OPEN, PAUSED, RUNNING, note, perform, refuse, require
from workflows.services.revisions import blueprint_for
from workflows.transition_rows import failure_of
from workflows.transitions import end_runs, run_end, tell_of_status

TERMINATED = WorkflowStatus.TERMINATED


def pause(namespace: str, workflow_id: UUID, *, actor: str) -> None:
    """Schedule nothing new for a run; tasks in flight may still end. A paused run stays paused."""

    def body(run: LockedExecution) -> None:
        if run.status == PAUSED:
            return
        require(run, "pause")
        Execution.sql.set_status(workflow_id, PAUSED, expected=[RUNNING])
        note(workflow_id, "workflow.paused", actor)
        tell_of_status(run, PAUSED)

    perform("pause", namespace, workflow_id, actor, body)


def resume(namespace: str, workflow_id: UUID, *, actor: str) -> None:
    """Let a paused run go on; what ended during the pause is seen now, because the action leaves a request."""

    def body(run: LockedExecution) -> None:
        require(run, "resume")
        Execution.sql.set_status(workflow_id, RUNNING, expected=[PAUSED])
        note(workflow_id, "workflow.resumed", actor)
        tell_of_status(run, RUNNING)

    perform("resume", namespace, workflow_id, actor, body)


def terminate(
    namespace: str,
    workflow_id: UUID,
    *,
    actor: str,
    reason: str | None = None,
    compensate: bool = False,
    trigger_failure_workflow: bool = False,
    then: Callable[[None], None] | None = None,
) -> None:
    """End a run, its tasks, timers and (by the outbox) its children, and report to its parent.

    The failure workflow starts only when it is asked for. A run that failed or timed out is only relabelled; one that was
    terminated stays as it is.
    With `compensate` its completed tasks are undone first; without, even a run that undoes its tasks ends at once.
    """

    def body(run: LockedExecution) -> None:
        if run.status == TERMINATED:
            return
        if run.status in FAILED:
            Execution.sql.set_status(workflow_id, TERMINATED, expected=[run.status])
            note(workflow_id, "workflow.terminated", actor, status=TERMINATED, reason=reason, was=run.status)
            tell_of_status(run, TERMINATED, reason)
            return
        require(run, "terminate")
        wanted = compensate or trigger_failure_workflow
        blueprint = blueprint_for([run.revision_id]).get(run.revision_id) if wanted else None
        undoable = blueprint.undoable if blueprint is not None and compensate else None
        failure = failure_of(blueprint.definition, run) if blueprint and trigger_failure_workflow else None
        end_terminated(run, reason or f"Terminated by {actor}.", undoable, failure)

    detail = {"reason": reason, "compensate": compensate, "triggerFailureWorkflow": trigger_failure_workflow}
    perform("terminate", namespace, workflow_id, actor, body, detail=detail, with_parent=True, then=then)


def end_terminated(
    run: LockedExecution,
    reason: str,
    undoable: tuple[str, ...] | None = None,
    failure: dict[str, Any] | None = None,
) -> None:
    """End a locked, open run as TERMINATED; the gates of the run and of its parent are held."""
    output: dict[str, Any] | None = {} if failure else None  # it names the failure workflow's run
    end = run_end(
        run, TERMINATED, output=output, reason=reason, root_ended=run.root_ended, undoable=undoable,
        failure_workflow=failure,
    )  # fmt: skip
    end_runs([end])


def nudge(namespace: str, workflow_id: UUID, *, actor: str) -> None:
    """Ask for a pass now, out of quarantine or back-off too; harmless for a run that has ended."""

    def body(run: LockedExecution) -> None:
        DecideQueue.sql.release(workflow_id)
        if run.status in OPEN:
            note(workflow_id, "workflow.nudged", actor)

    perform("nudge", namespace, workflow_id, actor, body)


def update_variables(
    namespace: str,
    workflow_id: UUID,
    variables: dict[str, Any],
    *,
    actor: str,
    then: Callable[[None], None] | None = None,
) -> None:
    """Merge variables into an open run's; tasks scheduled from now on see them."""

    def body(run: LockedExecution) -> None:
        if not isinstance(variables, dict):
            raise Invalid(problems=[("variables", f"expected an object, got {type(variables).__name__}")])
        require(run, "update_variables")
        payloads.require("workflow variables", {**run.variables, **variables}, "variables")
        Execution.sql.set_variables(workflow_id, variables)
        note(workflow_id, "workflow.variables_updated", actor, keys=sorted(variables))

    perform("update_variables", namespace, workflow_id, actor, body, then=then)


def reset_callbacks(namespace: str, workflow_id: UUID, *, actor: str) -> int:
    """Deliver an open run's waiting tasks now instead of after their delay; returns how many."""

    def body(run: LockedExecution) -> int:
        if run.status not in OPEN:
            refuse(run, "reset_callbacks")
        changed = QueuedTask.sql.make_visible(workflow_id)
        hint(QUEUE)
        return changed

    return perform("reset_callbacks", namespace, workflow_id, actor, body)
