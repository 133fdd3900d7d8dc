"""Reads of runs and tasks for clients: one object, and lists by what they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from dispatch.models import QueuedTask
from orchestrator.db.transactions import snapshot
from orchestrator.errors import NotFound
from workflows.engine.blueprint import Blueprint
from workflows.models import Execution, Task
from workflows.services.revisions import blueprint_for

FAMILY_MOST = 1000
"""Runs of one family that are shown."""


def get_run(namespace: str, workflow_id: UUID | None, shown: str = "") -> Execution:
    """A run; raises NotFound, for another namespace's as well."""
    run: Execution | None = (
        None if workflow_id is None else Execution.objects.filter(id=workflow_id, namespace=namespace).first()
    )
    if run is None:
        raise NotFound(f"No such workflow found by id: {shown or workflow_id}", workflow_id=str(workflow_id))
    return run


@dataclass(frozen=True, slots=True)
class WholeRun:
    """A run with its tasks, all of one moment; `tasks` None where they were not asked for."""

    run: Execution
    blueprint: Blueprint | None
    tasks: list[Task] | None


def get_whole_run(namespace: str, workflow_id: UUID | None, shown: str = "", *, tasks: bool = True) -> WholeRun:
    """A run and its tasks in one snapshot, so that they agree; raises NotFound."""
    with snapshot():
        run = get_run(namespace, workflow_id, shown)
        found = get_tasks(run) if tasks else None
    return WholeRun(run, get_blueprint(run), found)


def without_tasks(run: Execution) -> WholeRun:
    """A run that was read already."""
    return WholeRun(run, get_blueprint(run), None)


def get_tasks(run: Execution) -> list[Task]:
    """All tasks of a run, in the order they were made."""
    return list(Task.objects.filter(workflow_id=run.id).order_by("id"))


def get_task(namespace: str, task_id: UUID | None, shown: str = "") -> Task:
    """A task; raises NotFound."""
    task: Task | None = None if task_id is None else Task.objects.filter(id=task_id, namespace=namespace).first()
    if task is None:
        raise NotFound(f"Task not found for taskId: {shown or task_id}", task_id=str(task_id))
    return task


def queued_tasks(namespace: str, queue: str, first: int, count: int) -> list[Task]:
    """Tasks on a queue, handed out or not, oldest first."""
    rows = QueuedTask.objects.filter(namespace=namespace, queue=queue).order_by("id")
    return list(Task.objects.filter(id__in=list(rows.values_list("id", flat=True)[first : first + count])).order_by("id"))


def get_blueprint(run: Execution) -> Blueprint | None:
    """What a run executes."""
    return blueprint_for([run.revision_id]).get(run.revision_id)


def runs_by_id(ids: set[UUID], namespace: str | None = None) -> dict[UUID, Execution]:
    """Runs by their ids: of tasks whose namespace was looked at already, or those of a namespace."""
    found = Execution.objects.filter(id__in=ids)
    return {run.id: run for run in (found if namespace is None else found.filter(namespace=namespace))}


def family(namespace: str, workflow_id: UUID, shown: str = "") -> list[Execution]:
    """A run and the runs below it, parents first, up to FAMILY_MOST; raises NotFound."""
    found = [get_run(namespace, workflow_id, shown)]
    level = [workflow_id]
    while level and len(found) < FAMILY_MOST:
        below = Execution.objects.filter(namespace=namespace, parent_workflow_id__in=level).order_by("id")
        children = list(below[: FAMILY_MOST - len(found)])
        found += children
        level = [child.id for child in children]
    return found


def correlated(namespace: str, name: str, correlation_id: str, *, closed: bool) -> list[Execution]:
    """Runs of a definition with a correlation id; ended ones only with `closed`."""
    found = Execution.objects.filter(namespace=namespace, name=name, correlation_id=correlation_id)
    return list((found if closed else found.filter(ended_at=None)).order_by("id")[:1000])


def running(namespace: str, name: str, version: int | None) -> list[UUID]:
    """Ids of a definition's runs that have not ended."""
    found = Execution.objects.filter(namespace=namespace, name=name, ended_at=None)
    found = found.filter(version=version) if version else found
    return list(found.order_by("id").values_list("id", flat=True)[:10_000])
