from __future__ import annotations

from argparse import ArgumentParser
from getpass import getuser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from orchestrator.conf import conf
from orchestrator.db.ids import parse_id
from orchestrator.errors import OstinatoError
from orchestrator.services import keys
from orchestrator.services.keys import PERMISSIONS, KeyRequest


class Command(BaseCommand):
    help = "Make, list, rotate and revoke API keys. A secret is shown once, when it is made."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--namespace", default=conf().DEFAULT_NAMESPACE, help="default: %(default)s")
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="make a key")
        create.add_argument("name", help="what it is for, as the audit trail will name it")
        create.add_argument("--permission", action="append", choices=PERMISSIONS, required=True, help="repeatable")
        create.add_argument(
            "--queue", action="append", default=[], help="pattern of task types it may work on; repeatable"
        )
        create.add_argument("--expires-in-days", type=int, help="default: it lives until it is revoked")
        actions.add_parser("list", help="list the keys of the namespace")
        rotate = actions.add_parser("rotate", help="give a key a new secret")
        rotate.add_argument("id")
        rotate.add_argument("--grace-hours", type=int, default=0, help="how long the old secret works on")
        actions.add_parser("revoke", help="end a key and its tokens").add_argument("id")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, options["action"])(options["namespace"], options)
        except OstinatoError as error:
            problems = "; ".join(f"{path}: {text}" for path, text in getattr(error, "problems", ()))
            raise CommandError(problems or error.message) from None

    def create(self, namespace: str, options: dict[str, Any]) -> None:
        days = options["expires_in_days"]
        wanted = KeyRequest(
            namespace, options["name"], tuple(options["permission"]), tuple(options["queue"]),
            None if days is None else days * 24 * 3600,
        )  # fmt: skip
        self._show(*keys.create(wanted, actor=getuser()))

    def list(self, namespace: str, options: dict[str, Any]) -> None:
        found = keys.find_all(namespace)
        for key in found:
            used = f"used {key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never used"
            queues = f" on {','.join(key.queues)}" if key.queues else ""
            self.stdout.write(f"{key.id}  {key.state:<8}  {key.name}  {','.join(key.permissions)}{queues}  {used}")
        self.stdout.write(f"{len(found)} keys in namespace {namespace}")

    def rotate(self, namespace: str, options: dict[str, Any]) -> None:
        self._show(
            *keys.rotate(namespace, parsed(options["id"]), actor=getuser(), grace_seconds=options["grace_hours"] * 3600)
        )

    def revoke(self, namespace: str, options: dict[str, Any]) -> None:
        keys.revoke(namespace, parsed(options["id"]), actor=getuser())
        self.stdout.write(f"Revoked; processes notice within {conf().KEY_CACHE_SECONDS:g} s.")

    def _show(self, key: keys.StoredKey, secret: str) -> None:
        self.stdout.write(f"key id      {key.id}\nkey secret  {secret}")
        self.stdout.write("The secret is not stored and cannot be shown again.")


def parsed(shown: str) -> UUID:
    """The id a person typed."""
    found = parse_id(shown)
    if found is None:
        raise CommandError(f"{shown!r} is not an id")
    return found
