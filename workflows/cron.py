"""Cron expressions as Conductor writes them: six fields with seconds first, `?`, macros; in a zone, right over DST."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_MACROS = {
    "@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *", "@midnight": "0 0 0 * * *", "@hourly": "0 0 * * * *",
}  # fmt: skip


class CronError(ValueError):
    """An expression or a zone that means nothing; the text says why."""


def parse_zone(name: str) -> ZoneInfo:
    """An IANA zone; raises CronError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(f"{name!r} is not a time zone; expected for example 'UTC' or 'Europe/Berlin'") from None


def fire_times(expression: str, zone: str, after: datetime) -> Iterator[datetime]:
    """The moments an expression fires after another one, in UTC; raises CronError."""
    local = after.astimezone(parse_zone(zone))
    try:
        for moment in CronSim(_normal(expression), local):
            yield moment.astimezone(UTC)
    except CronSimError as error:
        expected = "'second minute hour day month weekday'"
        raise CronError(f"{expression!r} is not a cron expression: {error}; expected {expected}") from None


def next_fire(expression: str, zone: str, after: datetime) -> datetime | None:
    """The first moment after another one; None when there is none for years."""
    return next(fire_times(expression, zone, after), None)


def _normal(expression: str) -> str:
    """Macros and `?` spelled out; five fields get a second of 0."""
    words = _MACROS.get(expression.strip(), expression).replace("?", "*").split()
    if any(word[:-1].isdigit() and word.endswith("W") for word in words):
        raise CronError(f"{expression!r}: the nearest weekday (nW) is not supported")
    return " ".join(["0", *words] if len(words) == 5 else words)
