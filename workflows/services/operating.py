"""Operator actions as buttons: what each is called, and the control service behind it.

The admin and the operator's pages offer the same ones; the services decide, this table only describes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from orchestrator.errors import Invalid, NotFound
from workflows.engine.blueprint import CONTAINERS, OPERATORS
from workflows.models import Execution, Task
from workflows.services import control
from workflows.services.control import available_actions
from workflows.services.revisions import blueprint_for


@dataclass(frozen=True, slots=True)
class Action:
    """A button; `hint` says where it may be pressed."""

    name: str
    label: str
    done: str
    hint: str
    danger: bool = False
    needs_reason: bool = False
    needs_ref: bool = False

    def allowed(self, status: str) -> bool:
        """Whether to offer it to a run of this status; the service checks again under the run's lock."""
        return self.name in available_actions(status)


ACTIONS = {
    action.name: action
    for action in (
        Action("pause", "Pause", "Paused", "Only a running workflow can be paused"),
        Action("resume", "Resume", "Resumed", "Only a paused workflow can be resumed"),
        Action("retry", "Retry", "Retried", "Only a workflow that ended without success can be retried"),
        Action("restart", "Restart", "Restarted", "Only an ended workflow can be restarted"),
        Action(
            "cancel_task", "Cancel task", "Cancelled", "Only before the workflow has ended", danger=True, needs_ref=True
        ),
        Action("nudge", "Nudge", "Nudged", "Only a workflow that has not ended can be nudged"),
        Action(
            "skip_task", "Skip task", "Will skip", "Only before the workflow has ended", danger=True, needs_ref=True
        ),
        Action(
            "terminate", "Terminate", "Terminated", "Only a workflow that has not ended can be terminated",
            danger=True, needs_reason=True,
        ),
    )
}  # fmt: skip
_SETTLED_AT_ONCE = OPERATORS - {"SUB_WORKFLOW", "WAIT", "HUMAN", "YIELD", "PULL_WORKFLOW_MESSAGES", "WAIT_FOR_WEBHOOK"}
BUTTONS = tuple(action for action in ACTIONS.values() if not action.needs_ref)


def perform(name: str, namespace: str, workflow_id: UUID, *, actor: str, reason: str = "", ref: str = "") -> str:
    """Carry out an action and say what was done; raises NotFound, Invalid or IllegalState with the reason."""
    action = ACTIONS.get(name)
    reason, ref = reason.strip(), ref.strip()
    if action is None:
        raise NotFound(f"There is no action {name!r}.")
    if action.needs_reason and not reason:
        raise Invalid(f"{action.label} needs a reason.")
    if action.needs_ref and not ref:
        raise Invalid(f"{action.label} needs the task's reference name.")
    match name:
        case "pause":
            control.pause(namespace, workflow_id, actor=actor)
        case "resume":
            control.resume(namespace, workflow_id, actor=actor)
        case "retry":
            control.retry(namespace, workflow_id, actor=actor)
        case "restart":
            control.restart(namespace, workflow_id, actor=actor)
        case "cancel_task":
            control.cancel_task(namespace, workflow_id, ref, actor=actor, reason=reason or None)
        case "nudge":
            control.nudge(namespace, workflow_id, actor=actor)
        case "terminate":
            control.terminate(namespace, workflow_id, actor=actor, reason=reason)
        case "skip_task":
            control.skip_task(namespace, workflow_id, ref, actor=actor)
    return f"{action.done} {ref}." if action.needs_ref else f"{action.done}."


def cancellable(tasks: Iterable[Task]) -> set[UUID]:
    """Tasks of a page that a person may cancel: open ones that end by themselves."""
    return {task.id for task in tasks if task.ended_at is None and task.type not in CONTAINERS | {"COMPENSATION"}}


def rerunnable(run: Execution, tasks: Iterable[Task]) -> set[UUID]:
    """Tasks of a page that an ended run may be rerun from."""
    if not ACTIONS["restart"].allowed(run.status):
        return set()
    return {task.id for task in tasks if task.ended_at is not None and task.type != "COMPENSATION"}


def rerun_from(namespace: str, workflow_id: UUID, task_id: UUID, *, actor: str) -> str:
    """Rerun an ended run from a task and say so; raises NotFound, Invalid or IllegalState with the reason."""
    control.rerun(namespace, workflow_id, actor=actor, task_id=task_id)
    return "Rerun from the task."


def skippable(run: Execution) -> list[str]:
    """References that a skip could be asked for: tasks of the definition that have not started, up to 200."""
    if not ACTIONS["skip_task"].allowed(run.status):
        return []
    blueprint = blueprint_for([run.revision_id]).get(run.revision_id)
    if blueprint is None:
        return []
    waits = [ref for ref, node in blueprint.nodes.items() if node.type not in _SETTLED_AT_ONCE]
    started = set(Task.objects.filter(workflow_id=run.id, ref__in=waits).values_list("ref", flat=True).distinct())
    return [ref for ref in waits if ref not in started][:200]
