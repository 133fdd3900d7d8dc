"""Operator actions by name: what each is called, where it is allowed, and the control service behind it.

The admin and the operator's pages offer the same actions; the services decide, this table only describes.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from orchestrator.errors import Invalid, NotFound
from workflows.engine.state import WorkflowStatus

_OPEN = frozenset({WorkflowStatus.RUNNING, WorkflowStatus.PAUSED})
_ENDED = frozenset(WorkflowStatus) - _OPEN


@dataclass(frozen=True, slots=True)
class Action:
    """A button: `statuses` are those it is offered in, `hint` says so where it is not."""

    name: str
    label: str
    done: str
    statuses: frozenset[WorkflowStatus]
    hint: str
    danger: bool = False
    needs_reason: bool = False
    needs_ref: bool = False

    def allowed(self, status: str) -> bool:
        """Whether to offer it to a run of this status; the service checks again under the run's lock."""
        return status in self.statuses


ACTIONS = {
    action.name: action
    for action in (
        Action("pause", "Pause", "Paused", frozenset({WorkflowStatus.RUNNING}), "Only a running workflow can be paused"),
        Action("resume", "Resume", "Resumed", frozenset({WorkflowStatus.PAUSED}), "Only a paused workflow can be resumed"),
        Action(
            "retry",
            "Retry",
            "Retried",
            _ENDED - {WorkflowStatus.COMPLETED},
            "Only a workflow that ended without success can be retried",
        ),
        Action("restart", "Restart", "Restarted", _ENDED, "Only an ended workflow can be restarted", danger=True),
        Action("nudge", "Nudge", "Nudged", frozenset({WorkflowStatus.RUNNING}), "Only a running workflow can be nudged"),
        Action(
            "terminate",
            "Terminate",
            "Terminated",
            _OPEN,
            "Only a workflow that has not ended can be terminated",
            danger=True,
            needs_reason=True,
        ),
        Action(
            "skip_task",
            "Skip task",
            "Skipped the task",
            _OPEN,
            "Only tasks of a workflow that has not ended can be skipped",
            danger=True,
            needs_ref=True,
        ),
    )
}
BUTTONS = tuple(action for action in ACTIONS.values() if not action.needs_ref)


def perform(name: str, namespace: str, workflow_id: UUID, *, actor: str, reason: str = "", ref: str = "") -> str:
    """Carry out an action and say what was done; raises NotFound, Invalid or IllegalState with the reason."""
    from workflows.services import control

    action = ACTIONS.get(name)
    if action is None:
        raise NotFound(f"There is no action {name!r}.")
    if action.needs_reason and not reason.strip():
        raise Invalid(f"{action.label} needs a reason.")
    if action.needs_ref and not ref.strip():
        raise Invalid(f"{action.label} needs the task's reference name.")
    if name == "terminate":
        control.terminate(namespace, workflow_id, reason=reason.strip(), actor=actor)
    elif name == "skip_task":
        control.skip_task(namespace, workflow_id, ref.strip(), actor=actor)
    else:
        getattr(control, name)(namespace, workflow_id, actor=actor)
    return f"{action.done}: {ref.strip()}" if action.needs_ref else f"{action.done}."
