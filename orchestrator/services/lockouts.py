"""Lock-outs: a key, a user or an address with too many wrong credentials is refused for a while, by every process.

An attempt is counted before it is judged and forgiven when it was right, so of many at the same moment no more are
judged than are allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.conf import conf
from orchestrator.db.transactions import transaction
from orchestrator.errors import LockedOut, NotFound
from orchestrator.managers_lockouts import StoredLockout, Subject
from orchestrator.models import AuditEntry, Lockout

KINDS = ("key", "user", "address")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt was counted by, and what it locks out unless it turns out right."""

    subjects: list[Subject]
    locked: list[Subject]


def begin(*subjects: Subject) -> Attempt:
    """Count an attempt as a failure before it is judged; raises LockedOut, and counts nothing, when it may not be made."""
    counted = sorted(s for s in subjects if s.name and _most(s) > 0)
    if not counted:
        return Attempt([], [])
    seconds = Lockout.sql.find_locked(counted)
    if seconds is not None:
        raise LockedOut(retry_after=seconds)
    with transaction():
        return Attempt(counted, [s for s in counted if _count(s)])


def refuse(attempt: Attempt, namespace: str) -> None:
    """The attempt was wrong: it and what it locks out are audited."""
    if not attempt.subjects:
        return
    names = {s.kind: s.name for s in attempt.subjects}
    target = next(names[kind] for kind in KINDS if kind in names)
    with transaction():
        _audit(namespace, names.get("address", "unknown"), "authenticate", target, "refused", list(names))
        for subject in attempt.locked:
            _audit(namespace, "system", "lock_out", subject.name, "done", [subject.kind])


def forgive(attempt: Attempt) -> None:
    """The attempt was right."""
    with transaction():
        for subject in attempt.subjects:
            Lockout.sql.forgive(subject, most=_most(subject))


def lift(subject: Subject, *, actor: str, namespace: str) -> None:
    """End a lock-out and forget its failures; raises NotFound when nothing is counted."""
    with transaction():
        if not Lockout.sql.lift(subject):
            raise NotFound(f"Nothing is counted for the {subject.kind} {subject.name!r}.")
        _audit(namespace, actor, "lift_lock_out", subject.name, "done", [subject.kind])


def find_all() -> list[StoredLockout]:
    """What is counted and locked out now, the longest first."""
    return Lockout.sql.find_all()


def _count(subject: Subject) -> bool:
    """Whether this attempt is the last that is allowed."""
    failures, most = Lockout.sql.add_failure(subject, window_seconds=conf().LOCKOUT_WINDOW_SECONDS), _most(subject)
    if failures < most:
        return False
    if not Lockout.sql.lock(subject, seconds=conf().LOCKOUT_SECONDS):
        # Another attempt was quicker since we looked.
        raise LockedOut(retry_after=conf().LOCKOUT_SECONDS)
    return True


def _most(subject: Subject) -> int:
    return conf().LOCKOUT_ADDRESS_FAILURES if subject.kind == "address" else conf().LOCKOUT_FAILURES


def _audit(namespace: str, actor: str, action: str, target: str, outcome: str, kinds: Sequence[str]) -> None:
    AuditEntry.sql.record(
        namespace=namespace, actor=actor, action=action, target=target, outcome=outcome, detail={"kinds": list(kinds)}
    )
