"""Verbs of the counters of wrong credentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from orchestrator.db import sql
from orchestrator.db.ids import new_id
from orchestrator.db.models import VerbManager
from orchestrator.db.transactions import requires_transaction

_SQL = sql.load("orchestrator", "lockout.sql")


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """What failures are counted by: a `key` by its id, a `user` by name, or an `address`."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class StoredLockout:
    """The failures of a subject, and the end of its lock-out when it is locked out."""

    subject: Subject
    failures: int
    locked_until: datetime | None
    ends_at: datetime


class LockoutManager(VerbManager):
    """Failures and lock-outs; callers name the subjects of an attempt in order."""

    def find_locked(self, subjects: Sequence[Subject]) -> float | None:
        """Seconds until the last of these is no longer locked out; None when none is."""
        row = _SQL.find_locked.row(kinds=[s.kind for s in subjects], names=[s.name for s in subjects])
        return row[0] if row else None

    @requires_transaction
    def add_failure(self, subject: Subject, *, window_seconds: float) -> int:
        """Count one more failure; returns how many there are."""
        row = _SQL.add_failure.row(id=new_id(), kind=subject.kind, name=subject.name, seconds=window_seconds)
        return int(row[0]) if row else 0

    @requires_transaction
    def lock(self, subject: Subject, *, seconds: float) -> bool:
        """Lock a subject out; False when it is already."""
        return _SQL.lock.execute(kind=subject.kind, name=subject.name, seconds=seconds) == 1

    @requires_transaction
    def forgive(self, subject: Subject, *, most: int) -> None:
        """Take back one counted failure."""
        _SQL.forgive.execute(kind=subject.kind, name=subject.name, most=most)

    @requires_transaction
    def lift(self, subject: Subject) -> bool:
        """Forget what is counted; False when nothing is."""
        return _SQL.lift.execute(kind=subject.kind, name=subject.name) == 1

    def find_all(self) -> list[StoredLockout]:
        """What counts now, at most a thousand."""
        return [StoredLockout(Subject(row[0], row[1]), *row[2:]) for row in _SQL.find_all.rows()]

    @requires_transaction
    def prune(self) -> int:
        """Delete what counts no more."""
        return _SQL.prune.execute()
