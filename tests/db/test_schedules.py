"""Schedules: fired once by any number of timekeepers, whatever else goes wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orchestrator.errors import Invalid, NotFound
from tests import flows
from tests.support import race
from workflows.cron import CronError, fire_times
from workflows.models import Execution, Schedule, ScheduleRun
from workflows.services import scheduling

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
        # 02:30 does not exist on the day the clocks go forward, and exists once when they go back
        ("0 30 1 * * *", "Europe/Berlin", "2026-10-24T12:00:00", ["2026-10-24T23:30:00", "2026-10-26T00:30:00"]),
        ("0 0 9 * * *", "Europe/Berlin", "2026-03-28T12:00:00", ["2026-03-29T07:00:00", "2026-03-30T07:00:00"]),
    ],
)  # fmt: skip
def test_cron_in_zones(expression: str, zone: str, after: str, expected: list[str]) -> None:
    moments = fire_times(expression, zone, datetime.fromisoformat(after).replace(tzinfo=UTC))
    assert [next(moments).replace(tzinfo=None).isoformat() for _ in expected] == expected


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(CronError, match="Mars"):
        next(fire_times("* * * * * *", "Mars", datetime.now(UTC)))
