"""Revival of the runs above a run that goes on: their SUB_WORKFLOW tasks wait again, and so do they.

The gates of the whole chain were taken in one sorted statement, so its runs may be locked too, in id order.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from orchestrator.errors import NotFound
from workflows.engine.state import TaskStatus
from workflows.managers.execution import LockedExecution
from workflows.managers.task import OutlineTask
from workflows.models import DecideQueue, Execution, Task
from workflows.services.control.acting import OPEN, ancestors, missing, note
from workflows.services.control.continuing import carry_out, reopen_rows, reopen_run
from workflows.services.control.planning import plan_revival, undone
from workflows.services.control.walking import newest
from workflows.services.revisions import blueprint_for


def hold_family(namespace: str, workflow_id: UUID, below: Sequence[UUID] = ()) -> dict[UUID, LockedExecution]:
    """Hold the gates of a run, of all runs above it and of `below`, and lock those that exist, in id order. [INV-12]"""
    ids = [workflow_id, *ancestors(namespace, workflow_id), *below]
    DecideQueue.sql.enqueue(ids)
    family = {run.id: run for run in Execution.sql.lock(set(ids))}
    if workflow_id not in family:
        raise missing(workflow_id)
    return family


def revive_ancestors(run: LockedExecution, family: dict[UUID, LockedExecution], actor: str) -> list[UUID]:
    """Let the runs above `run` wait for it again; returns those that were ended and are running now.

    The climb stops where the parent has gone on without the child: a newer attempt, an optional failure it passed over,
    a parent that is still running behind it, one that a TERMINATE task ended, or one that undid its tasks.
    """
    revived: list[UUID] = []
    below = run
    while below.parent_workflow_id is not None and below.parent_task_id is not None:
        parent = family.get(below.parent_workflow_id)
        if parent is None:
            break
        rows = Task.sql.outline(parent.id)
        task = _waiting_task(rows, below.parent_task_id)
        if task is None or undone(rows):
            break
        if parent.status in OPEN:
            if not task.consumed and not task.status.successful:
                reopen_rows(parent.id, [task])
            break
        blueprint = blueprint_for([parent.revision_id]).get(parent.revision_id)
        if blueprint is None:
            raise NotFound(f"The definition that workflow {parent.id} ran with does not exist any more")
        plan = plan_revival(blueprint, rows, task)
        if plan.terminated_by is not None:
            break
        carry_out(reopen_run(parent, blueprint), blueprint, plan)
        note(parent.id, "workflow.retried", actor, task.ref, child=str(below.id))
        revived.append(parent.id)
        below = parent
    return revived


def _waiting_task(rows: list[OutlineTask], task_id: UUID) -> OutlineTask | None:
    """The parent's task, if it is the newest attempt, has ended, and may wait again."""
    for row in newest(rows).values():
        if row.id == task_id and row.ended and row.status != TaskStatus.COMPLETED_WITH_ERRORS:
            return row
    return None
