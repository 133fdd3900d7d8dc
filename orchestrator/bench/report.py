"""The table of a bench, and its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from orchestrator.bench.meters import Figures, percentile
from orchestrator.bench.peers import PEERS
from orchestrator.bench.plans import Plan
from orchestrator.bench.profile import Profile
from orchestrator.bench.reads import MOST_MS, Timing
from orchestrator.bench.retiring import Stall
from orchestrator.bench.targets import MEGABYTE, MEMORY, TARGETS, Rounds, figure, shown
from orchestrator.bench.workloads import Workload

_HEAD: tuple[str, ...] = (
    "",
    "workload",
    "per second",
    "spread",
    "of bare",
    "PG us",
    "Python us",
    "WAL B",
    "MB",
    "further",
)


def table(workloads: Iterable[Workload], rounds: Rounds) -> str:
    """Medians of the rounds, aligned; the spread is the distance of the extremes in per cent of the median."""
    rows = [_HEAD]
    for workload in workloads:
        if workload.key in rounds:
            ratio = figure(rounds, workload.key, "ratio")
            rows.append(_row(workload.key, workload.title, rounds[workload.key], ratio))
            bare = rounds.get(f"{workload.key}/bare")
            rows += [_row("", "  bare pipeline", bare, None)] if bare else []
    rows += [_row("", peer.title, rounds[peer.row], None) for peer in PEERS if peer.row in rounds]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in (0, 1, 9) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _row(key: str, title: str, figures: Sequence[Figures], ratio: float | None) -> tuple[str, ...]:
    speeds = [one.per_second for one in figures]
    middle = median(speeds)
    memory = max((size for one in figures for size in one.memory.values()), default=0)
    names = list(dict.fromkeys(name for one in figures for name in one.more))
    further = [f"{name} {shown(median([one.more[name] for one in figures if name in one.more]))}" for name in names]
    return (
        key,
        title,
        shown(middle),
        f"{(max(speeds) - min(speeds)) / middle:.0%}" if len(speeds) > 1 else "",
        "" if ratio is None else f"{ratio:.0%}",
        shown(median(one.postgres_us for one in figures)),
        shown(median(one.python_us for one in figures)),
        shown(median(one.wal_bytes for one in figures)),
        str(round(memory / MEGABYTE)) if memory else "",
        "  ".join(further),
    )


def profile(found: Profile) -> str:
    """Where a measurement's time went: statements for each item, and functions by role."""
    lines = ["    statements, for each item:", *(f"      {line}" for line in found.statements)]
    for role, functions in found.functions.items():
        lines += [f"    functions of the {role}:", *(f"      {line}" for line in functions)]
    return "\n".join(lines)


def stalls_table(stalls: Sequence[Stall]) -> list[str]:
    """How a steady load fared, phase by phase."""
    head = f"{'':28}{'runs':>8}{'start p99':>12}{'longest':>10}{'step p99':>12}{'longest':>10}  (ms)"
    return [head] + [
        f"{one.phase:28}{len(one.starts_ms):8,}"
        f"{percentile(one.starts_ms, 0.99):12,.1f}{max(one.starts_ms):10,.1f}"
        f"{percentile(one.steps_ms, 0.99):12,.1f}{max(one.steps_ms):10,.1f}"
        for one in stalls
    ]


def reads_table(timings: Sequence[Timing]) -> list[str]:
    """How long reads take, and whether that is little enough."""
    width = max(len(one.read) for one in timings)
    return [
        f"{one.read:{width}}  p50 {one.p50_ms:8.1f} ms  p95 {one.p95_ms:8.1f} ms  {'met' if one.met else 'missed'}"
        for one in timings
    ] + [f"target: p95 <= {MOST_MS:.0f} ms"]


def plans_table(plans: Sequence[Plan]) -> list[str]:
    """The statements that read a large table whole, and how many do not."""
    bad = [
        f"{one.statement} reads {', '.join(one.scanned)} whole (cost {one.cost:,.0f})" for one in plans if one.scanned
    ]
    return [*bad, f"{len(plans)} statements planned, {len(bad)} read a large table whole"]


def verdicts(rounds: Rounds) -> list[str]:
    """Each target that was measured, met or missed."""
    lines = []
    for target in TARGETS:
        value = target.value(rounds)
        if value is not None:
            lines.append(f"{target.row:5} {target.text(value)}")
    sizes = {
        role: max(one.memory.get(role, 0) for figures in rounds.values() for one in figures)
        for role in ("decider", "worker", "relay")
    }
    for role, size in sizes.items():
        if size:
            verdict = "met" if size <= MEMORY else "missed"
            lines.append(f"{role:8} memory {size // MEGABYTE} MB, target <= {MEMORY // MEGABYTE} MB: {verdict}")
    return lines


def document(rounds: Rounds, settings: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, each round by itself, for machines."""
    return {
        "settings": settings,
        "rows": {
            row: [{**asdict(one), "per_second": one.per_second, "cpu_us": one.cpu_us} for one in figures]
            for row, figures in rounds.items()
        },
        "targets": [
            {**asdict(target), "value": value, "met": target.met(value)}
            for target in TARGETS
            if (value := target.value(rounds)) is not None
        ],
    }
