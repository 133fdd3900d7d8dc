"""What the figures should be, and whether they are. Most are ratios or CPU: other load on the machine moves those least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from orchestrator.bench.meters import Figures

Rounds = Mapping[str, list[Figures]]
"""Row -> its figures of each round; the bare pipeline beside row W1 is `W1/bare`, a peer is `peer/celery`."""

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """A bound for one figure of one row."""

    row: str
    figure: str
    bound: float
    at_most: bool = False
    than: str = ""
    """For `times`: the row that it is so many times as fast as."""

    def value(self, rounds: Rounds) -> float | None:
        """The figure's median; None where it was not measured."""
        return figure(rounds, self.row, self.figure, self.than)

    def met(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound

    def text(self, value: float) -> str:
        """In words, e.g. `ratio 0.46, target >= 0.6: missed`."""
        name = f"times {self.than}" if self.than else self.figure
        sign, verdict = "<=" if self.at_most else ">=", "met" if self.met(value) else "missed"
        return f"{name} {shown(value)}, target {sign} {shown(self.bound)}: {verdict}"


TARGETS = (
    Target("W1", "ratio", 0.60),
    Target("W1", "cpu us", 240, at_most=True),
    Target("W1", "wal", 3200, at_most=True),
    Target("W1x2", "ratio", 0.60),
    Target("W2", "per second", 8000),
    Target("W3", "per second", 2000),
    Target("W3b", "per second", 15_000),
    Target("W3h", "per second", 1000),
    Target("W4", "per second", 8000),
    Target("W4", "times", 1 / 1.5, than="W2"),
    Target("W6", "p50_ms", 1.5, at_most=True),
    Target("W6", "p99_ms", 15, at_most=True),
    Target("W7", "per second", 5000),
    Target("W8", "per second", 2000),
    Target("W9", "flat_time", 1.25, at_most=True),
    Target("W9", "flat_statements", 1.05, at_most=True),
    Target("W9l", "flat_time", 1.25, at_most=True),
    Target("W9l", "flat_statements", 1.05, at_most=True),
    Target("N2", "times", 1.0, than="W1"),
    Target("N4", "times", 1.0, than="W1"),
    Target("N4f", "per second", 5000),
    Target("W1", "times", 5, than="peer/absurd"),
    Target("W1", "times", 12, than="peer/celery"),
    Target("W1", "times", 14, than="peer/procrastinate"),
    Target("W1", "times", 20, than="peer/dbos"),
)
MEMORY = 150 * MEGABYTE
"""The most a loop process may hold."""


def figure(rounds: Rounds, row: str, name: str, than: str = "") -> float | None:
    """The median over the rounds; ratios are taken within each round, where both sides had the same machine."""
    mine = rounds.get(row, [])
    if name in ("ratio", "times"):
        other = rounds.get(than or f"{row}/bare", [])
        ratios = [a.per_second / b.per_second for a, b in zip(mine, other, strict=False)]
        return median(ratios) if ratios else None
    values = [found for one in mine if (found := _of(one, name)) is not None]
    return median(values) if values else None


def _of(one: Figures, name: str) -> float | None:
    known = {"per second": one.per_second, "cpu us": one.cpu_us, "wal": one.wal_bytes}
    return known.get(name, one.more.get(name))


def shown(value: float) -> str:
    """A figure for people: whole when large, else with two places."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
