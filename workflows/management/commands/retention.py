from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from workflows.services import retention


class Command(BaseCommand):
    help = "Delete what ended longer ago than the RETENTION_* settings keep it. A run that has not ended is never touched."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say how many runs could go (up to ten thousand)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            self.stdout.write(f"{retention.preview()} runs could go")
            return
        total = 0
        for step in (retention.retire, retention.retire_revisions):
            while done := step():
                total += done
        self.stdout.write(f"{total} runs, months, keys, dead letters and revisions deleted")
