"""What a PULL_WORKFLOW_MESSAGES task asks for."""

from __future__ import annotations

from typing import Any

TYPE = "PULL_WORKFLOW_MESSAGES"
MOST = 100
"""Messages that one task may take."""


def batch_size(given: dict[str, Any]) -> int:
    """How many messages it takes at most; raises ValueError."""
    size = given.get("batchSize")
    if size is None:
        return 1
    if type(size) is not int or not 1 <= size <= MOST:
        raise ValueError(f"batchSize: expected a whole number from 1 to {MOST}, got {size!r:.40}")
    return size


def is_blocking(given: dict[str, Any]) -> bool:
    """Whether it waits until there is a message; raises ValueError."""
    blocking = given.get("blocking")
    if blocking not in (None, True, False) or type(blocking) is int:
        raise ValueError(f"blocking: expected true or false, got {blocking!r:.40}")
    return blocking is not False
