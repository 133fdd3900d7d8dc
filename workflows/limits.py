"""What task definitions limit, as this process last read it: known before any lock is taken, so that a queue without a
limit pays for none. Whoever grants reads the definitions again under the lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orchestrator.conf import conf
from workflows.models import TaskDefinition

Key = tuple[str, str]
"""(namespace, name of a task definition)."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """How a definition limits its tasks; zero is no limit. A window is in seconds."""

    concurrent: int = 0
    rate: int = 0
    window: int = 1
    semaphores: tuple[tuple[str, int], ...] = ()

    @property
    def counted(self) -> bool:
        """Whether what is in flight, or was handed out, is counted under the definition's advisory lock."""
        return bool(self.concurrent or self.rate)

    def wants(self, semaphore: str) -> bool:
        """Whether its tasks take permits of a semaphore."""
        return any(name == semaphore for name, _ in self.semaphores)


@dataclass(frozen=True, slots=True)
class _Known:
    """All limited definitions at one time."""

    read_at: float
    stamp: Any
    limits: dict[Key, TaskLimits]


_lock = threading.Lock()
_known: _Known | None = None


def parse(definition: dict[str, Any]) -> TaskLimits:
    """The limits a definition names."""
    semaphores: dict[str, int] = {}
    for entry in definition.get("semaphores") or ():
        name, permits = (entry, 1) if isinstance(entry, str) else (entry["name"], entry.get("permits") or 1)
        semaphores[name] = semaphores.get(name, 0) + permits
    return TaskLimits(
        concurrent=definition.get("concurrentExecLimit") or 0,
        rate=definition.get("rateLimitPerFrequency") or 0,
        window=definition.get("rateLimitFrequencyInSeconds") or 1,
        semaphores=tuple(sorted(semaphores.items())),
    )


def limited() -> dict[Key, TaskLimits]:
    """Every definition with a limit; what another process registered shows after LIMITS_CACHE_SECONDS."""
    global _known
    known = _known
    if known is not None and time.monotonic() - known.read_at < conf().LIMITS_CACHE_SECONDS:
        return known.limits
    with _lock:
        known = _known
        now = time.monotonic()
        if known is not None and now - known.read_at < conf().LIMITS_CACHE_SECONDS:
            return known.limits
        stamp = TaskDefinition.sql.stamp()  # before what it vouches for is read
        if known is not None and known.stamp == stamp:
            _known = _Known(now, stamp, known.limits)
            return known.limits
        _known = _Known(now, stamp, read_all())
        return _known.limits


def read_all() -> dict[Key, TaskLimits]:
    """Every definition with a limit, as they are in the database now."""
    return {(namespace, name): parse(found) for namespace, name, found in TaskDefinition.sql.limited()}


def read(keys: Iterable[Key]) -> dict[Key, TaskLimits]:
    """The limits of definitions as they are in the database now."""
    by_namespace: dict[str, list[str]] = {}
    for namespace, name in keys:
        by_namespace.setdefault(namespace, []).append(name)
    return {
        (namespace, found.name): parse(found.definition)
        for namespace, names in by_namespace.items()
        for found in TaskDefinition.sql.find(namespace, names)
    }


def forget() -> None:
    """Read the definitions again at the next question: one of them was changed here."""
    global _known
    _known = None
