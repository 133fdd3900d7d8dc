"""What the limits of task definitions hold up."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dispatch.managers_limits import Holder, StoredSemaphore
from dispatch.models import Permit, QueuedTask, RateBucket, Semaphore
from workflows.limits import TaskLimits, limited
from workflows.services.explaining.reasons import moment

_MOST_HOLDERS = 3


@dataclass(frozen=True, slots=True)
class LimitPicture:
    """Why no task of a definition may be handed out now: its own count, or permits that others hold; None has room."""

    counted: str | None
    permits: str | None


def limit_pictures(namespace: str, names: Collection[str]) -> dict[str, LimitPicture]:
    """By name, of the definitions that limit their tasks; nearly always none."""
    wanted = {key: found for key, found in limited().items() if key[0] == namespace and key[1] in names}
    if not wanted:
        return {}
    flying, used = QueuedTask.sql.in_flight(list(wanted)), RateBucket.sql.used(list(wanted))
    semaphores = {found.name: found for found in Semaphore.sql.find(namespace)}
    return {
        key[1]: LimitPicture(
            _counted(found, flying.get(key, 0), used.get(key, 0)), _permits(namespace, found, semaphores)
        )
        for key, found in wanted.items()
    }


def _counted(found: TaskLimits, flying: int, used: int) -> str | None:
    if found.concurrent and flying >= found.concurrent:
        return f"{flying} of at most {found.concurrent} are in flight (concurrentExecLimit)"
    if found.rate and used >= found.rate:
        return f"{used} of at most {found.rate} were handed out in these {found.window} s (rateLimitPerFrequency)"
    return None


def _permits(namespace: str, found: TaskLimits, semaphores: dict[str, StoredSemaphore]) -> str | None:
    short = [
        f"it wants {wanted} of {name}, which has {semaphore.permits - semaphore.taken} of {semaphore.permits} free"
        + _held_by(Permit.sql.holders(namespace, name))
        for name, wanted in found.semaphores
        if (semaphore := semaphores.get(name)) is not None and semaphore.permits - semaphore.taken < wanted
    ]
    return "; ".join(short) or None


def _held_by(holders: list[Holder]) -> str:
    if not holders:
        return ""
    named = [
        f"task {holder.task_id} of run {holder.workflow_id}"
        + (f" until {moment(holder.lease_expires_at)}" if holder.lease_expires_at else "")
        for holder in holders[:_MOST_HOLDERS]
    ]
    more = f" and {len(holders) - _MOST_HOLDERS} more" if len(holders) > _MOST_HOLDERS else ""
    return f" (held by {', '.join(named)}{more})"
