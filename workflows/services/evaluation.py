"""The pass: claim, lock, read, decide, apply, commit, for a batch of runs in one transaction.

INV-1 claim first; INV-3 every doubt becomes one more pass; INV-4 one evaluation per run; INV-8 consumed marks;
INV-10 completion is the engine's proof; INV-13 a poisonous run is put aside alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import structlog

from orchestrator.conf import conf
from orchestrator.db.hints import DECIDE, hint
from orchestrator.db.ids import new_id
from orchestrator.db.sql import batch
from orchestrator.db.transactions import transaction
from orchestrator.scripts import evaluate_script
from orchestrator.services import environment
from workflows import payloads
from workflows.engine.blueprint import Blueprint
from workflows.engine.commands import Decision
from workflows.engine.compensation import NEWEST, named, turns_around
from workflows.engine.decider import decide
from workflows.engine.state import State, TaskView, WorkflowStatus, WorkflowView
from workflows.managers.decide_queue import DecideRequest
from workflows.managers.execution import LockedExecution
from workflows.models import DecideQueue, Execution, Task
from workflows.services.applying import Decided, apply_decisions, ends_run
from workflows.services.revisions import blueprint_for

log = structlog.get_logger(__name__)
Claim = Callable[[], list[DecideRequest]]


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did: runs claimed, and runs whose evaluation failed, with the error."""

    claimed: int
    failed: tuple[tuple[UUID, str], ...] = ()


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


def _guarded(claim: Claim, parents: set[UUID] | None = None) -> int:
    """Run a pass; a batch that fails as a whole is bisected until the run that fails is alone. [INV-13]"""
    seen: list[UUID] = []

    def noting() -> list[DecideRequest]:
        requests = claim()
        seen.extend(request.workflow_id for request in requests)
        return requests

    try:
        result = evaluate(noting, parents)
    except Exception as error:
        if not seen or is_connection_error(error):
            raise
        if len(seen) == 1:
            _record_failure(seen[0], error)
            return 1
        half = len(seen) // 2
        for part in (seen[:half], seen[half:]):
            _guarded(_claim_part(part, parents), parents)
        return len(seen)
    for workflow_id, message in result.failed:
        _record_failure(workflow_id, message)
    return result.claimed


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


def evaluate(claim: Claim, parents: set[UUID] | None = None) -> PassResult:
    """One pass over the runs that `claim` takes; claim, lock and read are three statements (rule S)."""
    started = time.monotonic()
    with transaction():
        requests = {request.workflow_id: request for request in claim()}
        if not requests:
            return PassResult(0)
        runs = [run for run in Execution.sql.lock(requests) if _may_advance(run)]
        if not runs:
            return PassResult(len(requests))
        decided, failed = _decide_all(runs, started + conf().DECIDE_BATCH_SECONDS)
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
    return PassResult(len(requests), tuple(failed))


def _may_advance(run: LockedExecution) -> bool:
    """A paused, unadmitted or ended run keeps still; its claim is discarded, resume and admission enqueue again."""
    return run.status == WorkflowStatus.RUNNING and run.admitted_at is not None


def _decide_all(runs: Sequence[LockedExecution], deadline: float) -> tuple[list[Decided], list[tuple[UUID, str]]]:
    """Decide each run; those past the deadline are left out, those that fail are named with their error."""
    ids = [run.id for run in runs]
    frontier: dict[UUID, list[TaskView]] = {run.id: [] for run in runs}
    for workflow_id, task in Task.sql.read_frontier(ids):
        frontier[workflow_id].append(task)
    bare = [workflow_id for workflow_id, tasks in frontier.items() if not tasks]
    begun = set(ids) - set(bare) | (Task.sql.has_any(bare) if bare else set())
    blueprints = blueprint_for(run.revision_id for run in runs)
    reading = {run.namespace for run in runs if (b := blueprints.get(run.revision_id)) and b.reads_environment}
    environments = environment.values(reading) if reading else {}
    decided: list[Decided] = []
    failed: list[tuple[UUID, str]] = []
    waiting = [
        _Waiting(
            run, blueprints.get(run.revision_id), tuple(frontier[run.id]), run.id in begun,
            environments.get(run.namespace, {}),
        )
        for run in runs
    ]  # fmt: skip
    while waiting:
        wanted: list[tuple[UUID, str]] = []
        unsettled: list[tuple[_Waiting, frozenset[str]]] = []
        undoing: list[_Waiting] = []
        for item in waiting:
            if decided and time.monotonic() > deadline:
                continue
            try:
                decision = item.decide()
            except Exception as error:  # the run is put aside, its neighbours go on
                log.exception("decide_failed", workflow_id=str(item.run.id))
                failed.append((item.run.id, f"{type(error).__name__}: {error}"))
                continue
            if decision.original_after is not None:
                undoing.append(item.with_original(decision.original_after))
            elif decision.needs:
                unsettled.append((item, decision.needs))
                wanted += [(item.run.id, ref) for ref in sorted(decision.needs)]
            else:
                decided.append(Decided(item.run, decision))
        found: dict[UUID, list[TaskView]] = {}
        if wanted:
            for workflow_id, task in Task.sql.read_refs(wanted):
                found.setdefault(workflow_id, []).append(task)
        waiting = [item.with_rows(found.get(item.run.id, []), needs) for item, needs in unsettled] + undoing
    return decided, failed


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A run being decided, with the rows read for it so far."""

    run: LockedExecution
    blueprint: Blueprint | None
    tasks: tuple[TaskView, ...]
    has_any_task: bool
    env: dict[str, str]
    loaded: frozenset[str] = frozenset()
    originals: Mapping[UUID, TaskView | None] = field(default_factory=dict)

    def with_rows(self, rows: Sequence[TaskView], needs: frozenset[str]) -> _Waiting:
        read = {task.id for task in rows}  # these come with their payloads, open tasks of the frontier without
        tasks = tuple(task for task in self.tasks if task.id not in read) + tuple(rows)
        return replace(self, tasks=tasks, loaded=self.loaded | needs)

    def with_original(self, after: UUID) -> _Waiting:
        """With the completed task to undo next, and what its turn of a loop put out."""
        refs = (self.blueprint.undoable if self.blueprint else None) or ()
        original = Task.sql.read_original(self.run.id, refs, after=None if after == NEWEST else after)
        known = replace(self, originals={**self.originals, after: original})
        if self.blueprint is None or original is None or not original.iteration:
            return known
        around = Task.sql.read_turn(self.run.id, named(self.blueprint), turns_around(original.iteration))
        return known.with_rows(around, frozenset())

    def decide(self) -> Decision:
        if self.blueprint is None:
            raise LookupError(f"revision {self.run.revision_id} does not exist")
        run = self.run
        view = WorkflowView(
            id=run.id,
            namespace=run.namespace,
            name=run.name,
            version=run.version,
            status=WorkflowStatus(run.status),
            input=run.input,
            output=run.output,
            variables=run.variables,
            correlation_id=run.correlation_id,
            priority=run.priority,
            parent_workflow_id=run.parent_workflow_id,
            parent_task_id=run.parent_task_id,
            task_to_domain=run.task_to_domain,
            created_at=run.created_at,
            root_ended=run.root_ended,
            has_any_task=self.has_any_task,
            depth=run.depth,
            reason=run.reason,
            created_by=run.created_by,
        )
        state = State(
            workflow=view, tasks=self.tasks, loaded=self.loaded, now=run.now, env=self.env, new_id=new_id,
            originals=self.originals, excess=payloads.excess,
        )  # fmt: skip
        return decide(self.blueprint, state, evaluate_script)
