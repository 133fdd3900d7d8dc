from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from dispatch.services.dispatching import reclaim_next_batch
from orchestrator.db.hints import ADMISSION, TIMER
from orchestrator.runtime.loop import Loop, add_loop_arguments, loop_options, run_loops
from orchestrator.runtime.wakeup import Wakeup
from outbox.services import events, webhooks
from outbox.services.relay import prune
from workflows.services import scheduling
from workflows.services.admission import admit_next_batch
from workflows.services.collecting import collect
from workflows.services.maintenance import roll_partitions
from workflows.services.measuring import measure
from workflows.services.retention import retire, retire_revisions
from workflows.services.sweeping import sweep
from workflows.services.timers import fire_next_batch


class Command(BaseCommand):
    help = "Fire timers, take back expired leases, sweep, roll partitions, prune. Safe to run any number of times."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_loop_arguments(parser, idle_seconds=0.5)

    def handle(self, *args: Any, **options: Any) -> None:
        common = {"once": options["once"], "max_steps": options["max_steps"]}
        run_loops(
            [
                Loop("timers", fire_next_batch, Wakeup(TIMER), **loop_options(options)),
                Loop("leases", reclaim_next_batch, idle_seconds=0.5, **common),
                Loop("admission", admit_next_batch, Wakeup(ADMISSION), idle_seconds=1.0, **common),
                Loop("schedules", scheduling.fire_next_batch, idle_seconds=0.5, **common),
                Loop("sweeper", sweep, idle_seconds=60.0, **common),
                Loop("gauges", measure, idle_seconds=15.0, **common),
                Loop("partitions", roll_partitions, idle_seconds=900.0, **common),
                Loop("retention", retire, idle_seconds=300.0, **common),
                Loop("revisions", retire_revisions, idle_seconds=6 * 3600.0, **common),
                Loop("payloads", collect, idle_seconds=3600.0, **common),
                Loop("prune", prune, idle_seconds=60.0, **common),
                Loop("prune-events", events.prune, idle_seconds=3600.0, **common),
                Loop("prune-webhooks", webhooks.prune, idle_seconds=3600.0, **common),
                Loop("prune-schedules", scheduling.prune, idle_seconds=3600.0, **common),
            ]
        )
