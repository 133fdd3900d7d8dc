from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from orchestrator.services import secrets
from orchestrator.services.keyring import NoKey, newest_key


class Command(BaseCommand):
    help = (
        "Seal every secret anew with the newest key of OSTINATO_SECRET_KEYS. Put the new key in front of the old ones, "
        "restart, run this, and only then take the old ones away."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            count = secrets.rotate()
        except NoKey as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{count} secrets were sealed anew; all are sealed with the key {newest_key()}")
