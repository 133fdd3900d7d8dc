"""The inbox: who has which HUMAN task, and what they answer. What a task may say of itself is in `workflows.engine.human`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn
from uuid import UUID

from orchestrator.errors import Conflict, Forbidden, IllegalState, Invalid, NotFound
from orchestrator.masking import mask
from workflows import masking, offloading
from workflows.engine import human
from workflows.managers.human_task import Claimant, InboxFilter, StoredHumanTask
from workflows.models import HumanTask, Task
from workflows.services.control.acting import audited
from workflows.services.control.tasks import complete_task

MOST = 500
"""Tasks of one page."""


def page(namespace: str, wanted: InboxFilter, *, after: UUID | None = None, size: int = 50) -> list[StoredHumanTask]:
    """Open tasks, oldest first, after the last one of the page before."""
    return HumanTask.sql.page(namespace, wanted, after=after, batch=min(size, MOST))


def get(namespace: str, task_id: UUID | None, shown: str = "") -> StoredHumanTask:
    """An open task; raises NotFound, or IllegalState when it has ended."""
    found = None if task_id is None else HumanTask.sql.find(namespace, task_id)
    if found is None:
        raise _gone(namespace, task_id, shown)
    return found


def read_input(task: StoredHumanTask) -> Any:
    """The data of a task, with its form, as readers see it."""
    views = Task.sql.read_tasks(task.workflow_id, [task.id])
    return mask(offloading.whole(views[0].input), masking.names_of_run(task.workflow_id)) if views else {}


def claim(namespace: str, task_id: UUID, who: Claimant) -> StoredHumanTask:
    """Claim a task; raises Conflict when another has it, Forbidden when it is not theirs to claim. [INV-9]"""
    return _change("claim_task", namespace, task_id, who, lambda task: _claim(namespace, task, who))


def release(namespace: str, task_id: UUID, who: Claimant) -> StoredHumanTask:
    """Give a claim up; raises Conflict when the caller has none."""

    def body(task: StoredHumanTask) -> StoredHumanTask:
        found = HumanTask.sql.release(task.workflow_id, task.id, who)
        if found is None:
            holder = get(namespace, task.id).claimed_by
            raise Conflict(f"{_named(task)} is claimed by {holder}." if holder else f"{_named(task)} is not claimed.")
        return found

    return _change("release_task", namespace, task_id, who, body)


def reassign(namespace: str, task_id: UUID, given: dict[str, Any], who: Claimant) -> StoredHumanTask:
    """Give a task to the assignee and the candidates of `given`, in place of those it had; its claim ends."""
    problems = list(human.check_names(given))
    assignee, users, groups = (given.get(name) for name in ("assignee", "candidateUsers", "candidateGroups"))
    if not problems and not (assignee or users or groups):
        problems = [("assignee", "expected an assignee, candidateUsers or candidateGroups, got none of them")]
    if problems:
        raise Invalid(problems=problems)

    def body(task: StoredHumanTask) -> StoredHumanTask:
        found = HumanTask.sql.reassign(task.workflow_id, task.id, assignee, users or [], groups or [])
        if found is None:
            raise _gone(namespace, task.id)
        return found

    to = {"assignee": assignee, "candidateUsers": users, "candidateGroups": groups}
    return _change("reassign_task", namespace, task_id, who, body, to={k: v for k, v in to.items() if v})


def complete(namespace: str, task_id: UUID, output: dict[str, Any], who: Claimant) -> StoredHumanTask:
    """Answer a task that the caller has claimed, or may claim; raises as `claim` does, and Invalid for a misfit.

    The claim is taken by the same write, in the transaction that ends the task.
    """
    task = get(namespace, task_id)
    ended = complete_task(
        namespace, task.workflow_id, task.ref, "COMPLETED", output, actor=who.name, worker_id=who.name, task_id=task.id,
        first=lambda: _claim(namespace, task, who),
    )  # fmt: skip
    if ended is None:
        raise _gone(namespace, task.id)
    return task


def _change(
    action: str,
    namespace: str,
    task_id: UUID,
    who: Claimant,
    body: Callable[[StoredHumanTask], StoredHumanTask],
    **detail: Any,
) -> StoredHumanTask:
    task = get(namespace, task_id)
    detail = {"ref": task.ref, "task_id": str(task.id), **detail}
    return audited(action, namespace, task.workflow_id, who.name, lambda: body(task), detail=detail)


def _claim(namespace: str, task: StoredHumanTask, who: Claimant) -> StoredHumanTask:
    found = HumanTask.sql.claim(task.workflow_id, task.id, who)
    if found is None:
        _explain(namespace, task, who)
    return found


def _explain(namespace: str, task: StoredHumanTask, who: Claimant) -> NoReturn:
    """Why a claim was refused; read after the write, to say so and for nothing else."""
    holder = get(namespace, task.id).claimed_by or task.claimed_by
    if holder and holder != who.name:
        raise Conflict(f"{_named(task)} is claimed by {holder}.", claimed_by=holder)
    raise Forbidden(f"{_named(task)} is not for {who.name}, who is neither its assignee nor a candidate.")


def _gone(namespace: str, task_id: UUID | None, shown: str = "") -> NotFound | IllegalState:
    found = Task.sql.find([task_id]).get(task_id) if task_id else None
    if found is None or found.namespace != namespace or found.type != "HUMAN":
        return NotFound(f"No such human task found by id: {shown or task_id}", task_id=str(task_id))
    return IllegalState(f"The human task {found.ref} ({task_id}) has ended {found.status}.", status=found.status)


def _named(task: StoredHumanTask) -> str:
    return f"The human task {task.ref} ({task.id})"
