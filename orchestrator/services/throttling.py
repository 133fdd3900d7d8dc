"""Requests of each API key and webhook, counted when `KEY_REQUESTS_PER_MINUTE` says so: in memory, by each web process."""

from __future__ import annotations

import threading
import time
from uuid import UUID

from orchestrator.conf import conf
from orchestrator.errors import LimitExceeded

_LOCK = threading.Lock()
_LEFT: dict[UUID, tuple[float, float]] = {}
"""What a key or a webhook had left, and when; a minute's worth comes back in a minute."""
_MOST_KEYS = 10_000


def take(key_id: UUID, what: str = "key") -> None:
    """Count a request of a key, or of another thing; raises LimitExceeded when it has none left."""
    most = conf().KEY_REQUESTS_PER_MINUTE
    if most <= 0:
        return
    now = time.monotonic()
    with _LOCK:
        if len(_LEFT) >= _MOST_KEYS:
            _LEFT.clear()
        before, at = _LEFT.get(key_id, (float(most), now))
        left = min(most, before + (now - at) * most / 60)
        if left >= 1:
            _LEFT[key_id] = (left - 1, now)
            return
    raise LimitExceeded(
        f"This {what} may send {most} requests a minute, and has.", retry_after=(1 - left) * 60 / most, limit=most
    )
