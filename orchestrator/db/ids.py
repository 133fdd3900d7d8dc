"""UUIDv7 identifiers: they sort by creation, and a range of ids is a range of time."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A new id; monotonic within this process."""
    return uuid7()


def id_time(identifier: UUID) -> datetime:
    """The moment an id was made."""
    return datetime.fromtimestamp((identifier.int >> 80) / 1000, tz=UTC)


def id_floor(moment: datetime) -> UUID:
    """The smallest id made at `moment`: the bound of a partition."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


def parse_id(text: str) -> UUID | None:
    """The id a client sent, or None when it is not one."""
    try:
        return UUID(text)
    except (ValueError, AttributeError, TypeError):
        return None
