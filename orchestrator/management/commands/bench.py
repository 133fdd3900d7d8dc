from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connections

from orchestrator.bench import workloads
from orchestrator.bench.database import scratch_database


class Command(BaseCommand):
    help = "Measure the engine on a scratch database of its own: tasks per second, CPU and WAL for each task."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--runs", type=int, default=1000, help="chains of workload W1")
        parser.add_argument("--batch", type=int, default=50)
        parser.add_argument("--processes", type=int, default=1, help="deciders, and as many workers")
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        with scratch_database(settings.DATA_DIR / "bench") as url:
            self.stdout.write(f"bench: scratch database ready, durable commits, batch {options['batch']}")
            call_command("migrate", verbosity=0)
            results = [
                workloads.chain(options["runs"], options["batch"], options["processes"]),
                workloads.fan_out(max(1, options["runs"] // 20), 100, options["batch"], options["processes"]),
                workloads.starts(options["runs"]),
            ]
            connections.close_all()
            del url
        for r in results:
            if options["json"]:
                line = {
                    "workload": r.workload, "per_second": round(r.per_second), "python_us": round(r.python_us),
                    "wal_bytes": round(r.wal_bytes), "items": r.items, "seconds": round(r.seconds, 3),
                }  # fmt: skip
                self.stdout.write(json.dumps(line))
            else:
                self.stdout.write(
                    f"{r.workload:28} {r.per_second:8.0f}/s   python {r.python_us:5.0f} us   WAL {r.wal_bytes:6.0f} B   each"
                )
