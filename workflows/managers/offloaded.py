"""Payloads that are too large for their rows: written to the store first, and named beside the rows.

Every verb that writes an input or an output passes its rows through `stored`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from orchestrator import stores
from orchestrator.db import json, sql
from orchestrator.db.ids import new_id
from orchestrator.db.locks import Advisory, advisory_key
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction
from workflows import offloading

_SQL = sql.load("workflows", "offloaded.sql")


class OffloadedManager(VerbManager):
    """Names of objects, by the runs whose rows hold references to them."""

    @requires_transaction
    def hold(self, keys: Iterable[str]) -> None:
        """Keep objects from being removed until this transaction ends."""
        _SQL.hold.rows(keys=[_lock(key) for key in keys])

    @requires_transaction
    def try_take(self, key: str) -> bool:
        """Keep everybody else from writing an object until this transaction ends; False when somebody does."""
        row = _SQL.try_take.row(key=_lock(key))
        return bool(row and row[0])

    @requires_transaction
    def append(self, named: Sequence[tuple[UUID, str]]) -> None:
        """Say that rows of (run) name (object)."""
        _SQL.append.send(
            ids=[new_id() for _ in named], workflow_ids=[run for run, _ in named], keys=[key for _, key in named]
        )

    def namespaces(self, ids: Iterable[UUID]) -> dict[UUID, str]:
        """Run -> its namespace."""
        return dict(_SQL.namespaces.rows(ids=list(ids)))

    def unnamed(self, keys: Sequence[str]) -> list[str]:
        """Those objects that no run names."""
        return [row[0] for row in _SQL.unnamed.rows(keys=list(keys))]

    @requires_transaction
    def delete(self, workflow_ids: Sequence[UUID]) -> int:
        """Forget what runs named that are removed."""
        return _SQL.delete.execute(workflow_ids=list(workflow_ids))


def _lock(key: str) -> int:
    """The lock of an object, which is also that of its partly written beginnings."""
    return advisory_key(Advisory.OFFLOADED, key.partition(".")[0])


_READ_BY_STATEMENTS = frozenset(("JOIN", "WAIT", "WAIT_FOR_WEBHOOK"))
"""Types of tasks whose inputs SQL looks into; they stay where they are."""


def stored(rows: Sequence[Any], *fields: str, run: str = "workflow_id") -> str:
    """The rows as JSON for a statement, the large ones of their `fields` moved to the store.

    All rows together are nearly always smaller than one payload may be, and then nothing more is looked at.
    """
    text = json.dumps(rows)
    most = offloading.most()
    if _is_plain(text, most):
        return text
    plain = [dict(row) if isinstance(row, dict) else {f: getattr(row, f) for f in row.__slots__} for row in rows]
    large: list[tuple[dict[str, Any], str, bytes]] = []
    for row in plain:
        for field in fields:
            value = row.get(field)
            kept = value is None or (field == "input" and row.get("type") in _READ_BY_STATEMENTS)
            if not kept and _exceeds(text := json.dumps(value), most):
                large.append((row, field, text.encode()))
            elif offloading.looks_like_one(value):
                row[field] = offloading.literal(value)
    if large:
        _put(large, run)
    return json.dumps(plain)


def stored_value(workflow_id: UUID, value: Any) -> str:
    """The same for one value of a run: its JSON."""
    text = json.dumps(value)
    if _is_plain(text, offloading.most()):
        return text
    (row,) = json.loads(stored([{"workflow_id": workflow_id, "value": value}], "value"))
    return json.dumps(row["value"])


def _is_plain(text: str, most: int | None) -> bool:
    return not _exceeds(text, most) and f'"{offloading.MARK}"' not in text


def _exceeds(text: str, most: int | None) -> bool:
    return most is not None and (len(text) > most or (not text.isascii() and len(text.encode()) > most))


_ahead: dict[str, bool] = {}
"""Objects that this process has written and no row of its has named yet."""
_MOST_AHEAD = 1000


def write_ahead(namespace: str, value: Any) -> None:
    """Write a large value before the transaction of its row: nobody waits meanwhile for what that one locks."""
    name = stores.in_use()
    if name is None:
        return
    data = json.dumps(value).encode()
    key = offloading.key_of(namespace, data)
    stores.find(name).put(key, data)
    if len(_ahead) >= _MOST_AHEAD:
        _ahead.clear()
    _ahead[key] = True


def _put(large: Sequence[tuple[dict[str, Any], str, bytes]], run: str) -> None:
    """Hold, write, name: in this order, in the transaction of the rows. A row of a run that is gone changes nothing."""
    verbs = OffloadedManager()
    name = stores.in_use()
    if name is None:
        return
    unknown = {row[run] for row, _, _ in large if "namespace" not in row}
    known = verbs.namespaces(unknown) if unknown else {}
    keyed = [
        (row, field, data, offloading.key_of(namespace, data))
        for row, field, data in large
        if (namespace := row.get("namespace") or known.get(row[run]))
    ]
    store = stores.find(name)
    verbs.hold({key for _, _, _, key in keyed})
    for row, field, data, key in keyed:
        # Held, it stays if it is there.
        if not (_ahead.pop(key, False) and store.modified(key)):
            store.put(key, data)
        offloading.cache.add(key, data)
        row[field] = offloading.Reference(name, key, len(data)).document()
    verbs.append([(row[run], key) for row, _, _, key in keyed])
