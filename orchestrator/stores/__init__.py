"""Where large payloads are kept outside the database: objects with names, each written whole or not at all.

Whoever writes an object afterwards commits the row that names it; who that is, and when an object may go, is not decided
here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from orchestrator.conf import conf
from orchestrator.errors import StoreUnavailable
from orchestrator.stores import files, s3

KINDS = ("fs", "s3")


class Store(Protocol):
    """Objects by key. What fails for a while raises StoreUnavailable."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object durably; one that is there is written again, and is new from then on."""

    def get(self, key: str) -> bytes | None:
        """An object's bytes; None when there is none."""

    def page(self, after: str, most: int) -> list[tuple[str, datetime]]:
        """Up to `most` objects behind `after`, in an order that stays, with the times when they were last written."""

    def modified(self, key: str) -> datetime | None:
        """When an object was last written; None when there is none."""

    def remove(self, key: str) -> None:
        """Remove an object, if it is there."""


def find(name: str) -> Store:
    """The store of a name; raises StoreUnavailable when the settings do not say where it is."""
    if not is_set(name):
        raise StoreUnavailable(f"The payload store {name!r} is not configured for this process.")
    return s3.opened() if name == "s3" else files.opened()


def in_use() -> str | None:
    """The name of the store that new objects go to, if there is one."""
    name = conf().OFFLOAD_STORE
    return name if is_set(name) else None


def is_set(name: str) -> bool:
    """Whether the settings say where a store is."""
    settings = conf()
    return bool({"fs": settings.OFFLOAD_DIR, "s3": settings.OFFLOAD_S3_BUCKET}.get(name))
