"""Schedules: saved with their next moment, fired in the transaction that starts the run and moves them on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import groupby, islice
from typing import Any
from uuid import UUID

import structlog

from orchestrator.db.ids import new_id
from orchestrator.db.transactions import savepoint, transaction
from orchestrator.errors import Invalid, NotFound, OstinatoError
from orchestrator.models import Tag
from workflows.cron import CronError, fire_times
from workflows.engine.state import WorkflowStatus
from workflows.managers.schedule import StoredSchedule
from workflows.models import Execution, Schedule, ScheduleRun
from workflows.services.starting import StartRequest, start

log = structlog.get_logger(__name__)
SCOPE = "schedule"
"""Of the idempotency keys of firings."""
OVERLAPS = ("ALLOW", "SKIP")
MOST_CATCH_UP = 50
"""Missed moments of a schedule that catches up, at most; older ones are given up."""
_KEEP_SECONDS = 30 * 24 * 3600


def save(namespace: str, given: Any, *, actor: str) -> StoredSchedule:
    """Create or replace a schedule by its name; raises Invalid."""
    problems = check(given)
    if problems:
        raise Invalid(problems=problems)
    now = datetime.now(UTC)
    paused = bool(given.get("paused"))
    with transaction():
        Schedule.sql.save(
            namespace, given["name"], given["startWorkflowRequest"]["name"], given, paused=paused,
            next_at=next_moment(given, now), created_by=given.get("createdBy") or actor,
        )  # fmt: skip
    return get(namespace, given["name"])


def check(given: Any) -> list[tuple[str, str]]:
    """The problems of a schedule as (path, message)."""
    if not isinstance(given, dict):
        return [("", f"expected an object, got {type(given).__name__}")]
    problems: list[tuple[str, str]] = []
    if not isinstance(given.get("name"), str) or not given["name"].strip():
        problems.append(("name", "expected a name"))
    request = given.get("startWorkflowRequest")
    if not isinstance(request, dict) or not isinstance(request.get("name"), str) or not request["name"]:
        problems.append(("startWorkflowRequest.name", "expected the name of a workflow"))
    elif request.get("input") is not None and not isinstance(request["input"], dict):
        problems.append(("startWorkflowRequest.input", "expected an object"))
    if given.get("overlapPolicy") not in (None, *OVERLAPS):
        problems.append(("overlapPolicy", f"expected one of {', '.join(OVERLAPS)}, got {given['overlapPolicy']!r}"))
    problems += [
        (bound, f"expected epoch milliseconds, got {given[bound]!r}")
        for bound in ("scheduleStartTime", "scheduleEndTime")
        if given.get(bound) is not None and (type(given[bound]) is not int or not 0 <= given[bound] < 2**42)
    ]
    entries = _entries(given)
    if not entries:
        problems.append(("cronExpression", "expected a cron expression"))
    for path, expression, zone in entries:
        try:
            next(fire_times(str(expression), str(zone), datetime.now(UTC)), None)
        except CronError as error:
            problems.append((path, str(error)))
    return problems


def _entries(given: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(path, expression, zone) of a schedule: `cronSchedules` stand before the single one."""
    zone = given.get("zoneId") or "UTC"
    listed = given.get("cronSchedules")
    if isinstance(listed, list) and listed:
        return [
            (f"cronSchedules[{i}]", entry.get("cronExpression") or "", entry.get("zoneId") or zone)
            for i, entry in enumerate(listed)
            if isinstance(entry, dict)
        ]
    return [("cronExpression", given["cronExpression"], zone)] if given.get("cronExpression") else []


def next_moment(given: dict[str, Any], after: datetime) -> datetime | None:
    """When a schedule fires next after a moment, within its bounds; None for never again."""
    return next(moments(given, after), None)


def moments(given: dict[str, Any], after: datetime) -> Iterator[datetime]:
    """When a schedule fires after a moment, within its bounds, each moment once."""
    begin, end = given.get("scheduleStartTime"), given.get("scheduleEndTime")
    if begin:
        after = max(after, datetime.fromtimestamp(begin / 1000, UTC) - timedelta(microseconds=1))
    for moment, _ in groupby(merge(*(fire_times(expression, zone, after) for _, expression, zone in _entries(given)))):
        if end and moment > datetime.fromtimestamp(end / 1000, UTC):
            return
        yield moment


def preview(expression: str, zone: str, begin: int | None, end: int | None, limit: int) -> list[datetime]:
    """The next moments of an expression; raises Invalid."""
    after = datetime.now(UTC) if not begin else max(datetime.now(UTC), datetime.fromtimestamp(begin / 1000, UTC))
    try:
        found = list(islice(fire_times(expression, zone, after), limit))
    except CronError as error:
        raise Invalid(problems=[("cronExpression", str(error))]) from None
    return [moment for moment in found if not end or moment <= datetime.fromtimestamp(end / 1000, UTC)]


def get(namespace: str, name: str) -> StoredSchedule:
    """A schedule; raises NotFound."""
    found = Schedule.sql.find(namespace, name)
    if not found:
        raise NotFound(f"No such schedule found by name: {name}", name=name)
    return found[0]


def find(namespace: str, workflow_name: str | None = None) -> list[StoredSchedule]:
    """Schedules, of one workflow or all."""
    return Schedule.sql.find(namespace, workflow_name=workflow_name)


def delete(namespace: str, name: str) -> None:
    """Delete a schedule and its tags; raises NotFound."""
    with transaction():
        if not Schedule.sql.delete(namespace, name):
            raise NotFound(f"No such schedule found by name: {name}", name=name)
        Tag.sql.clear(namespace, "schedule", name)


def pause(namespace: str, name: str, reason: str | None = None) -> None:
    """Pause a schedule; raises NotFound."""
    stored = get(namespace, name)
    with transaction():
        Schedule.sql.set_paused(namespace, name, True, reason, stored.next_at)


def resume(namespace: str, name: str) -> None:
    """Resume a schedule from now; raises NotFound."""
    stored = get(namespace, name)
    with transaction():
        Schedule.sql.set_paused(namespace, name, False, None, next_moment(stored.definition, datetime.now(UTC)))


def fire_next_batch() -> int:
    """Fire what is due, each schedule in a transaction of its own; one that fails moves on and is recorded."""
    done: list[UUID] = []
    while len(done) < 100:
        with transaction():
            schedule = Schedule.sql.claim(done)
            if schedule is None:
                break
            _fire(schedule)
            done.append(schedule.id)
    return len(done)


def _fire(schedule: StoredSchedule) -> None:
    assert schedule.next_at is not None
    scheduled_at, now = schedule.next_at, datetime.now(UTC)
    ours = new_id()
    workflow_id: UUID | None = None
    error: str | None = None
    if schedule.definition.get("overlapPolicy") == "SKIP" and _still_runs(schedule):
        ScheduleRun.sql.record(
            schedule, scheduled_at, schedule.last_workflow_id, "SKIPPED", "The last run has not ended."
        )
    else:
        try:
            with savepoint():
                workflow_id = start(firing(schedule, scheduled_at, now, ours))
        except OstinatoError as refusal:
            error = refusal.message
            log.warning("schedule_failed", schedule=schedule.name, namespace=schedule.namespace, error=error)
        if error or workflow_id == ours:  # not when it was backfilled before its time to fire came
            ScheduleRun.sql.record(schedule, scheduled_at, workflow_id, "FAILED" if error else "EXECUTED", error)
    Schedule.sql.advance(schedule.id, _following(schedule.definition, scheduled_at, now), workflow_id, error)


def _following(given: dict[str, Any], scheduled_at: datetime, now: datetime) -> datetime | None:
    """The moment after this one; a schedule that catches up takes the missed ones in turn, but not too many."""
    if not given.get("runCatchupScheduleInstances"):
        return next_moment(given, now)
    moment = scheduled_at
    missed: list[datetime] = []
    while len(missed) <= MOST_CATCH_UP:
        following = next_moment(given, moment)
        if following is None or following > now:
            return missed[0] if missed else following
        missed.append(following)
        moment = following
    log.warning("schedule_gives_up_missed_moments", schedule=given.get("name"))
    return next_moment(given, now)


def _still_runs(schedule: StoredSchedule) -> bool:
    if schedule.last_workflow_id is None:
        return False
    status = Execution.objects.filter(id=schedule.last_workflow_id).values_list("status", flat=True).first()
    return status is not None and not WorkflowStatus(status).terminal


def firing_key(schedule: StoredSchedule, scheduled_at: datetime) -> str:
    """The idempotency key of a moment: whoever fires it, one run is started."""
    return f"{schedule.id}:{scheduled_at.isoformat()}"


def firing(schedule: StoredSchedule, scheduled_at: datetime, now: datetime, workflow_id: UUID) -> StartRequest:
    """The start of a moment's run; it makes that run unless the moment has one."""
    given = schedule.definition["startWorkflowRequest"]
    stamped = {
        "_startedByScheduler": schedule.name,
        "_scheduledTime": int(scheduled_at.timestamp() * 1000),
        "_executedTime": int(now.timestamp() * 1000),
    }
    return StartRequest(
        given["name"],
        version=given.get("version") or None,
        input={**(given.get("input") or {}), **stamped},
        namespace=schedule.namespace,
        correlation_id=given.get("correlationId"),
        priority=given.get("priority") or 0,
        task_to_domain=given.get("taskToDomain") or {},
        definition=given.get("workflowDef"),
        created_by=schedule.created_by,
        idempotency_key=firing_key(schedule, scheduled_at),
        idempotency_strategy="RETURN_EXISTING",
        workflow_id=workflow_id,
        scope=SCOPE,
    )


def prune() -> int:
    """Forget firings older than a month."""
    with transaction():
        ScheduleRun.sql.prune(seconds=_KEEP_SECONDS)
    return 0
