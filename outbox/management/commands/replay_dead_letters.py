from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from outbox.models import OutboxEvent
from outbox.services.relay import replay


class Command(BaseCommand):
    help = "Make dead letters of the outbox deliverable again: the given ones, or all with --all. Lists them without either."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="*", help="ids of dead letters")
        parser.add_argument("--all", action="store_true", help="every dead letter")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["ids"] and options["all"]:
            raise CommandError("give ids or --all, not both")
        if options["ids"] or options["all"]:
            count = replay(None if options["all"] else [parsed(shown) for shown in options["ids"]])
            self.stdout.write(f"{count} dead letters will be delivered again")
            return
        dead = OutboxEvent.objects.filter(dead_at__isnull=False).order_by("dead_at")
        for event in dead[:100]:
            self.stdout.write(f"{event.id}  {event.dead_at:%Y-%m-%d %H:%M:%S}  {event.topic}  {event.last_error}")
        self.stdout.write(f"{dead.count()} dead letters; replay them by id, or with --all")


def parsed(shown: str) -> UUID:
    """The id a person typed."""
    try:
        return UUID(shown)
    except ValueError:
        raise CommandError(f"{shown!r} is not an id") from None
