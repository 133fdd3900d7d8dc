from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from orchestrator.conf import conf
from orchestrator.db.ids import parse_id
from orchestrator.errors import OstinatoError
from workflows.services import control, quarantine


class Command(BaseCommand):
    help = "List runs and timers that were put aside after too many failures, or release the given ones (or --all)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--namespace", default=conf().DEFAULT_NAMESPACE)
        parser.add_argument("--release", nargs="*", metavar="ID", help="ids of runs or timers")
        parser.add_argument("--all", action="store_true", help="with --release: everything that is listed")

    def handle(self, *args: Any, **options: Any) -> None:
        namespace: str = options["namespace"]
        found = [*quarantine.runs(namespace), *quarantine.timers(namespace)]
        if options["release"] is None:
            for row in found:
                self.stdout.write(f"{row.kind:9} {row.id}  run {row.workflow_id}  {row.attempts} attempts  {row.error}")
            self.stdout.write(f"{len(found)} put aside; dead letters are listed by replay_dead_letters")
            return
        wanted = {row.id for row in found} if options["all"] else {parse_id(shown) for shown in options["release"]}
        rows = [row for row in found if row.id in wanted]
        if len(rows) < len(wanted) or not wanted:
            raise CommandError("give ids that are listed, or --all")
        for row in rows:
            try:
                self._release(namespace, row)
            except OstinatoError as error:
                raise CommandError(f"{row.id}: {error.message}") from None
        self.stdout.write(f"{len(rows)} released")

    def _release(self, namespace: str, row: quarantine.PutAside) -> None:
        if row.kind == "RUN":
            control.nudge(namespace, row.id, actor="system")
        else:
            quarantine.release_timer(namespace, row.id, actor="system")
