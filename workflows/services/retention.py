"""Retention by state: what ended long enough ago is deleted, a run that has not ended never is, however old it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog
from prometheus_client import Counter

from dispatch.models import WorkerPoll
from orchestrator.conf import conf
from orchestrator.db.ids import id_floor
from orchestrator.db.transactions import transaction
from orchestrator.models import AuditEntry, Lockout
from outbox.models import EventExecution, OutboxEvent
from workflows.managers.dead_letter import DeadLetterQueries
from workflows.models import DecideQueue, Execution, IdempotencyKey, Revision
from workflows.services.control.removing import erase
from workflows.services.maintenance import empty_months

log = structlog.get_logger(__name__)
RETIRED = Counter("ostinato_retired_total", "What retention deleted, one by one or as a month.", ["kind"])
_BATCH = 100
_SETTLED = timedelta(days=1)
"""A newer revision is not looked at: who stored it may be about to use it again."""
_FOR_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """Runs that ended before these moments may go: those that completed, and all others."""

    completed: datetime
    failed: datetime

    @property
    def latest(self) -> datetime:
        return max(self.completed, self.failed)


def cutoffs(now: datetime) -> Cutoffs:
    """What the settings say, as of a moment."""
    settings = conf()
    return Cutoffs(_ago(now, settings.RETENTION_COMPLETED_DAYS), _ago(now, settings.RETENTION_FAILED_DAYS))


def retire(now: datetime | None = None) -> int:
    """Delete a batch of what need not be kept any more; returns how many runs, months, keys and dead letters went."""
    moment = now or datetime.now(UTC)
    until = cutoffs(moment)
    months = empty_months(until.completed, until.failed, moment)
    runs = _retire_runs(until)
    keys = _retire_keys(moment)
    letters = retire_letters(moment)
    for kind, number in (("month", months), ("run", runs), ("key", keys), ("letter", letters)):
        RETIRED.labels(kind).inc(number)
    if months or runs or keys or letters:
        log.info("retired", months=months, runs=runs, keys=keys, letters=letters)
        return months + runs + keys + letters
    _prune_records(moment)
    return 0


def preview(now: datetime | None = None) -> int:
    """How many runs could go now, counted up to ten thousand."""
    until = cutoffs(now or datetime.now(UTC))
    return len(_peek(until, 10_000))


def _retire_runs(until: Cutoffs) -> int:
    """A batch in the gate order: gates, then rows, looked at again under their locks, then everything of theirs."""
    found = _peek(until, _BATCH)
    if not found:
        return 0
    with transaction():
        DecideQueue.sql.enqueue(found)
        Execution.sql.lock(found)
        # One that was retried since is seen here, in a statement after the locks (rule S).
        return erase(_peek(until, _BATCH, found))


def _peek(until: Cutoffs, batch: int, ids: Sequence[UUID] | None = None) -> list[UUID]:
    floor = id_floor(until.latest)
    return Execution.sql.peek_finished(floor, completed=until.completed, failed=until.failed, batch=batch, ids=ids)


def _retire_keys(now: datetime) -> int:
    with transaction():
        return IdempotencyKey.sql.prune(id_floor(_ago(now, conf().RETENTION_KEY_DAYS)), batch=1000)


def retire_letters(now: datetime, *, batch: int = _BATCH) -> int:
    """Delete a batch of old dead letters, except those that a live run has to do with; returns how many.

    Should such a run come to life meanwhile, it makes its tasks anew, with effects of their own.
    """
    before = _ago(now, conf().RETENTION_DEAD_LETTER_DAYS)
    found = DeadLetterQueries().peek_idle(before, batch=batch)
    if not found:
        return 0
    with transaction():
        gone = OutboxEvent.sql.prune_dead(found, before)
        for letter in gone:
            if letter.execution_id is not None:
                reason = f"It could not be done and was given up. The last error: {letter.last_error}"
                EventExecution.sql.finish(letter.execution_id, "FAILED", None, reason)
    return len(gone)


def retire_revisions(now: datetime | None = None, *, batch: int = 1000) -> int:
    """Delete a batch of revisions that no version of a definition and no run names; returns how many.

    It looks through all runs, so it has a loop of its own that goes round seldom. It waits for no start, nor they for it.
    """
    before = (now or datetime.now(UTC)) - _SETTLED
    found = Revision.sql.peek_unused(before, batch=batch)
    if not found:
        return 0
    with transaction():
        # A run that came before the locks is seen here, in a statement after them (rule S).
        gone = Revision.sql.delete_unused(Revision.sql.lock_free(found))
    RETIRED.labels("revision").inc(gone)
    log.info("revisions_retired", revisions=gone)
    return gone


def _prune_records(now: datetime) -> None:
    with transaction():
        AuditEntry.sql.prune(id_floor(_ago(now, conf().RETENTION_AUDIT_DAYS)))
    with transaction():
        WorkerPoll.sql.prune(seconds=timedelta(days=conf().RETENTION_POLL_DAYS).total_seconds())
    with transaction():
        Lockout.sql.prune()


def _ago(now: datetime, days: int) -> datetime:
    return now - timedelta(days=days) if days > 0 else _FOR_EVER
