"""Backfill: runs of a schedule's moments that passed without one, each started once however often it is asked for. [INV-6b]

The idempotency key of a moment says whether it was fired, and it is the timekeeper's own. A person asks, so neither a pause
nor the overlap policy holds a moment back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from uuid import UUID

from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import Invalid
from orchestrator.models import AuditEntry
from workflows.managers.schedule import StoredSchedule
from workflows.models import IdempotencyKey, ScheduleRun
from workflows.services import scheduling
from workflows.services.starting import start

MOST = 500
"""Moments of one interval."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment and its run, which `started` says was started just now; no status when the run is gone."""

    at: datetime
    workflow_id: UUID | None = None
    status: str | None = None
    started: bool = False


def find(namespace: str, name: str, begin: datetime, end: datetime) -> list[Moment]:
    """The moments of a schedule from one time to another, both included, with the runs they have; raises Invalid, NotFound."""
    return _moments(scheduling.get(namespace, name), begin, end)


def backfill(namespace: str, name: str, begin: datetime, end: datetime, *, actor: str) -> list[Moment]:
    """The same, after a start of each that has no run, in a transaction of its own; the first refusal ends it.

    Raises Invalid, NotFound, and whatever a start does: asked again, it goes on with what is missing.
    """
    schedule = scheduling.get(namespace, name)
    ours = {
        moment.at
        for moment in _moments(schedule, begin, end)
        if not moment.workflow_id and _start(schedule, moment.at, actor)
    }
    return [replace(moment, started=moment.at in ours) for moment in _moments(schedule, begin, end)]


def _moments(schedule: StoredSchedule, begin: datetime, end: datetime) -> list[Moment]:
    if begin > end:
        raise Invalid(problems=[("from", f"expected a moment not after {end.isoformat()}, got {begin.isoformat()}")])
    if end > datetime.now(UTC):
        raise Invalid(problems=[("to", f"expected a moment that has passed, got {end.isoformat()}")])
    coming = scheduling.moments(schedule.definition, begin - timedelta(microseconds=1))
    found = list(islice(takewhile(lambda moment: moment <= end, coming), MOST + 1))
    if len(found) > MOST:
        raise Invalid(problems=[("to", f"expected at most {MOST} moments, which end before {found[-1].isoformat()}")])
    keys = [scheduling.firing_key(schedule, moment) for moment in found]
    owners = IdempotencyKey.sql.owners(schedule.namespace, scheduling.SCOPE, keys)
    return [
        Moment(moment, owners[key].workflow_id, owners[key].status) if key in owners else Moment(moment)
        for moment, key in zip(found, keys, strict=True)
    ]


def _start(schedule: StoredSchedule, at: datetime, actor: str) -> bool:
    """Whether the run is ours: a timekeeper, or another who asks, may be first."""
    workflow_id = new_id()
    request = scheduling.firing(schedule, at, datetime.now(UTC), workflow_id)
    with transaction():
        if start(replace(request, created_by=actor)) != workflow_id:
            return False
        ScheduleRun.sql.record(schedule, at, workflow_id, "BACKFILLED", None)
        AuditEntry.sql.record(
            namespace=schedule.namespace, actor=actor, action="schedule.backfill", target=schedule.name, outcome="done",
            detail={"scheduledTime": at.isoformat(), "workflowId": str(workflow_id)},
        )  # fmt: skip
    return True
