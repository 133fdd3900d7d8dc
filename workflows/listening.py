"""Whom the changes of a run's status are told: the event that its definition names, or nobody.

A revision never changes, so what is known of one stays true. Passes learn it from the definitions that they compile; only
a process that ends a run without a pass reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from workflows.engine.sinks import status_event
from workflows.models import Revision

_EVENTS: dict[UUID, str | None] = {}
_KEEP = 10_000


def learn(revision_id: UUID, definition: dict[str, Any]) -> str | None:
    """Keep which event the runs of a revision tell."""
    if len(_EVENTS) >= _KEEP:
        _EVENTS.clear()
    event = _EVENTS[revision_id] = status_event(definition)
    return event


def events_of(revision_ids: Collection[UUID]) -> dict[UUID, str]:
    """Revision -> the event its runs tell, of those that tell any."""
    found = {revision: _EVENTS[revision] for revision in revision_ids if revision in _EVENTS}
    unknown = [revision for revision in revision_ids if revision not in found]
    if unknown:
        found |= {revision: learn(revision, definition) for revision, definition, _ in Revision.sql.read(unknown)}
    return {revision: event for revision, event in found.items() if event}


def forget() -> None:
    """Know nothing, as a new process does."""
    _EVENTS.clear()
