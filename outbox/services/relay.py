"""The relay: delivers what was written with a change, at least once, and never drops it silently. [INV-5]

Claim in a short transaction that counts the attempt, call the handler outside any, settle in a second, fenced one.
Handlers are idempotent: each gets the event's stable id.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from uuid import UUID

import structlog

from orchestrator.conf import conf
from orchestrator.db.hints import OUTBOX, hint
from orchestrator.db.transactions import transaction
from orchestrator.models import AuditEntry
from outbox.managers import ClaimedEvent
from outbox.models import OutboxEvent

log = structlog.get_logger(__name__)
Handler = Callable[[ClaimedEvent], None]
_HANDLERS: dict[str, Handler] = {}
_KEEP_SECONDS = 24 * 3600


def register(topic: str, handler: Handler) -> None:
    """Handle a topic; apps register theirs when they are ready. A later registration replaces an earlier one."""
    _HANDLERS[topic] = handler


def unregister(topic: str) -> Handler | None:
    """Stop handling a topic; its events then back off until somebody handles it."""
    return _HANDLERS.pop(topic, None)


def deliver_next_batch() -> int:
    """Deliver a batch; returns how many events were tried."""
    settings = conf()
    with transaction():
        events = OutboxEvent.sql.claim(batch=settings.OUTBOX_BATCH, lease_seconds=settings.OUTBOX_LEASE_SECONDS)
    if not events:
        return 0
    failures = {event.id: error for event in events if (error := _deliver(event)) is not None}
    _settle(events, failures)
    return len(events)


def _deliver(event: ClaimedEvent) -> str | None:
    """The error of a delivery, or None; a topic without a handler is an error like any other."""
    handler = _HANDLERS.get(event.topic)
    if handler is None:
        return f"no handler is registered for the topic {event.topic!r}"
    try:
        handler(event)
    except Exception as error:
        log.exception("delivery_failed", event_id=str(event.id), topic=event.topic, attempts=event.attempts)
        return f"{type(error).__name__}: {error}"
    return None


def _settle(events: Sequence[ClaimedEvent], failures: dict[UUID, str]) -> None:
    delivered = [event for event in events if event.id not in failures]
    with transaction():
        if delivered:
            OutboxEvent.sql.deliver(delivered)
        for event in events:
            if event.id in failures:
                OutboxEvent.sql.fail(
                    event,
                    failures[event.id],
                    delay_seconds=backoff_seconds(event.attempts),
                    max_attempts=conf().OUTBOX_MAX_ATTEMPTS,
                )


def backoff_seconds(attempts: int) -> float:
    """min(2^attempts, 300) seconds, up to a fifth more or less."""
    return float(min(2 ** min(attempts, 10), 300)) * random.uniform(0.8, 1.2)  # noqa: S311


def replay(ids: Sequence[UUID] | None = None, *, actor: str = "system") -> int:
    """Make dead letters deliverable again: the named ones, or all; returns how many. Audited, one entry each."""
    wanted = {} if ids is None else {"id__in": list(ids)}
    with transaction():
        dead = list(OutboxEvent.objects.filter(dead_at__isnull=False, **wanted).values_list("id", "namespace", "topic"))
        count = OutboxEvent.sql.replay([event_id for event_id, _, _ in dead])
        for event_id, namespace, topic in dead:
            AuditEntry.sql.record(
                namespace=namespace, actor=actor, action="outbox.replay", target=str(event_id), outcome="done",
                detail={"topic": topic},
            )  # fmt: skip
        hint(OUTBOX)
    return count


def dead_letters(namespace: str, ids: Sequence[UUID] | None = None) -> list[OutboxEvent]:
    """Events of a namespace that could not be delivered, the named ones or the oldest thousand."""
    wanted = {} if ids is None else {"id__in": list(ids)}
    found = OutboxEvent.objects.filter(namespace=namespace, dead_at__isnull=False, **wanted)
    return list(found.defer("payload").order_by("dead_at")[:1000])


def prune() -> int:
    """Delete events delivered longer than a day ago."""
    with transaction():
        OutboxEvent.sql.prune(seconds=_KEEP_SECONDS)
    return 0
