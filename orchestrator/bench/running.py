"""One bench: rows chosen by name, measured in rounds, each beside the bare pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections

from orchestrator.bench import definitions, peers, plans, reads, report, retiring
from orchestrator.bench.database import scratch_database
from orchestrator.bench.filling import fill
from orchestrator.bench.meters import Figures
from orchestrator.bench.profile import MODULE
from orchestrator.bench.stage import Stage
from orchestrator.bench.workloads import WORKLOADS, Workload


def choose(only: str) -> list[Workload]:
    """The workloads named, each with its variants (W1 means W1x2 as well); raises CommandError for an unknown one."""
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    chosen = [w for w in WORKLOADS if not wanted or any(_names(name, w) for name in wanted)]
    unknown = [name for name in wanted if not any(_names(name, w) for w in WORKLOADS)]
    if unknown:
        known = ", ".join(w.key for w in WORKLOADS)
        raise CommandError(f"--only: there is no workload {', '.join(unknown)}; there are {known}")
    return chosen


def _names(name: str, workload: Workload) -> bool:
    return re.fullmatch(rf"{re.escape(name)}(\D.*)?", workload.key, re.I) is not None


def run(
    chosen: Sequence[Workload],
    rounds: int,
    scale: float,
    folder: Path,
    say: Callable[[str], None],
    *,
    with_peers: bool = False,
    profiled: bool = False,
) -> dict[str, list[Figures]]:
    """Measure the workloads on a fresh database in that folder; returns the figures of each row, a round each.

    In a round the engine and the bare pipeline take turns, so that both have the same machine.
    """
    found: dict[str, list[Figures]] = {}
    others = peers.install(folder / "peers", say) if with_peers else []
    with _stage(folder, scale, say, profiled) as stage:
        for number in range(rounds):
            for workload in chosen:
                for row, measure in ((workload.key, workload.measure), (f"{workload.key}/bare", workload.bare)):
                    if measure is not None:
                        figures = measure(stage)
                        found.setdefault(row, []).append(figures)
                        say(_progress(f"{number + 1}/{rounds}", row, figures))
                        if stage.profiles and measure is workload.measure:
                            say(report.profile(stage.profiles.pop()))
            others = [peer for peer in others if _measure_peer(peer, folder, stage, found, say)]
    return found


def run_on_big_tables(
    runs: int, folder: Path, say: Callable[[str], None]
) -> tuple[list[reads.Timing], list[plans.Plan]]:
    """Fill a fresh database with so many runs; how long reads take there, and how the statements are run."""
    with _stage(folder, 1.0, say) as stage:
        samples = fill(stage.admin, runs, say)
        say("reading")
        timings = reads.time_reads(samples)
        return timings, plans.check_plans(stage.admin)


def run_with_retention(runs: int, folder: Path, say: Callable[[str], None]) -> list[retiring.Stall]:
    """A fresh database with an old month of so many runs; how steady load fares before and while the month goes."""
    with _stage(folder, 1.0, say) as stage:
        return retiring.measure(stage, runs, say)


@contextmanager
def _stage(folder: Path, scale: float, say: Callable[[str], None], profiled: bool = False) -> Iterator[Stage]:
    settings = {"shared_preload_libraries": MODULE, f"{MODULE}.track_planning": "on"} if profiled else {}
    with scratch_database(folder / "postgres", **settings) as url:
        call_command("migrate", verbosity=0)
        definitions.register_all()
        say("scratch database ready, durable commits")
        stage = Stage(url, scale, profiled=profiled)
        if profiled:
            stage.admin.execute(f"CREATE EXTENSION {MODULE}")
        try:
            yield stage
        finally:
            stage.close()
            connections.close_all()


def _measure_peer(
    peer: peers.Peer, folder: Path, stage: Stage, found: dict[str, list[Figures]], say: Callable[[str], None]
) -> bool:
    """Whether it worked; one that did not has no further rounds."""
    try:
        figures = peers.measure(peer, folder / "peers", stage)
    except peers.PeerFailed as error:
        say(str(error))
        return False
    found.setdefault(peer.row, []).append(figures)
    say(_progress("peer", peer.name, figures))
    return True


def _progress(number: str, row: str, figures: Figures) -> str:
    return f"{number}  {row:10} {figures.per_second:8,.0f}/s  CPU {figures.cpu_us:6,.0f} us each"
