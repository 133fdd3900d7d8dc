from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from orchestrator.db.hints import OUTBOX
from orchestrator.runtime.loop import Loop, add_loop_arguments, loop_options, run_loops
from orchestrator.runtime.wakeup import Wakeup
from outbox.services.relay import deliver_next_batch


class Command(BaseCommand):
    help = "Deliver the outbox: child starts, cascades, failure workflows. Safe to run any number of times."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_loop_arguments(parser, idle_seconds=0.5)

    def handle(self, *args: Any, **options: Any) -> None:
        run_loops([Loop("relay", deliver_next_batch, Wakeup(OUTBOX), **loop_options(options))])
