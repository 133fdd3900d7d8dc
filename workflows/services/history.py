"""Reads of a run's history in order, for those who follow it live."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

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
    status = Execution.objects.filter(id=workflow_id).values_list("status", flat=True).first()
    ended = status is None or WorkflowStatus(status).terminal
    events = HistoryEvent.sql.read(workflow_id, after=after, batch=batch)
    return Page(events, ended and len(events) < batch)
