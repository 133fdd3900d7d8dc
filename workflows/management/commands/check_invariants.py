from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from workflows.services.sweeping import invariant_report


class Command(BaseCommand):
    help = "Look for rows that break an invariant. Exit code 1 when there are any."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the findings as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        report = invariant_report()
        if options["json"]:
            self.stdout.write(json.dumps(report, indent=2))
        else:
            for name, rows in report.items():
                self.stdout.write(f"{'ok  ' if not rows else 'FAIL'} {name.replace('_', ' ')}")
                for row in rows:
                    self.stdout.write(f"       {row}")
        if any(report.values()):
            raise SystemExit(1)
