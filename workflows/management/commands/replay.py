from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from orchestrator.db.ids import parse_id
from orchestrator.errors import OstinatoError
from workflows.services.replaying import replay


class Command(BaseCommand):
    help = "Replay a recorded run through the engine. Exit code 1 when it would decide otherwise today."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workflow_id", metavar="WORKFLOW_ID")
        parser.add_argument("--json", action="store_true", help="print the differences as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        workflow_id = parse_id(options["workflow_id"])
        if workflow_id is None:
            raise CommandError(f"expected the id of a run, got {options['workflow_id']!r}")
        try:
            found = replay(workflow_id)
        except OstinatoError as error:
            raise CommandError(error.message) from None
        if options["json"]:
            self.stdout.write(json.dumps([asdict(difference) for difference in found], indent=2))
        else:
            for difference in found:
                self.stdout.write(f"{difference.where}: {difference.what}")
                self.stdout.write(f"  recorded {json.dumps(difference.recorded)}")
                self.stdout.write(f"  replayed {json.dumps(difference.replayed)}")
            self.stdout.write(f"{len(found)} differences" if found else "the same")
        if found:
            raise SystemExit(1)
