"""What comes of a HUMAN task's deadline: it goes to somebody else, or it fails. Its timer's firing calls this."""

from __future__ import annotations

from orchestrator.db.hints import hint
from workflows import offloading
from workflows.engine import human
from workflows.engine.state import TaskStatus, TaskView
from workflows.managers.execution import LockedExecution
from workflows.managers.history import NewEvent
from workflows.managers.task import TaskEnd
from workflows.models import HistoryEvent, HumanTask


def pass_deadline(run: LockedExecution, task: TaskView) -> TaskEnd | None:
    """Escalate the task, or say how it ends. The run's gate is held."""
    given = offloading.whole(task.input)
    target = human.escalation(given)
    if target is None:
        reason = f"Nobody completed it within deadlineSeconds={given.get('deadlineSeconds')}."
        return TaskEnd(task.id, run.id, TaskStatus.FAILED, None, reason, "DEADLINE")
    user, group = target
    holder = HumanTask.sql.escalate(run.id, task.id, user, group)
    data = {"iteration": task.iteration, "attempt": task.attempt, "user": user, "group": group, "claimed_by": holder}
    said = {name: value for name, value in data.items() if value is not None}
    HistoryEvent.sql.append([NewEvent(run.id, "task.escalated", said, task.id, task.ref)])
    hint(history=[run.id])
    return None
