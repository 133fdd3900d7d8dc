"""Reads of a run's history in order: for those who follow it live, and to see the run as it was."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from workflows import masking
from workflows.engine.state import WorkflowStatus
from workflows.managers.history import Event
from workflows.models import Execution, HistoryEvent


@dataclass(frozen=True, slots=True)
class Page:
    """Events after a seq; `finished` says that the run had ended before they were read and these are all."""

    events: list[Event]
    finished: bool


def namespace_of(workflow_id: UUID) -> str | None:
    """The namespace of a run, or None when there is no such run."""
    found = Execution.sql.parent_of(workflow_id)
    return found[0] if found else None


def read_after(workflow_id: UUID, after: int, *, batch: int = 200) -> Page:
    """The next events. The status is read first, so that an ended run's last event is in what follows."""
    run = Execution.objects.filter(id=workflow_id).only("status", "revision_id").first()
    if run is None:
        return Page([], True)
    events = read_events(run, after, batch=batch)
    return Page(events, WorkflowStatus(run.status).terminal and len(events) < batch)


def read_events(run: Execution, after: int, *, batch: int) -> list[Event]:
    """Events of a run in order, as readers see them."""
    return masking.shown_events(HistoryEvent.sql.read(run.id, after=after, batch=batch), masking.names(run.revision_id))


@dataclass(frozen=True, slots=True)
class PastTask:
    """A task as the history left it at a moment; a lease writes no history, so an open one is SCHEDULED."""

    task_id: UUID | None
    ref: str
    iteration: str
    attempt: int
    name: str
    status: str
    reason: str | None
    seq: int
    at: datetime


@dataclass(frozen=True, slots=True)
class PastState:
    """A run at the event `seq`; `at` None where nothing had happened yet."""

    seq: int
    at: datetime | None
    status: str
    tasks: tuple[PastTask, ...]


_READ = 1000
_STATUSES = {
    "workflow.started": "RUNNING", "workflow.paused": "PAUSED", "workflow.resumed": "RUNNING",
    "workflow.retried": "RUNNING", "workflow.rerun": "RUNNING", "workflow.restarted": "RUNNING",
}  # fmt: skip


def state_at(workflow_id: UUID, seq: int) -> PastState:
    """A run and its tasks as they were right after an event, told by the history alone."""
    past = PastState(0, None, "RUNNING", ())
    tasks: dict[tuple[str, str, int], PastTask] = {}
    while True:
        events = [event for event in HistoryEvent.sql.read(workflow_id, after=past.seq, batch=_READ) if event.seq <= seq]
        for event in events:
            if event.type == "workflow.restarted" or (event.type == "workflow.rerun" and event.ref is None):
                tasks.clear()
            if event.type.startswith("task.") and event.ref is not None and "attempt" in event.data:
                key = (event.ref, str(event.data.get("iteration") or ""), int(event.data["attempt"]))
                tasks[key] = _moved(tasks.get(key), key, event)
            status = _STATUSES.get(event.type) or (event.type.startswith("workflow.") and event.data.get("status"))
            past = PastState(event.seq, event.at, str(status or past.status), ())
        if len(events) < _READ:
            return PastState(past.seq, past.at, past.status, tuple(tasks.values()))


def _moved(before: PastTask | None, key: tuple[str, str, int], event: Event) -> PastTask:
    name = str(event.data.get("name") or (before.name if before else key[0]))
    status = str(event.data.get("status") or (before.status if before else "SCHEDULED"))
    return PastTask(event.task_id, *key, name, status, event.data.get("reason"), event.seq, event.at)
