"""Schedules: fired once by any number of timekeepers, whatever else goes wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from orchestrator.errors import Invalid, NotFound
from orchestrator.models import AuditEntry
from tests import flows
from tests.support import race
from workflows.cron import CronError, fire_times
from workflows.models import Execution, Schedule, ScheduleRun
from workflows.services import backfilling, scheduling

pytestmark = pytest.mark.usefixtures("committed")


def schedule(workflow: str, name: str | None = None, cron: str = "* * * * * *", **fields: Any) -> str:
    name = name or flows.unique("schedule")
    request = {"name": workflow, "input": {"a": 1}}
    scheduling.save(
        flows.NAMESPACE, {"name": name, "cronExpression": cron, "startWorkflowRequest": request, **fields}, actor="test"
    )
    return name


def past(monkeypatch: pytest.MonkeyPatch, **ago: float) -> None:
    """Let schedules be saved as if that long ago."""

    class Then(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) - timedelta(**ago)

    monkeypatch.setattr(scheduling, "datetime", Then)


@pytest.fixture
def workflow() -> str:
    return flows.register(flows.simple("a"))


@pytest.mark.invariant("INV-6b")
def test_eight_timekeepers_fire_each_moment_once(workflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        past(patch, seconds=5)
        names = [schedule(workflow, cron="0 0 * * * *" if i == 0 else "* * * * * *") for i in range(6)]
    fired = race(8, lambda _: scheduling.fire_next_batch())
    assert all(isinstance(count, int) for count in fired)
    runs = ScheduleRun.objects.values_list("schedule_name", "scheduled_at", "workflow_id")
    assert len({(name, at) for name, at, _ in runs}) == len(runs)
    assert {name for name, _, _ in runs} >= set(names[1:])
    assert Execution.objects.filter(name=workflow).count() == len(runs)


def test_a_firing_carries_its_moment_and_moves_on_from_now(workflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        past(patch, minutes=10)
        name = schedule(workflow, cron="0 * * * * *")
    assert scheduling.fire_next_batch() == 1
    assert scheduling.fire_next_batch() == 0, "nine missed moments are not owed"
    run = Execution.objects.get(name=workflow)
    assert (run.input["a"], run.input["_startedByScheduler"]) == (1, name)
    assert run.input["_executedTime"] - run.input["_scheduledTime"] > 8 * 60_000


def test_catch_up_fires_the_missed_moments_in_order(workflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        past(patch, minutes=3)
        schedule(workflow, cron="0 * * * * *", runCatchupScheduleInstances=True)
    for _ in range(5):
        scheduling.fire_next_batch()
    moments = list(ScheduleRun.objects.order_by("id").values_list("scheduled_at", flat=True))
    assert len(moments) == 3
    assert moments == sorted(set(moments))


def test_one_that_overlaps_is_skipped_and_recorded(workflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        past(patch, minutes=2, seconds=1)
        schedule(workflow, cron="0 * * * * *", overlapPolicy="SKIP", runCatchupScheduleInstances=True)
    scheduling.fire_next_batch()
    scheduling.fire_next_batch()
    assert list(ScheduleRun.objects.order_by("id").values_list("state", flat=True)) == ["EXECUTED", "SKIPPED"]
    assert Execution.objects.filter(name=workflow).count() == 1


@pytest.mark.invariant("INV-13")
def test_one_that_fails_moves_on_and_stops_nobody(workflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        past(patch, minutes=1, seconds=1)
        bad, good = schedule("nobody", cron="0 * * * * *"), schedule(workflow, cron="0 * * * * *")
    assert scheduling.fire_next_batch() == 2
    states = dict(ScheduleRun.objects.values_list("schedule_name", "state"))
    assert states == {bad: "FAILED", good: "EXECUTED"}
    row = Schedule.objects.get(name=bad)
    assert row.failures == 1 and "No such workflow" in (row.last_error or "")
    assert row.next_at > datetime.now(UTC)


def fill(name: str, since: datetime, until: datetime | None = None) -> list[backfilling.Moment]:
    return backfilling.backfill(flows.NAMESPACE, name, since, until or datetime.now(UTC), actor="ann")


def test_a_backfill_starts_what_was_never_fired_and_asked_twice_starts_nothing(
    workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        past(patch, minutes=1)
        name = schedule(workflow, cron="0 * * * * *")
    scheduling.fire_next_batch()
    (fired,) = ScheduleRun.objects.all()
    begin, end = fired.scheduled_at - timedelta(minutes=3), fired.scheduled_at
    before = backfilling.find(flows.NAMESPACE, name, begin, end)
    assert [moment.at for moment in before] == [begin + timedelta(minutes=n) for n in range(4)], "both ends are included"
    assert [moment.workflow_id for moment in before] == [None, None, None, fired.workflow_id]
    assert ScheduleRun.objects.count() == 1, "finding starts nothing"

    done = fill(name, begin, end)
    assert [moment.started for moment in done] == [True, True, True, False]
    assert [moment.at for moment in fill(name, begin, end) if moment.started] == []
    rows = ScheduleRun.objects.filter(state="BACKFILLED").order_by("scheduled_at")
    assert [(row.scheduled_at, row.workflow_id) for row in rows] == [(m.at, m.workflow_id) for m in done[:3]]
    run = Execution.objects.get(id=done[0].workflow_id)
    assert (run.created_by, run.input["_scheduledTime"]) == ("ann", begin.timestamp() * 1000)
    assert AuditEntry.objects.filter(action="schedule.backfill", actor="ann", target=name).count() == 3


@pytest.mark.invariant("INV-6b")
def test_backfills_that_race_each_other_and_the_timekeepers_start_each_moment_once(
    workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        past(patch, seconds=20)
        name = schedule(workflow, cron="* * * * * *", runCatchupScheduleInstances=True)
    begin, end = Schedule.objects.get(name=name).next_at, datetime.now(UTC)

    def act(number: int) -> object:
        return [scheduling.fire_next_batch() for _ in range(10)] if number % 2 else fill(name, begin, end)

    outcomes = race(6, act)
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    runs = ScheduleRun.objects.values_list("scheduled_at", "workflow_id")
    assert {moment.at for moment in fill(name, begin, end)} <= {at for at, _ in runs}
    assert len({at for at, _ in runs}) == len({run for _, run in runs}) == len(runs)
    assert Execution.objects.filter(name=workflow).count() == len(runs)


def test_a_backfill_that_is_refused_goes_on_when_it_is_asked_again(workflow: str) -> None:
    name, now = schedule("nobody", cron="0 * * * * *"), datetime.now(UTC)
    with pytest.raises(NotFound, match="No such workflow"):
        fill(name, now - timedelta(minutes=5), now)
    assert not ScheduleRun.objects.exists() and not AuditEntry.objects.filter(action="schedule.backfill").exists()
    schedule(workflow, name, cron="0 * * * * *")
    assert all(moment.started for moment in fill(name, now - timedelta(minutes=5), now))


def test_a_backfill_over_a_change_of_the_clocks_is_right(workflow: str) -> None:
    name = schedule(workflow, cron="0 30 2 * * *", zoneId="America/Chicago")
    day = datetime(2026, 3, 7, tzinfo=UTC)
    done = fill(name, day, day + timedelta(days=3))
    assert [moment.at.isoformat()[5:16] for moment in done] == ["03-07T08:30", "03-08T08:00", "03-09T07:30"]


def test_a_backfill_keeps_to_the_bounds_of_its_schedule_and_to_a_number(workflow: str) -> None:
    begin = datetime(2026, 3, 7, tzinfo=UTC)
    bounds = {"scheduleStartTime": int(begin.timestamp() * 1000), "scheduleEndTime": int(begin.timestamp() * 1000) + 1500}
    name = schedule(workflow, **bounds)
    assert len(backfilling.find(flows.NAMESPACE, name, begin - timedelta(days=1), begin + timedelta(days=1))) == 2
    name = schedule(workflow, cron="0 * * * * *")
    last = begin + timedelta(minutes=backfilling.MOST - 1)
    assert len(backfilling.find(flows.NAMESPACE, name, begin, last)) == backfilling.MOST
    with pytest.raises(Invalid) as refused:
        fill(name, begin, last + timedelta(minutes=1))
    assert refused.value.problems[0][0] == "to" and "at most 500" in refused.value.problems[0][1]
    assert not Execution.objects.exists()


def test_pause_and_resume_owe_nothing(workflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        past(patch, minutes=5)
        name = schedule(workflow, cron="0 * * * * *")
    scheduling.pause(flows.NAMESPACE, name, "holiday")
    assert scheduling.get(flows.NAMESPACE, name).paused_reason == "holiday"
    assert scheduling.fire_next_batch() == 0
    scheduling.resume(flows.NAMESPACE, name)
    assert scheduling.fire_next_batch() == 0
    scheduling.delete(flows.NAMESPACE, name)
    with pytest.raises(NotFound):
        scheduling.get(flows.NAMESPACE, name)


def test_bounds(workflow: str) -> None:
    now = int(datetime.now(UTC).timestamp() * 1000)
    later = schedule(workflow, scheduleStartTime=now + 3_600_000)
    assert (Schedule.objects.get(name=later).next_at - datetime.now(UTC)).total_seconds() > 3500
    over = schedule(workflow, scheduleEndTime=now - 1000)
    assert Schedule.objects.get(name=over).next_at is None


@pytest.mark.parametrize(
    ("fields", "path"), [
        ({"cronExpression": "nonsense"}, "cronExpression"), ({"cronExpression": None}, "cronExpression"),
        ({"zoneId": "Mars/Base"}, "cronExpression"), ({"name": ""}, "name"), ({"overlapPolicy": "MAYBE"}, "overlapPolicy"),
        ({"startWorkflowRequest": {}}, "startWorkflowRequest.name"), ({"scheduleStartTime": "soon"}, "scheduleStartTime"),
        ({"cronExpression": "0 0 0 15W * *"}, "cronExpression"),
    ],
)  # fmt: skip
def test_a_bad_schedule_is_refused_at_its_path(fields: dict[str, Any], path: str) -> None:
    given = {"name": "s", "cronExpression": "0 * * * * *", "startWorkflowRequest": {"name": "w"}, **fields}
    with pytest.raises(Invalid) as refused:
        scheduling.save(flows.NAMESPACE, given, actor="test")
    assert path in [at for at, _ in refused.value.problems]
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"), [
        ("0 */5 * ? * *", "UTC", "2026-01-01T00:01:00", ["2026-01-01T00:05:00", "2026-01-01T00:10:00"]),
        ("@daily", "UTC", "2026-01-01T00:01:00", ["2026-01-02T00:00:00", "2026-01-03T00:00:00"]),
        # the clocks go forward: what does not exist is at the first moment that does, once
        ("30 2 * * *", "America/Chicago", "2027-03-13T12:00:00", ["2027-03-14T08:00:00", "2027-03-15T07:30:00"]),
        ("0 15,45 2 * * *", "America/Chicago", "2027-03-13T12:00:00", ["2027-03-14T08:00:00", "2027-03-15T07:15:00"]),
        ("0 0 2-3 * * *", "America/Chicago", "2027-03-14T06:00:00", ["2027-03-14T08:00:00", "2027-03-15T07:00:00"]),
        # the clocks go back: what exists twice is at the first of both
        ("30 1 * * *", "America/Chicago", "2027-11-06T12:00:00", ["2027-11-07T06:30:00", "2027-11-08T07:30:00"]),
        ("30 1 * * *", "America/Chicago", "2027-11-07T07:10:00", ["2027-11-08T07:30:00", "2027-11-09T07:30:00"]),
        # every hour is every hour there is
        ("0 30 * * * *", "America/Chicago", "2027-11-07T06:00:00", ["2027-11-07T06:30:00", "2027-11-07T07:30:00"]),
        ("0 30 * * * *", "America/Chicago", "2027-03-14T07:00:00", ["2027-03-14T07:30:00", "2027-03-14T08:30:00"]),
        # clocks that move by half an hour
        ("0 0 7 * * *", "Australia/Lord_Howe", "2026-04-03T21:00:00", ["2026-04-04T20:30:00", "2026-04-05T20:30:00"]),
        ("0 30 1 * * *", "Europe/Berlin", "2026-10-24T12:00:00", ["2026-10-24T23:30:00", "2026-10-26T00:30:00"]),
        ("0 0 9 * * *", "Europe/Berlin", "2026-03-28T12:00:00", ["2026-03-29T07:00:00", "2026-03-30T07:00:00"]),
    ],
)  # fmt: skip
def test_cron_in_zones(expression: str, zone: str, after: str, expected: list[str]) -> None:
    moments = fire_times(expression, zone, datetime.fromisoformat(after).replace(tzinfo=UTC))
    assert [next(moments).replace(tzinfo=None).isoformat() for _ in expected] == expected


@pytest.mark.parametrize("expression", ["0 30 2 * * *", "0 0 7,9 * * *", "0 */20 1-2 * * *", "0 45 * * * *"])
@pytest.mark.parametrize("zone", ["America/Chicago", "Europe/Berlin", "Australia/Lord_Howe"])
def test_the_moments_are_the_same_wherever_one_begins(expression: str, zone: str) -> None:
    for month in (3, 4, 10, 11):
        first = datetime(2026, month, 1, tzinfo=UTC)
        moments = list(islice(fire_times(expression, zone, first), 300))
        for begin in (first + timedelta(minutes=37 * step) for step in range(900)):
            later = [moment for moment in moments if moment > begin]
            if later:
                assert next(fire_times(expression, zone, begin)) == later[0], begin


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(CronError, match="Mars"):
        next(fire_times("* * * * * *", "Mars", datetime.now(UTC)))
