from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from orchestrator.db.hints import DECIDE
from orchestrator.runtime.loop import Loop, add_loop_arguments, loop_options, run_loops
from orchestrator.runtime.wakeup import Wakeup
from workflows.services.evaluation import evaluate_next_batch


class Command(BaseCommand):
    help = "Evaluate runs that await a pass: claim, read, decide, apply. Safe to run any number of times."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_loop_arguments(parser, idle_seconds=0.5)

    def handle(self, *args: Any, **options: Any) -> None:
        run_loops([Loop("decider", evaluate_next_batch, Wakeup(DECIDE), **loop_options(options))])
