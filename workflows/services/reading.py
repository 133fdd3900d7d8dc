"""Reads of runs and tasks for clients: one object, lists, and Conductor's search by the basic fields."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from dispatch.models import QueuedTask
from orchestrator.db.ids import parse_id
from orchestrator.db.transactions import snapshot
from orchestrator.errors import Invalid, NotFound
from workflows.engine.blueprint import Blueprint
from workflows.models import Execution, ScheduleRun, Task
from workflows.services.revisions import blueprint_for

FAMILY_MOST = 1000
"""Runs of one family that are shown."""
COUNT_MOST = 10_000
"""Hits are counted up to here; a longer list says this many."""
_RUN_FIELDS = {
    "workflowId": "id", "workflowType": "name", "workflowName": "name", "version": "version", "status": "status",
    "correlationId": "correlation_id", "startTime": "created_at", "createTime": "created_at", "updateTime": "updated_at",
    "endTime": "ended_at", "parentWorkflowId": "parent_workflow_id", "priority": "priority", "createdBy": "created_by",
}  # fmt: skip
_TASK_FIELDS = {
    "taskId": "id", "workflowId": "workflow_id", "taskType": "name", "taskDefName": "name", "status": "status",
    "taskReferenceName": "ref", "referenceTaskName": "ref", "workerId": "worker_id", "scheduledTime": "scheduled_at",
    "startTime": "started_at", "updateTime": "updated_at", "endTime": "ended_at",
}  # fmt: skip
_SCHEDULE_RUN_FIELDS = {
    "scheduleName": "schedule_name", "workflowName": "workflow_name", "workflowType": "workflow_name",
    "workflowId": "workflow_id", "state": "state", "status": "state", "scheduledTime": "scheduled_at",
    "executionTime": "executed_at",
}  # fmt: skip
_CONDITION = re.compile(r"\s*(\w+)\s*(=|!=|<=|>=|<|>|\bIN\b)\s*(.+?)\s*$", re.I | re.S)


@dataclass(frozen=True, slots=True)
class Found:
    """A page of hits; `total` stops counting at COUNT_MOST."""

    total: int
    hits: list[Any]


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


def search_runs(namespace: str, query: str, free_text: str, sort: str, start: int, size: int) -> Found:
    """Runs by Conductor's query (`field=value AND field IN (a,b)`), newest first unless sorted."""
    return _search(Execution.objects.filter(namespace=namespace), _RUN_FIELDS, query, free_text, sort, start, size)


def search_tasks(namespace: str, query: str, free_text: str, sort: str, start: int, size: int) -> Found:
    """Tasks by Conductor's query."""
    return _search(Task.objects.filter(namespace=namespace), _TASK_FIELDS, query, free_text, sort, start, size)


def search_schedule_runs(namespace: str, query: str, free_text: str, sort: str, start: int, size: int) -> Found:
    """Firings of schedules by Conductor's query."""
    rows = ScheduleRun.objects.filter(namespace=namespace)
    return _search(rows, _SCHEDULE_RUN_FIELDS, query, "*", sort, start, size)


def _search(
    rows: QuerySet[Any], fields: dict[str, str], query: str, free_text: str, sort: str, start: int, size: int
) -> Found:
    for condition in re.split(r"\s+AND\s+", query.strip(), flags=re.I) if query.strip() else []:
        rows = rows.filter(_condition(rows.model, fields, condition))
    if free_text not in ("", "*"):
        wanted = parse_id(free_text)
        rows = rows.filter(id=wanted) if wanted else rows.filter(name__icontains=free_text)
    total = rows[:COUNT_MOST].count()
    return Found(total, list(rows.order_by(*_order(fields, sort))[start : start + size]))


def _order(fields: dict[str, str], sort: str) -> list[str]:
    order = []
    for part in filter(None, sort.split("|")):
        name, _, direction = part.partition(":")
        if name in fields:
            order.append(("-" if direction.upper() == "DESC" else "") + fields[name])
    return [*order, "-id"]


def _condition(model: type[Model], fields: dict[str, str], text: str) -> Q:
    match = _CONDITION.match(text)
    if match is None:
        raise Invalid(problems=[("query", f"expected `field = value`, got {text!r}")])
    name, operator, value = match.group(1), match.group(2).upper(), match.group(3)
    if name not in fields:
        raise Invalid(problems=[("query", f"unknown field {name!r}; known are {', '.join(sorted(fields))}")])
    column = fields[name]
    kind = model._meta.get_field(column).get_internal_type()
    if operator == "IN":
        values = [_value(kind, name, part) for part in value.strip("()[] ").split(",")]
        return Q(**{f"{column}__in": values})
    if operator == "=" and "*" in value and kind == "TextField":
        pattern = "^" + ".*".join(re.escape(part) for part in _bare(value).split("*")) + "$"
        return Q(**{f"{column}__regex": pattern})
    found = _value(kind, name, value)
    if operator == "!=":
        return ~Q(**{column: found})
    suffix = {"=": "", ">": "__gt", "<": "__lt", ">=": "__gte", "<=": "__lte"}[operator]
    return Q(**{column + suffix: found})


def _bare(value: str) -> str:
    return value.strip().strip("\"'")


def _value(kind: str, name: str, text: str) -> Any:
    bare = _bare(text)
    try:
        if kind == "DateTimeField":
            return datetime.fromtimestamp(int(bare) / 1000, tz=UTC)
        if kind in ("IntegerField", "SmallIntegerField"):
            return int(bare)
        if kind == "UUIDField":
            return parse_id(bare) or UUID(int=0)
    except (ValueError, OverflowError, OSError):
        raise Invalid(problems=[("query", f"{name}: expected a number, got {bare!r}")]) from None
    return bare
