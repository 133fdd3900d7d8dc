"""Reads for people: lists and records of runs, by keyset and within bounds, JSON exactly as it is stored but for masks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, overload
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Left

from orchestrator.db import json
from orchestrator.db.functions import JsonbPretty
from orchestrator.db.ids import parse_id
from orchestrator.errors import NotFound, PayloadLost, StoreUnavailable
from orchestrator.masking import NOTHING, Names, mask_text
from workflows import masking, offloading
from workflows.engine.state import WorkflowStatus
from workflows.managers.history import Event
from workflows.models import Execution, HistoryEvent, Task

PAGE = 50
TASKS = 100
EVENTS = 200
SCAN = 20_000
"""Runs looked at for one page when no index serves the condition."""
PREVIEW = 2_000
"""Characters of a payload shown in a list of tasks."""
_TOGETHER = 10
"""Tasks whose whole payloads are held at a time."""
_OFFLOADED = f'{{\n    "{offloading.MARK}"'
"""How a payload that is in the store begins, or one that looks like it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page of runs ended."""

    created_at: datetime
    id: UUID

    def __str__(self) -> str:
        return f"{(self.created_at - _EPOCH) // timedelta(microseconds=1)}.{self.id}"

    @classmethod
    def parse(cls, text: str) -> Cursor | None:
        """The cursor a page's link carried, or None when it is not one."""
        micros, _, identifier = text.partition(".")
        found = parse_id(identifier)
        if found is None or not (micros.isascii() and micros.isdigit()) or len(micros) > 17:
            return None
        return cls(_EPOCH + timedelta(microseconds=int(micros)), found)


@dataclass(frozen=True, slots=True)
class RunList:
    """A page of runs; `cut` says that only so many were searched, and `next` goes on from there."""

    runs: list[Execution]
    next: Cursor | None
    cut: bool


def list_runs(namespace: str, *, query: str = "", status: str = "", after: Cursor | None = None) -> RunList:
    """Runs, newest first: by id, correlation id, name, or part of a name, and by status."""
    runs, unindexed = _searched(Execution.objects.filter(namespace=namespace), query.strip())
    if status in WorkflowStatus.__members__:
        unindexed &= Q(status=status)
    if after is not None:
        runs = runs.filter(created_at__lte=after.created_at).exclude(created_at=after.created_at, id__gte=after.id)
    runs = runs.order_by("-created_at", "-id")
    floor = _floor(runs) if unindexed else None
    if floor is not None:
        runs = runs.filter(created_at__gte=floor.created_at)
    page = list(runs.filter(unindexed).defer(*_PAYLOADS)[: PAGE + 1])
    if len(page) > PAGE:
        last = page[PAGE - 1]
        return RunList(page[:PAGE], Cursor(last.created_at, last.id), False)
    return RunList(page, floor, floor is not None)


_PAYLOADS = ("input", "output", "variables", "task_to_domain", "failed_refs")


def _searched(runs: QuerySet[Any], query: str) -> tuple[QuerySet[Any], Q]:
    """The runs an index finds for the query, or all of them and the condition that none serves."""
    if not query:
        return runs, Q()
    identifier = parse_id(query)
    if identifier is not None:
        return runs.filter(Q(id=identifier) | Q(parent_workflow_id=identifier)), Q()
    for exact in (Q(correlation_id=query), Q(name=query)):
        if runs.filter(exact).exists():
            return runs.filter(exact), Q()
    return runs, Q(name__icontains=query)


def _floor(runs: QuerySet[Any]) -> Cursor | None:
    row = runs.values_list("created_at", "id")[SCAN : SCAN + 1].first()
    return Cursor(*row) if row else None


def get_run(namespace: str, workflow_id: UUID) -> Execution:
    """A run with its payloads as text in `input_text`, `output_text` and `variables_text`; raises NotFound."""
    texts = {f"{name}_text": JsonbPretty(F(name)) for name in ("input", "output", "variables")}
    run: Execution | None = (
        Execution.objects.filter(id=workflow_id, namespace=namespace)
        .defer(*_PAYLOADS)
        .annotate(**texts)
        .first()
    )
    if run is None:
        raise NotFound(f"There is no run {workflow_id} in namespace {namespace}.")
    hidden = masking.names(run.revision_id)
    for name in texts:
        show = mask_text if name == "variables_text" else shown
        setattr(run, name, show(getattr(run, name), hidden))
    return run


def list_tasks(workflow_id: UUID, *, after: UUID | None = None) -> tuple[list[Task], UUID | None]:
    """Attempts in the order they were made, payloads cut to a preview; and where the next page begins."""
    tasks = Task.objects.filter(workflow_id=workflow_id).defer("input", "output", "state", "spec")
    if after is not None:
        tasks = tasks.filter(id__gt=after)
    hidden = masking.names_of_run(workflow_id)
    previews = {} if hidden else {name: Left(whole, PREVIEW + 1) for name, whole in _texts().items()}
    page = list(tasks.annotate(**previews).order_by("id")[: TASKS + 1])
    for task in [] if hidden else page:
        task.input_text, task.output_text = (shown(text, most=PREVIEW + 1) for text in (task.input_text, task.output_text))
    for start in range(0, len(page), _TOGETHER) if hidden else ():
        _preview_masked(page[start : start + _TOGETHER], hidden)
    return page[:TASKS], page[TASKS - 1].id if len(page) > TASKS else None


def _texts() -> dict[str, Any]:
    return {f"{name}_text": JsonbPretty(F(name)) for name in ("input", "output")}


def _preview_masked(tasks: list[Task], hidden: Names) -> None:
    """Give tasks their previews; a payload must be read whole to be masked."""
    ids, run = [task.id for task in tasks], tasks[0].workflow_id
    found = Task.objects.filter(workflow_id=run, id__in=ids).annotate(**_texts()).values("id", *_texts())
    texts = {row.pop("id"): row for row in found}
    for task in tasks:
        for name, text in texts.get(task.id, dict.fromkeys(_texts())).items():
            setattr(task, name, shown(text, hidden, PREVIEW + 1))


def task_payload(workflow_id: UUID, task_id: UUID, field: str) -> str:
    """A task's whole input or output as text; raises NotFound."""
    found = (
        Task.objects.filter(workflow_id=workflow_id, id=task_id)
        .annotate(text=JsonbPretty(F(field)))
        .values_list("text", flat=True)
        .first()
        if field in ("input", "output")
        else None
    )
    if found is None:
        raise NotFound(f"There is no {field} of task {task_id}.")
    return shown(str(found), masking.names_of_run(workflow_id))


@overload
def shown(text: str, hidden: Names = NOTHING, most: int | None = None) -> str: ...
@overload
def shown(text: str | None, hidden: Names = NOTHING, most: int | None = None) -> str | None: ...
def shown(text: str | None, hidden: Names = NOTHING, most: int | None = None) -> str | None:
    """The text of a payload as readers see it; one in the store is read first, or says why it cannot be."""
    if text is None:
        return None
    if text.startswith(_OFFLOADED):
        try:
            text = json.pretty(offloading.whole(offloading.opened(json.loads(text))))
        except (PayloadLost, StoreUnavailable) as error:
            return error.message
    return str(mask_text(text, hidden))[:most]


def list_events(workflow_id: UUID, *, before: int | None = None) -> tuple[list[Event], bool]:
    """The latest events (before a seq) in order, and whether there are earlier ones."""
    events = HistoryEvent.objects.filter(workflow_id=workflow_id)
    if before is not None:
        events = events.filter(seq__lt=before)
    rows = list(events.order_by("-seq")[: EVENTS + 1])
    found = [Event(r.seq, r.type, r.task_id, r.ref, r.data, r.at) for r in reversed(rows[:EVENTS])]
    return masking.shown_events(found, masking.names_of_run(workflow_id)), len(rows) > EVENTS
