"""What readers are shown of the payloads of runs: the `maskedFields` of a run's revision, and what comes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from orchestrator.masking import NOTHING, Names, mask, mask_inside
from workflows.engine.masked_fields import masked_fields
from workflows.managers.history import Event
from workflows.models import Execution, Revision

_NAMES: dict[UUID, Names] = {}
"""By revision, which never changes."""
_KEEP = 20_000


def names_by_revision(revision_ids: Iterable[UUID]) -> dict[UUID, Names]:
    """The masked names of revisions, from this process's memory or read together."""
    wanted = set(revision_ids)
    found = {revision: known for revision in wanted if (known := _NAMES.get(revision)) is not None}
    unknown = wanted - found.keys()
    if unknown:
        read = {one: masked_fields({"maskedFields": given}) for one, given in Revision.sql.masked(sorted(unknown))}
        if len(_NAMES) > _KEEP:
            _NAMES.clear()
        _NAMES.update(read)
        found |= {revision: read.get(revision, NOTHING) for revision in unknown}
    return found


def names(revision_id: UUID) -> Names:
    """The masked names of a revision."""
    found = _NAMES.get(revision_id)
    return names_by_revision([revision_id])[revision_id] if found is None else found


def names_of_runs(workflow_ids: Iterable[UUID]) -> dict[UUID, Names]:
    """The masked names of runs; one that does not exist has none."""
    revisions = dict(Execution.objects.filter(id__in=set(workflow_ids)).values_list("id", "revision_id"))
    found = names_by_revision(revisions.values())
    return {workflow_id: found[revision] for workflow_id, revision in revisions.items()}


def names_of_run(workflow_id: UUID) -> Names:
    """The masked names of a run."""
    return names_of_runs([workflow_id]).get(workflow_id, NOTHING)


def shown(revision_id: UUID, value: Any) -> Any:
    """A payload of a run as readers see it."""
    return mask(value, names(revision_id))


def shown_events(events: Sequence[Event], hidden: Names) -> list[Event]:
    """Events of a run's history as readers see them."""
    return [replace(event, data=mask_inside(event.data, hidden)) for event in events] if hidden else list(events)
