"""The pass: claim, lock, read, decide, apply, commit, for a batch of runs in one transaction.

INV-1 claim first; INV-3 every doubt becomes one more pass; INV-4 one evaluation per run; INV-8 consumed marks;
INV-10 completion is the engine's proof; INV-13 a poisonous run is put aside alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from orchestrator.conf import conf
from orchestrator.db.hints import DECIDE, hint
from orchestrator.db.sql import batch
from orchestrator.db.transactions import transaction
from workflows.engine.state import WorkflowStatus
from workflows.managers.decide_queue import DecideRequest
from workflows.managers.execution import LockedExecution
from workflows.models import DecideQueue, Execution
from workflows.offloading import Reference
from workflows.services.applying import Decided, apply_decisions, ends_run
from workflows.services.deciding import decide_all
from workflows.services.fetching import NOTHING, Payloads, read

log = structlog.get_logger(__name__)
Claim = Callable[[], list[DecideRequest]]


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did: runs claimed, and runs whose evaluation failed, with the error."""

    claimed: int
    failed: tuple[tuple[UUID, str], ...] = ()
    unread: Mapping[UUID, dict[str, Reference]] = field(default_factory=dict)
    """Runs that were put back because they need payloads from the store."""


def evaluate_next_batch() -> int:
    """Evaluate a batch of runs that await a pass; returns how many were claimed."""
    settings = conf()
    claimed = _guarded(lambda: DecideQueue.sql.claim(batch=settings.DECIDE_BATCH))
    claimed += report_next_batch()
    if claimed >= settings.DECIDE_BATCH:
        return claimed  # a backlog: what waits there is old because there is much of it
    overdue = DecideQueue.sql.peek_overdue(seconds=settings.DECIDE_MAX_SKIP_SECONDS)
    if overdue is not None:
        claimed += _guarded(lambda: DecideQueue.sql.claim_waiting(overdue))
    return claimed


def evaluate_now(ids: Sequence[UUID]) -> int:
    """Evaluate named runs, in a transaction of its own after the commit that woke them; skips those in other hands."""
    return _guarded(lambda: DecideQueue.sql.claim_these(ids))


def evaluate_eagerly(ids: Sequence[UUID]) -> None:
    """Evaluate runs right after the commit that woke them, so that a client sees what follows; the decide queue is
    the guarantee, so an error here is only logged."""
    try:
        evaluate_now(ids)
    except Exception:
        log.exception("eager_evaluation_failed", workflow_ids=[str(found) for found in ids])


def evaluate_for_client(workflow_id: UUID) -> None:
    """Evaluate the run of a call before it is answered; where another process has it in hand, wait for that pass."""
    try:
        if not evaluate_now([workflow_id]):
            _guarded(lambda: DecideQueue.sql.claim_waiting(workflow_id))
    except Exception:
        log.exception("eager_evaluation_failed", workflow_ids=[str(workflow_id)])


def report_next_batch() -> int:
    """Round 2: end runs that have a parent, for the whole group with the parents' gates held first. [INV-12]"""
    waiting = DecideQueue.sql.peek_reports(batch=conf().DECIDE_BATCH)
    if not waiting:
        return 0
    parents = {parent for _, parent in waiting}
    # A run whose own child reports in this group would be read before that report: it waits for the next round.
    children = [child for child, _ in waiting if child not in parents]

    def claim() -> list[DecideRequest]:
        DecideQueue.sql.enqueue(parents)
        return DecideQueue.sql.claim_these(children)

    return _guarded(claim, parents=parents)


def _guarded(claim: Claim, parents: set[UUID] | None = None, known: Payloads = NOTHING) -> int:
    """Run a pass; a batch that fails as a whole is bisected until the run that fails is alone. [INV-13]"""
    seen: list[UUID] = []

    def noting() -> list[DecideRequest]:
        requests = claim()
        seen.extend(request.workflow_id for request in requests)
        return requests

    try:
        result = evaluate(noting, parents, known)
    except Exception as error:
        if not seen or is_connection_error(error):
            raise
        if len(seen) == 1:
            _record_failure(seen[0], error)
            return 1
        half = len(seen) // 2
        for part in (seen[:half], seen[half:]):
            _guarded(_claim_part(part, parents), parents, known)
        return len(seen)
    for workflow_id, message in result.failed:
        _record_failure(workflow_id, message)
    if result.unread:
        _read_and_go_on(result.unread, parents, known)
    return result.claimed


def _read_and_go_on(unread: Mapping[UUID, dict[str, Reference]], parents: set[UUID] | None, known: Payloads) -> None:
    """Read payloads from the store while nothing is locked, then give their runs another turn."""
    more, ready = dict(known), []
    for workflow_id, references in unread.items():
        try:
            more.update((key, read(reference)) for key, reference in references.items() if key not in more)
        except Exception as error:  # the store cannot be reached: the run backs off
            _record_failure(workflow_id, error)
        else:
            ready.append(workflow_id)
    if ready:
        _guarded(_claim_part(ready, parents), parents, more)


def _claim_part(ids: Sequence[UUID], parents: set[UUID] | None) -> Claim:
    def claim() -> list[DecideRequest]:
        if parents:
            DecideQueue.sql.enqueue(parents)
        return DecideQueue.sql.claim_these(ids)

    return claim


def is_connection_error(error: BaseException) -> bool:
    """Whether the connection, not the work, is at fault: the loop backs off and nothing is recorded."""
    from django.db import InterfaceError, OperationalError

    return isinstance(error, (InterfaceError, OperationalError))


def _record_failure(workflow_id: UUID, error: BaseException | str) -> None:
    message = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    log.error("pass_failed", workflow_id=str(workflow_id), error=message, exc_info=not isinstance(error, str))
    with transaction():
        DecideQueue.sql.record_failure(workflow_id, message, max_attempts=conf().DECIDE_MAX_ATTEMPTS)


def evaluate(claim: Claim, parents: set[UUID] | None = None, known: Payloads = NOTHING) -> PassResult:
    """One pass over the runs that `claim` takes; claim, lock and read are three statements (rule S)."""
    started = time.monotonic()
    with transaction():
        requests = {request.workflow_id: request for request in claim()}
        if not requests:
            return PassResult(0)
        runs = [run for run in Execution.sql.lock(requests) if _may_advance(run)]
        if not runs:
            return PassResult(len(requests))
        decided, failed, unread = decide_all(runs, started + conf().DECIDE_BATCH_SECONDS, known)
        done = {d.run.id for d in decided}
        back: list[tuple[DecideRequest, UUID | None]] = [
            (requests[run.id], None) for run in runs if run.id not in done
        ]
        now: list[Decided] = []
        for item in decided:
            parent = item.run.parent_workflow_id
            if parent is not None and ends_run(item.decision) and (parents is None or parent not in parents):
                back.append((requests[item.run.id], parent))
            else:
                now.append(item)
        with batch():
            again = apply_decisions(now)
        again |= {item.run.id for item in now if item.decision.again}
        if back:
            DecideQueue.sql.put_back(back)
        if again:
            DecideQueue.sql.enqueue(again)
        if back or again or parents:
            hint(DECIDE)
    return PassResult(len(requests), tuple(failed), unread)


def _may_advance(run: LockedExecution) -> bool:
    """A paused, unadmitted or ended run keeps still; its claim is discarded, resume and admission enqueue again."""
    return run.status == WorkflowStatus.RUNNING and run.admitted_at is not None
