from __future__ import annotations

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    name = "outbox"

    def ready(self) -> None:
        from outbox.services import events, relay

        relay.register(events.PUBLISHED, events.dispatch)
