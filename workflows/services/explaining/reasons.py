"""The reasons a run may wait for: their codes, and how times are said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID


class Code(StrEnum):
    """What is waited for; programs may rely on these."""

    ENDED = "ENDED"
    QUARANTINED = "QUARANTINED"
    DECIDE_FAILED = "DECIDE_FAILED"
    PAUSED = "PAUSED"
    NOT_ADMITTED = "NOT_ADMITTED"
    DECIDE_DUE = "DECIDE_DUE"
    NO_DECIDER = "NO_DECIDER"
    NO_WORKER = "NO_WORKER"
    QUEUED = "QUEUED"
    DELAYED = "DELAYED"
    HELD = "HELD"
    LIMITED = "LIMITED"
    SEMAPHORE = "SEMAPHORE"
    LEASED = "LEASED"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    TIMER = "TIMER"
    TIMER_LATE = "TIMER_LATE"
    TIMER_FAILED = "TIMER_FAILED"
    TIMER_QUARANTINED = "TIMER_QUARANTINED"
    SIGNAL = "SIGNAL"
    HUMAN = "HUMAN"
    MESSAGE = "MESSAGE"
    WEBHOOK = "WEBHOOK"
    CHILD = "CHILD"
    CHILD_STARTING = "CHILD_STARTING"
    DELIVERY_FAILED = "DELIVERY_FAILED"
    DELIVERY_DEAD = "DELIVERY_DEAD"
    JOINS = "JOINS"
    COMPENSATING = "COMPENSATING"
    NO_QUEUE_ROW = "NO_QUEUE_ROW"
    TIMER_LOST = "TIMER_LOST"
    CHILD_NOT_REPORTED = "CHILD_NOT_REPORTED"
    CHILD_LOST = "CHILD_LOST"
    NOTHING_WAKES_IT = "NOTHING_WAKES_IT"

    @property
    def is_bug(self) -> bool:
        """Whether a healthy system never gives this reason."""
        return self in _BUGS


_BUGS = frozenset(
    {Code.NO_QUEUE_ROW, Code.TIMER_LOST, Code.CHILD_NOT_REPORTED, Code.CHILD_LOST, Code.NOTHING_WAKES_IT}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that is waited for; `related` is a run that it is about, `until` when it ends by itself."""

    code: Code
    message: str
    action: str
    ref: str | None = None
    iteration: str | None = None
    task_id: UUID | None = None
    until: datetime | None = None
    related: UUID | None = None
    timer_id: UUID | None = None
    event_id: UUID | None = None


def moment(at: datetime) -> str:
    """A time as people read it."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float) -> str:
    """A time span in its two largest units."""
    left = max(0, round(seconds))
    parts = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"
