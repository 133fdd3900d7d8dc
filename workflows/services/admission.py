"""Which runs may run now: workflow rate limits by key, first in, first out, and tenants' quotas. [INV-9]

A start that owns its transaction counts and decides under the advisory locks of what is contended. One that joined a
caller's transaction takes none of them, for that would stop every start of the tenant until the caller commits: its run
waits unadmitted, and a transaction of ours admits it. Ending a run admits nobody; it wakes the admission loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog

from orchestrator.conf import conf
from orchestrator.db.hints import ADMISSION, DECIDE, hint
from orchestrator.db.locks import Advisory, advisory_key, take_advisory
from orchestrator.db.transactions import after_commit, transaction
from orchestrator.errors import Invalid, LimitExceeded
from workflows.engine.rate_keys import rate_limit, rejects
from workflows.managers.admission import Group, NewAdmission
from workflows.models import Admission, DecideQueue, Execution, Quota
from workflows.services.deadlines import arm_deadline
from workflows.services.revisions import blueprint_for

log = structlog.get_logger(__name__)
_BATCH = 100
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Quotas:
    """All quotas at one time."""

    read_at: float
    most: dict[str, int]


_known: _Quotas | None = None


def _has_quota(namespace: str) -> bool:
    """Whether a tenant has a quota, as this process last read it: a tenant without one pays for none."""
    global _known
    known = _known
    if known is None or time.monotonic() - known.read_at >= conf().LIMITS_CACHE_SECONDS:
        with _lock:
            known = _known = _Quotas(time.monotonic(), Quota.sql.quotas())
    return namespace in known.most


def forget() -> None:
    """Read the quotas again at the next question."""
    global _known
    _known = None


@dataclass(frozen=True, slots=True)
class Applicant:
    """A run that would start: `owned` says that the transaction is the start's own, `refusable` that a user waits for it."""

    workflow_id: UUID
    namespace: str
    definition: dict[str, Any]
    workflow: dict[str, Any]
    root: bool
    owned: bool
    refusable: bool


def apply(applicant: Applicant) -> NewAdmission | None:
    """What becomes of a start, None when nothing limits it; raises LimitExceeded. Before the gate is taken. [INV-12]"""
    definition, namespace, name = applicant.definition, applicant.namespace, applicant.definition["name"]
    limit = rate_limit(definition, applicant.workflow)
    counted = applicant.root and _has_quota(namespace)
    if limit is None and not counted:
        return None
    key, most = limit or (None, None)
    if applicant.owned:
        _take(namespace, name, key, counted)
    free = True
    if counted:
        quota = Quota.sql.quota(namespace)
        free = quota is None or sum(Admission.sql.of_tenant(namespace)) < quota
        if not free and applicant.refusable:
            raise LimitExceeded(f"The tenant may have {quota} running workflows at a time, and has them.", limit=quota)
    if key is not None and most is not None:
        admitted, waiting = Admission.sql.of_key(namespace, name, key)
        if admitted >= most and rejects(definition):
            raise LimitExceeded(f"{name} may run {most} times at a time for the key {key!r}, and does.", limit=most)
        free = free and not waiting and admitted < most  # a newcomer never overtakes
    return NewAdmission(applicant.workflow_id, namespace, name, key, most, counted, free and applicant.owned)


def _take(namespace: str, name: str, key: str | None, counted: bool) -> None:
    keys = [advisory_key(Advisory.QUOTA, namespace)] if counted else []
    if key is not None:
        keys.append(advisory_key(Advisory.RATE_KEY, namespace, name, key))
    take_advisory(keys)


def readmit(run_id: UUID, namespace: str, definition: dict[str, Any], workflow: dict[str, Any], root: bool) -> None:
    """Count a run that an operator brings back; it does not wait again."""
    limit = rate_limit(definition, workflow)
    counted = root and _has_quota(namespace)
    if limit is not None or counted:
        key, most = limit or (None, None)
        Admission.sql.insert(NewAdmission(run_id, namespace, definition["name"], key, most, counted, True))


def admit_next_batch() -> int:
    """Admit waiting runs for which there is room, each line in a transaction of its own; returns how many."""
    return sum(_admit(group) for group in Admission.sql.peek_groups(batch=_BATCH))


def _admit(group: Group) -> int:
    """Advisory locks > count > gates > runs > rows. The longest-waiting run of the line goes first. [INV-9, INV-12]"""
    with transaction():
        counts = Quota.sql.quota(group.namespace) is not None
        _take(group.namespace, group.name, group.key, counts)
        quota = Quota.sql.quota(group.namespace)
        if quota is not None and not counts:
            return 0  # it is new, and its lock is not ours: the next round takes it
        chosen = _choose(group, quota)
        if not chosen:
            return 0
        DecideQueue.sql.enqueue(chosen)
        admitted = Execution.sql.admit(chosen)
        Admission.sql.admit(admitted)
        for workflow_id, namespace, definition in _definitions(admitted):
            arm_deadline(namespace, workflow_id, definition)
        hint(DECIDE)
    log.info("runs_admitted", namespace=group.namespace, workflow=group.name, key=group.key, count=len(admitted))
    return len(admitted)


def _choose(group: Group, quota: int | None) -> list[UUID]:
    """The runs at the head of the line that have room; with a quota one at a time, so that other lines take turns."""
    room = _BATCH
    if quota is not None:
        room = min(1, max(0, quota - Admission.sql.of_tenant(group.namespace)[0]))
    heads = Admission.sql.peek_line(group, batch=_BATCH)
    if group.key is not None and heads:
        running = Admission.sql.of_key(group.namespace, group.name, group.key)[0]
        heads = heads[: _prefix(heads, running)]
    return [head[0] for head in heads[:room]]


def _prefix(heads: Sequence[tuple[UUID, int | None, bool]], running: int) -> int:
    """How many at the head of the line fit: one that does not holds up those behind it."""
    for position, (_, most, _) in enumerate(heads):
        if running + position >= (most or 0):
            return position
    return len(heads)


def _definitions(ids: Sequence[UUID]) -> list[tuple[UUID, str, dict[str, Any]]]:
    """(run, namespace, definition) of runs whose clock starts now."""
    runs = list(Execution.objects.filter(id__in=ids).values_list("id", "namespace", "revision_id"))
    blueprints = blueprint_for(revision for _, _, revision in runs)
    return [(run, namespace, blueprints[revision].definition) for run, namespace, revision in runs]


def get_quota(namespace: str) -> dict[str, Any]:
    """A tenant's quota, and what of it is used."""
    most = Quota.sql.quota(namespace)
    running, waiting = Admission.sql.of_tenant(namespace)
    return {"namespace": namespace, "maxConcurrentExecutions": most, "running": running, "waiting": waiting}


def put_quota(namespace: str, most: object) -> dict[str, Any]:
    """Set how many runs a tenant may have at a time, None for any number; runs under way are counted. Raises Invalid."""
    if most is not None and (type(most) is not int or not 0 <= most < 2**31):
        expected = f"expected a whole number from 0 to {2**31 - 1}, or null, got {most!r}"
        raise Invalid(problems=[("maxConcurrentExecutions", expected)])
    with transaction():
        take_advisory([advisory_key(Advisory.QUOTA, namespace)])
        Quota.sql.put_quota(namespace, most)
        if most is not None:
            Quota.sql.count_running(namespace)
        after_commit(forget)
        hint(ADMISSION)
    return get_quota(namespace)
