from __future__ import annotations

import os
import socket
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from orchestrator.runtime.lifeline import watch_lifeline
from orchestrator.runtime.logs import configure_logs

BACKLOG = 8192


class Command(BaseCommand):
    help = "Serve the API, the admin and the operator's pages on one port."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=os.environ.get("HOST", "127.0.0.1"))
        parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8080")))
        parser.add_argument("--workers", type=int, default=1, help="server processes")
        parser.add_argument("--reload", action="store_true", help="restart when a source file changes")

    def handle(self, *args: Any, **options: Any) -> None:
        from granian import Granian
        from granian.constants import Interfaces
        from granian.log import LogLevels

        configure_logs()
        refuse_taken_port(options["host"], options["port"])
        watch_lifeline()
        Granian(
            "orchestrator.asgi:application",
            address=options["host"],
            port=options["port"],
            interface=Interfaces.ASGI,
            workers=options["workers"],
            backlog=BACKLOG,
            # Parked polls count against it: a low bound would silence the whole port, health included.
            backpressure=BACKLOG,
            respawn_failed_workers=True,
            workers_kill_timeout=35,
            log_level=LogLevels.warning,
            reload=options["reload"],
        ).serve()


def refuse_taken_port(host: str, port: int) -> None:
    """Raise a CommandError that says what to do when another program listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CommandError(
                f"Port {port} on {host} cannot be used ({error.strerror}). Choose another one: PORT={port + 1}"
            ) from None
