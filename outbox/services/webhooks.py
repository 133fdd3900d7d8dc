"""Webhooks: addresses that systems outside send to; what is proved to come from them is published.

A delivery is one transaction with what it publishes: an event for handlers, and word for the tasks that wait. One of an
id that its webhook has had already is answered as the first was, and publishes nothing. [INV-5, INV-6d]
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog

from orchestrator.db.hints import OUTBOX, hint
from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import Conflict, Invalid, NotFound, TooLarge, Unauthenticated
from orchestrator.managers_lockouts import Subject
from orchestrator.models import AuditEntry
from orchestrator.services import lockouts, secrets, throttling
from outbox.managers import NewOutboxEvent
from outbox.managers_webhooks import StoredWebhook
from outbox.models import OutboxEvent, Webhook, WebhookDelivery
from outbox.services import events, webhook_verifiers
from outbox.services.webhook_verifiers import Delivery
from workflows import payloads

log = structlog.get_logger(__name__)
RECEIVED = "webhook.received"
"""Topic: a delivery, for the tasks that wait for it."""
SHORTEST_SECRET = 16
"""A shorter one can be guessed by sending."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_MOST_ID = 255
_KEEP_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Admitted:
    """A delivery that was proved; `delivery_id` is its sender's, if it gave one."""

    webhook: StoredWebhook
    delivery_id: str | None


def create(namespace: str, definition: Any, *, actor: str) -> StoredWebhook:
    """Store a new webhook; raises Invalid, or Conflict when its name is taken."""
    given = _checked(namespace, definition, None)
    header = given.get("deliveryHeader")
    with transaction():
        webhook_id = Webhook.sql.add(namespace, given["name"], given["verifier"], header, actor)
        if webhook_id is None:
            raise Conflict(f"A webhook of the name {given['name']} exists already.", name=given["name"])
        _audit(namespace, actor, "create", given["name"], given)
    return get(namespace, webhook_id)


def replace(namespace: str, webhook_id: UUID | None, definition: Any, *, actor: str) -> StoredWebhook:
    """Replace what a webhook asks for; its name stays. Raises Invalid or NotFound."""
    known = get(namespace, webhook_id)
    given = _checked(namespace, definition, known.name)
    with transaction():
        if not Webhook.sql.replace(namespace, known.id, given["verifier"], given.get("deliveryHeader")):
            raise _unknown(webhook_id)
        _audit(namespace, actor, "replace", known.name, given)
    return get(namespace, webhook_id)


def remove(namespace: str, webhook_id: UUID | None, *, actor: str) -> None:
    """Forget a webhook; raises NotFound. What has come to it is still acted on."""
    known = get(namespace, webhook_id)
    with transaction():
        if not Webhook.sql.remove(namespace, known.id):
            raise _unknown(webhook_id)
        _audit(namespace, actor, "delete", known.name, {})


def get(namespace: str, webhook_id: UUID | None) -> StoredWebhook:
    """A webhook of a namespace; raises NotFound."""
    found = Webhook.sql.get(webhook_id) if webhook_id is not None else None
    if found is None or found.namespace != namespace:
        raise _unknown(webhook_id)
    return found


def find_all(namespace: str) -> list[StoredWebhook]:
    """The webhooks of a namespace by name."""
    return Webhook.sql.find(namespace)


def admit(webhook_id: UUID | None, body: bytes, headers: Mapping[str, str], tried_from: str | None) -> Admitted:
    """Prove a delivery before anything of its body is believed; raises NotFound, TooLarge or Unauthenticated.

    A wrong one counts against the address `tried_from`, and raises LockedOut once there were too many; None counts
    nothing. A right one is no guess and is let in, up to LimitExceeded.
    """
    most = payloads.limit("task output")
    if len(body) > most:
        raise TooLarge(problems=[("body", f"The delivery of {len(body)} bytes is over the limit of {most} bytes")])
    webhook = Webhook.sql.get(webhook_id) if webhook_id is not None else None
    if webhook is None:
        raise _unknown(webhook_id)
    given = headers.get(webhook.delivery_header) if webhook.delivery_header else None
    values = secrets.values(webhook.namespace, webhook_verifiers.secrets_of(webhook.verifier).values())
    if not webhook_verifiers.is_proved(webhook.verifier, Delivery(body, headers, given), values, time.time()):
        _refuse(webhook, tried_from)
    throttling.take(webhook.id, "webhook")
    if given is not None and len(given) > _MOST_ID:
        raise Invalid(problems=[(str(webhook.delivery_header), f"expected at most {_MOST_ID} characters")])
    return Admitted(webhook, given or None)


def accept(admitted: Admitted, payload: dict[str, Any]) -> UUID:
    """Publish a delivery, for handlers under the name `webhook:<name>`; returns our id of it. Raises TooLarge."""
    webhook = admitted.webhook
    given = secrets.Masker(webhook.namespace).value(payload)
    payloads.require("task output", given, "body")
    own_id = new_id()
    delivery_id = admitted.delivery_id or str(own_id)
    with transaction():
        if not WebhookDelivery.sql.record(own_id, webhook.id, delivery_id):
            return WebhookDelivery.sql.find_id(webhook.id, delivery_id) or own_id
        received = {"delivery_id": own_id, "webhook": webhook.name, "payload": given}
        OutboxEvent.sql.publish([
            events.published(webhook.namespace, f"webhook:{webhook.name}", str(own_id), given),
            NewOutboxEvent(webhook.namespace, RECEIVED, received),
        ])
        hint(OUTBOX)
    return own_id


def prune() -> int:
    """Forget deliveries of longer than a week ago: one of the same id is a new one then."""
    with transaction():
        WebhookDelivery.sql.prune(seconds=_KEEP_SECONDS)
    return 0


def _refuse(webhook: StoredWebhook, tried_from: str | None) -> None:
    log.warning("delivery_refused", webhook=webhook.name, namespace=webhook.namespace)
    if tried_from is not None:
        attempt = lockouts.begin(Subject("address", tried_from))
        lockouts.refuse(attempt, webhook.namespace)
    raise Unauthenticated("The delivery does not prove that it comes from the sender of this webhook.")


def _checked(namespace: str, definition: Any, name: str | None) -> dict[str, Any]:
    """A definition that may be stored, under a name that it must keep if it has one; raises Invalid."""
    if not isinstance(definition, dict):
        raise Invalid(problems=[("body", f"expected an object, got {type(definition).__name__}")])
    given = {"name": name, **definition} if name is not None else definition
    found = [
        (field, "is not a field of a webhook") for field in sorted(set(given) - {"name", "verifier", "deliveryHeader"})
    ]
    if not isinstance(given.get("name"), str) or not _NAME.fullmatch(given["name"]):
        found.append(("name", f"expected letters, digits, _, . and - up to 200, got {given.get('name')!r:.60}"))
    elif name is not None and given["name"] != name:
        found.append(("name", f"a webhook keeps its name, {name!r}, which its events have too"))
    header, verifier = given.get("deliveryHeader"), given.get("verifier")
    if header is not None and not webhook_verifiers.is_header(header):
        found.append(("deliveryHeader", f"expected the name of a header, got {header!r:.60}"))
    wrong = [(problem.path, problem.message) for problem in webhook_verifiers.problems(verifier)]
    if not wrong:
        wrong = _secret_problems(namespace, given["verifier"])
        if webhook_verifiers.needs_id(given["verifier"]) and header is None:
            wrong.append(("deliveryHeader", "expected the header that holds the {id} which verifier.signed names"))
    if found or wrong:
        raise Invalid(problems=found + wrong)
    return given


def _secret_problems(namespace: str, verifier: dict[str, Any]) -> list[tuple[str, str]]:
    wanted = webhook_verifiers.secrets_of(verifier)
    values = secrets.values(namespace, wanted.values())
    return [
        (path, f"there is no secret {name!r} in this namespace" if name not in values
         else f"expected a secret of at least {SHORTEST_SECRET} characters, which nobody guesses")
        for path, name in wanted.items() if len(values.get(name, "")) < SHORTEST_SECRET
    ]  # fmt: skip


def _unknown(webhook_id: UUID | None) -> NotFound:
    return NotFound(f"No such webhook: {webhook_id}", what="The webhook")


def _audit(namespace: str, actor: str, action: str, name: str, detail: dict[str, Any]) -> None:
    AuditEntry.sql.record(
        namespace=namespace, actor=actor, action=f"webhook.{action}", target=name, outcome="done", detail=detail
    )
