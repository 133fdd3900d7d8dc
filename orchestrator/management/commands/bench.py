from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = (
        "Measure the engine on a scratch database of its own, beside a bare pipeline: speed, CPU, WAL, memory, latency."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--only", default="", help="rows to measure, e.g. W1,W6 (W1 means W1x2 as well); default all"
        )
        parser.add_argument("--rounds", type=_whole, default=5, help="the table shows the medians of so many rounds")
        parser.add_argument("--scale", type=_positive, default=1.0, help="multiplies the size of every workload")
        parser.add_argument("--peers", action="store_true", help="install other systems and measure W1 on them as well")
        parser.add_argument(
            "--profile", action="store_true", help="show the heaviest statements and (py-spy) functions"
        )
        parser.add_argument(
            "--fill", type=_whole, metavar="RUNS",
            help="instead: fill the tables with so many runs of ten tasks, time reads there and check plans",
        )  # fmt: skip
        parser.add_argument(
            "--retire", type=_whole, metavar="RUNS",
            help="instead: let retention take a month of so many runs while load goes on, and show the stalls",
        )  # fmt: skip
        parser.add_argument("--json", metavar="FILE", default=None, help="write every figure of every round there")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            from orchestrator.bench import report, running
        except ModuleNotFoundError as error:
            raise CommandError(f"bench needs {error.name}: pip install {error.name}") from error
        folder = settings.DATA_DIR / "bench"
        if options["fill"]:
            timings, plans = running.run_on_big_tables(options["fill"], folder, self._say)
            self.stdout.write("\n".join(["", *report.reads_table(timings), "", *report.plans_table(plans)]))
            return
        if options["retire"]:
            stalls = running.run_with_retention(options["retire"], folder, self._say)
            self.stdout.write("\n".join(["", *report.stalls_table(stalls)]))
            return
        chosen = running.choose(options["only"])
        more = {"with_peers": options["peers"], "profiled": options["profile"]}
        rounds = running.run(chosen, options["rounds"], options["scale"], folder, self._say, **more)
        self.stdout.write("\n".join(["", report.table(chosen, rounds), "", *report.verdicts(rounds)]))
        if options["json"]:
            shown = {key: options[key] for key in ("only", "rounds", "scale")}
            Path(options["json"]).write_text(json.dumps(report.document(rounds, shown), indent=1) + "\n")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value
