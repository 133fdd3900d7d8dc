"""Long polls: lease at once, or wait for a task up to a time; the wait holds no lock and no transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from dispatch.services import dispatching
from workflows.managers.task import StartedTask

_PAUSE_SECONDS = 0.05
_RECORD_SECONDS = 1.0
_recorded: dict[tuple[str, str, str], float] = {}
_lock = threading.Lock()


def queue_name(name: str, domain: str | None) -> str:
    """The queue of a task type in a domain."""
    return f"{domain}:{name}" if domain else name


def poll(
    namespace: str, name: str, domain: str | None, *, batch: int, worker_id: str, seconds: float
) -> list[StartedTask]:
    """Up to `batch` tasks of a type, waiting up to `seconds` for the first."""
    queue = queue_name(name, domain)
    note_polls(namespace, [(name, domain)], worker_id)
    deadline = time.monotonic() + seconds
    while True:
        found = dispatching.lease_tasks(namespace, queue, batch=batch, worker_id=worker_id)
        left = deadline - time.monotonic()
        if found or left <= 0:
            return found
        threading.Event().wait(min(_PAUSE_SECONDS, left))


def note_polls(namespace: str, types: Sequence[tuple[str, str | None]], worker_id: str) -> None:
    """Who polled (name, domain) types, at most once a second each; apart from any lease."""
    now = time.monotonic()
    due = []
    with _lock:
        if len(_recorded) > 10_000:
            _recorded.clear()
        for name, domain in types:
            key = (namespace, name, worker_id)
            if now - _recorded.get(key, -_RECORD_SECONDS) >= _RECORD_SECONDS:
                _recorded[key] = now
                due.append((namespace, name, domain, worker_id))
    dispatching.record_polls(due)
