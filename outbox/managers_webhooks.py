"""Verbs of webhooks and of what came to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from orchestrator.db import json, sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("outbox", "webhook.sql")
_DELIVERY = sql.load("outbox", "webhook_delivery.sql")


@dataclass(frozen=True, slots=True)
class StoredWebhook:
    """A registered webhook; its verifier names secrets, and holds none."""

    id: UUID
    namespace: str
    name: str
    verifier: dict[str, Any]
    delivery_header: str | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime


class WebhookManager(VerbManager):
    """Webhooks by id."""

    @requires_transaction
    def add(
        self, namespace: str, name: str, verifier: dict[str, Any], delivery_header: str | None, created_by: str
    ) -> UUID | None:
        """Store a new webhook and return its id; None when the name is taken."""
        row = _SQL.add.row(
            id=new_id(), namespace=namespace, name=name, verifier=json.dumps(verifier), delivery_header=delivery_header,
            created_by=created_by,
        )  # fmt: skip
        return row[0] if row else None

    @requires_transaction
    def replace(self, namespace: str, webhook_id: UUID, verifier: dict[str, Any], delivery_header: str | None) -> bool:
        """Replace what a webhook asks for; False when there is none of that id."""
        rows = _SQL.replace.rows(
            namespace=namespace, id=webhook_id, verifier=json.dumps(verifier), delivery_header=delivery_header
        )
        return bool(rows)

    @requires_transaction
    def remove(self, namespace: str, webhook_id: UUID) -> bool:
        """Forget a webhook; False when there is none of that id."""
        return bool(_SQL.remove.rows(namespace=namespace, id=webhook_id))

    def get(self, webhook_id: UUID) -> StoredWebhook | None:
        """A webhook of any namespace: its caller may not know one."""
        row = _SQL.get.row(id=webhook_id)
        return StoredWebhook(*json.decode(row, 3, 4)) if row else None

    def find(self, namespace: str) -> list[StoredWebhook]:
        """The webhooks of a namespace by name."""
        return [StoredWebhook(*json.decode(row, 3, 4)) for row in _SQL.find.rows(namespace=namespace)]


class WebhookDeliveryManager(VerbManager):
    """What came to webhooks, without its payload. Lock order: level 11, with the outbox."""

    @requires_transaction
    def record(self, own_id: UUID, webhook_id: UUID, delivery_id: str) -> bool:
        """Store a delivery; False when its webhook has had one of that id. Waits for another one on its way. [INV-6d]"""
        return bool(_DELIVERY.record.rows(id=own_id, webhook_id=webhook_id, delivery_id=delivery_id))

    def find_id(self, webhook_id: UUID, delivery_id: str) -> UUID | None:
        """Our id of a delivery."""
        row = _DELIVERY.find_id.row(webhook_id=webhook_id, delivery_id=delivery_id)
        return row[0] if row else None

    @requires_transaction
    def settle(self, own_id: UUID) -> bool:
        """Say that a delivery is matched with what waits for it; False when that was said before. [INV-6d]"""
        return bool(_DELIVERY.settle.rows(id=own_id))

    @requires_transaction
    def prune(self, *, seconds: float) -> int:
        """Delete deliveries that were matched longer ago than that."""
        return _DELIVERY.prune.execute(seconds=seconds)
