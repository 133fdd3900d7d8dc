"""Cron expressions as Conductor writes them: six fields with seconds first, `?`, macros; in a zone, right over DST."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_MACROS = {
    "@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *", "@midnight": "0 0 0 * * *", "@hourly": "0 0 * * * *",
}  # fmt: skip
_HOURS = 24


class CronError(ValueError):
    """An expression or a zone that means nothing; the text says why."""


def parse_zone(name: str) -> ZoneInfo:
    """An IANA zone; raises CronError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(f"{name!r} is not a time zone; expected for example 'UTC' or 'Europe/Berlin'") from None


def fire_times(expression: str, zone: str, after: datetime) -> Iterator[datetime]:
    """The moments an expression fires after another one, in UTC; raises CronError.

    Every hour is every hour there is. Hours that are named are those of the wall clock: what a change of it leaves out is at
    the first moment after the gap, and what it repeats is at the first of both, each once.
    """
    place = parse_zone(zone)
    begin = after.astimezone(place).replace(tzinfo=None)
    first, second = _shown(begin, place)
    if first <= after < second:
        begin -= second - first  # all that is shown twice is ahead of its second showing
    last, waiting = after, list[datetime]()
    try:
        walls = CronSim(_normal(expression), begin)
        every_hour = len(walls.hours) == _HOURS
        for wall in walls:
            due = _moments(wall, place, every_hour)
            for moment in due:
                heappush(waiting, moment)
            while due and waiting and waiting[0] <= due[0]:
                moment = heappop(waiting)
                if moment > last:
                    yield moment
                    last = moment
    except CronSimError as error:
        expected = "'second minute hour day month weekday'"
        raise CronError(f"{expression!r} is not a cron expression: {error}; expected {expected}") from None


def _moments(wall: datetime, zone: ZoneInfo, every_hour: bool) -> list[datetime]:
    """When to fire for a time on the wall."""
    first, second = _shown(wall, zone)
    if first <= second:
        return [first, second] if every_hour and first != second else [first]
    if every_hour:
        return []
    moment = second.replace(second=0)  # in a gap: clocks change at a whole minute
    while moment.astimezone(zone).replace(tzinfo=None) < wall:
        moment += timedelta(minutes=1)
    return [moment]


def _shown(wall: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The first and the second moment, in UTC, that a clock shows a time; in the wrong order for one it never shows."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def next_fire(expression: str, zone: str, after: datetime) -> datetime | None:
    """The first moment after another one; None when there is none for years."""
    return next(fire_times(expression, zone, after), None)


def _normal(expression: str) -> str:
    """Macros and `?` spelled out; five fields get a second of 0."""
    words = _MACROS.get(expression.strip(), expression).replace("?", "*").split()
    if any(word[:-1].isdigit() and word.endswith("W") for word in words):
        raise CronError(f"{expression!r}: the nearest weekday (nW) is not supported")
    return " ".join(["0", *words] if len(words) == 5 else words)
