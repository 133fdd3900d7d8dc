from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from orchestrator.conf import conf
from orchestrator.errors import OstinatoError
from workflows.services.comparing import compare_versions


class Command(BaseCommand):
    help = "Show what one version of a definition changes in another."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("old", type=int, metavar="V1")
        parser.add_argument("new", type=int, metavar="V2")
        parser.add_argument("--namespace", default=conf().DEFAULT_NAMESPACE)
        parser.add_argument("--json", action="store_true", help="print the difference as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = compare_versions(options["namespace"], options["name"], options["old"], options["new"])
        except OstinatoError as error:
            raise CommandError(error.message) from None
        if options["json"]:
            self.stdout.write(json.dumps(found, indent=2))
            return
        lines = [_line("~", change) for change in found["fields"]]
        lines += [f"+ {task['ref']}  in {task['in']}" for task in found["added"]]
        lines += [f"- {task['ref']}  in {task['in']}" for task in found["removed"]]
        lines += [f"> {task['ref']}  from {task['from']}  to {task['to']}" for task in found["moved"]]
        lines += [_line(f"~ {task['ref']}:", change) for task in found["changed"] for change in task["fields"]]
        for line in lines or ["no difference"]:
            self.stdout.write(line)


def _line(mark: str, change: dict[str, Any]) -> str:
    old, new = (json.dumps(change[key]) if key in change else "(nothing)" for key in ("from", "to"))
    return f"{mark} {change['path']}  {old} -> {new}"
