"""Large payloads outside their rows: what stands in the row instead, and the way back to the value.

A column holds the value itself, or a reference: an object whose only key is `$offload`. A value that looks like that is
written as a literal in such an object, so that nobody's data is ever taken for a reference.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from orchestrator import stores
from orchestrator.conf import conf
from orchestrator.db import json
from orchestrator.errors import PayloadLost
from workflows.engine.state import TaskView

MARK = "$offload"
_STARTS = b'{"$offload"'
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Reference:
    """What stands for a payload in its row. It has no JSON form of its own: one that is not read is never written."""

    __slots__ = ("key", "size", "store")

    def __init__(self, store: str, key: str, size: int) -> None:
        self.store = store
        self.key = key
        self.size = size

    @property
    def hash(self) -> str:
        return self.key.rpartition("/")[2]

    def document(self) -> dict[str, Any]:
        """The column's value."""
        return {MARK: {"store": self.store, "key": self.key, "bytes": self.size}}


def key_of(namespace: str, data: bytes) -> str:
    """The name of an object: by namespace, then by content."""
    found = hashlib.sha256(data).hexdigest()
    place = namespace if _PLAIN.fullmatch(namespace) else "~" + hashlib.sha256(namespace.encode()).hexdigest()[:32]
    return f"{place}/{found[:2]}/{found}"


def most() -> int | None:
    """Bytes of JSON that stay in a row; None when all do."""
    found: int = conf().OFFLOAD_BYTES
    return found if found > 0 and stores.in_use() else None


def looks_like_one(value: Any) -> bool:
    """Whether a value would be taken for a reference."""
    return isinstance(value, dict) and len(value) == 1 and MARK in value


def literal(value: Any) -> dict[str, Any]:
    """The column's value for one that looks like a reference and is none."""
    return {MARK: {"literal": value}}


def opened(value: Any) -> Any:
    """A column's decoded value: the payload, or its Reference."""
    if not looks_like_one(value):
        return value
    held = value[MARK]
    if isinstance(held, dict) and held.keys() == {"literal"}:
        return held["literal"]
    if isinstance(held, dict) and held.keys() == {"store", "key", "bytes"}:
        return Reference(held["store"], held["key"], held["bytes"])
    return value


def load(data: bytes | None) -> Any:
    """A column's value: the payload, or its Reference."""
    value = json.loads(data)
    return opened(value) if data is not None and data.startswith(_STARTS) else value


def whole(value: Any) -> Any:
    """The payload behind a column's value; raises PayloadLost, StoreUnavailable."""
    return json.loads(fetch(value)) if isinstance(value, Reference) else value


def whole_task(task: TaskView) -> TaskView:
    """A task with its payloads; raises PayloadLost, StoreUnavailable."""
    given, made = whole(task.input), whole(task.output)
    return task if given is task.input and made is task.output else replace(task, input=given, output=made)


def whole_if_kept(value: Any) -> Any:
    """The payload behind a column's value, for what goes on without it; None when it is lost."""
    try:
        return whole(value)
    except PayloadLost:
        return None


def fetch(reference: Reference) -> bytes:
    """The bytes of a payload, proved by their hash; raises PayloadLost, StoreUnavailable."""
    data = cache.get(reference.key)
    if data is None:
        data = stores.find(reference.store).get(reference.key)
        if data is None or hashlib.sha256(data).hexdigest() != reference.hash:
            wrong = "is not there any more" if data is None else "is not what was written"
            raise PayloadLost(
                f"A payload of {reference.size} bytes {wrong} in the store {reference.store}: sha256 {reference.hash}, "
                f"object {reference.key}.",
                store=reference.store,
                object=reference.key,
            )
        cache.add(reference.key, data)
    return data


class _Cache:
    """What this process wrote or read last; the content of a name never changes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def add(self, key: str, data: bytes) -> None:
        with self._lock:
            if key not in self._held:
                self._held[key] = data
                self._size += len(data)
            while self._size > self._most:
                self._size -= len(self._held.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._size = 0


cache = _Cache(32 * 1024 * 1024)
