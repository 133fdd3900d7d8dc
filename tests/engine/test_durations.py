from __future__ import annotations

from datetime import UTC, datetime

import pytest

from workflows.engine.durations import parse_duration, parse_until


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2), ("2 seconds", 2), ("1 day 2 hours 3m", 93780), ("1d2h", 93600), ("PT1M30S", 90), ("P1DT1H", 90000)],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "soon", "5", "P", "1 week", "-1s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "hour"),
    [("2026-03-01 10:00", 10), ("2026-03-01", 0), ("2026-03-01 10:00 UTC", 10), ("2026-03-01 10:00 Europe/Berlin", 9),
     ("2026-03-01T10:00:00Z", 10), ("2026-03-01T10:00:00+02:00", 8)],
)  # fmt: skip
def test_moments(text: str, hour: int) -> None:
    assert parse_until(text) == datetime(2026, 3, 1, hour, tzinfo=UTC)


def test_what_is_no_moment_is_refused() -> None:
    with pytest.raises(ValueError, match="not a date"):
        parse_until("tomorrow")
