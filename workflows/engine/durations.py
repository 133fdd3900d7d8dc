"""Durations and moments of WAIT: Conductor's words, ISO 8601, dates with and without a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_UNITS = (
    ("days", r"days|day|d"),
    ("hours", r"hours|hour|hrs|hr|h"),
    ("minutes", r"minutes|minute|mins|min|m"),
    ("seconds", r"seconds|second|secs|sec|s"),
)
_WORDS = re.compile(r"\s*".join(rf"(?:(?P<{unit}>\d+)\s*(?:{words}))?" for unit, words in _UNITS), re.I)
_ISO = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?", re.I
)
_MOMENTS = ("%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d")


def parse_duration(text: Any) -> timedelta:
    """A duration such as `3 days 4h`, `90s` or `PT1M30S`; raises ValueError."""
    words = str(text).strip()
    for pattern in (_ISO, _WORDS):
        match = pattern.fullmatch(words)
        if match and any(match.groupdict().values()):
            return timedelta(**{unit: float(n) for unit, n in match.groupdict().items() if n})
    raise ValueError(f"{text!r} is not a duration; expected for example '2 days 3 hours', '90s' or 'PT90S'")


def parse_until(text: Any) -> datetime:
    """A moment: `yyyy-MM-dd`, `yyyy-MM-dd HH:mm` with or without a zone (UTC), or ISO 8601; raises ValueError."""
    words = str(text).strip()
    moment = _with_zone(words) or _iso(words)
    if moment is None:
        raise ValueError(f"{text!r} is not a date; expected 'yyyy-MM-dd HH:mm zone', 'yyyy-MM-dd' or ISO 8601")
    return moment


def _iso(words: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _with_zone(words: str) -> datetime | None:
    for form in _MOMENTS:
        for candidate, zone in ((words, UTC), _split_zone(words)):
            if zone is None:
                continue
            try:
                return datetime.strptime(candidate, form).replace(tzinfo=zone)
            except ValueError:
                continue
    return None


def _split_zone(words: str) -> tuple[str, Any]:
    head, _, tail = words.rpartition(" ")
    try:
        return head, ZoneInfo({"GMT": "Etc/GMT", "Z": "UTC"}.get(tail, tail)) if head and tail else None
    except (ZoneInfoNotFoundError, ValueError):
        return words, None
