from __future__ import annotations

from argparse import ArgumentParser
from getpass import getuser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from orchestrator.conf import conf
from orchestrator.errors import OstinatoError
from orchestrator.services import lockouts
from orchestrator.services.lockouts import KINDS, Subject


class Command(BaseCommand):
    help = "List and lift lock-outs: keys, users and addresses that are refused after too many wrong credentials."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="list what is counted and locked out now")
        lift = actions.add_parser("lift", help="end a lock-out and forget its failures")
        lift.add_argument("kind", choices=KINDS)
        lift.add_argument("name", help="a key's id, a user's name or an address, as `list` shows it")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "list":
            self._list()
            return
        try:
            subject = Subject(options["kind"], options["name"])
            lockouts.lift(subject, actor=getuser(), namespace=conf().DEFAULT_NAMESPACE)
        except OstinatoError as error:
            raise CommandError(error.message) from None
        self.stdout.write("Lifted.")

    def _list(self) -> None:
        for found in lockouts.find_all():
            until = f", locked until {found.locked_until:%Y-%m-%d %H:%M:%S} UTC" if found.locked_until else ""
            self.stdout.write(f"{found.subject.kind:<7}  {found.subject.name}  {found.failures} failures{until}")
