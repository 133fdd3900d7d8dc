"""What a pass decides for each of its runs, from their locked rows and from payloads that were read before.

A payload in the store is never read under the locks: a run that needs one which is not at hand has had its turn.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import structlog

from orchestrator.db.ids import new_id
from orchestrator.scripts import evaluate_script
from orchestrator.services import environment
from workflows import payloads
from workflows.engine.blueprint import Blueprint
from workflows.engine.commands import Decision, EndRun
from workflows.engine.compensation import NEWEST, named, turns_around
from workflows.engine.decider import decide
from workflows.engine.state import State, TaskView, WorkflowStatus, WorkflowView
from workflows.managers.execution import LockedExecution
from workflows.models import Task
from workflows.offloading import Reference
from workflows.services.applying import Decided
from workflows.services.fetching import Lost, Payloads, Unread, fill, gather, is_offloaded
from workflows.services.revisions import blueprint_for
from workflows.transition_rows import failure_of

log = structlog.get_logger(__name__)


def decide_all(
    runs: Sequence[LockedExecution], deadline: float, known: Payloads
) -> tuple[list[Decided], list[tuple[UUID, str]], dict[UUID, dict[str, Reference]]]:
    """Decide each run; those past the deadline are left out. Those that fail are named with their error, those that need
    payloads which are not at hand with them: nothing is read from the store while runs are locked."""
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
    unread: dict[UUID, dict[str, Reference]] = {}
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
                item = item.with_payloads(known)
                decision = item.decide()
            except Unread as error:
                unread[item.run.id] = error.references
                continue
            except Lost as error:
                decision = item.give_up(error)
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
    return decided, failed, unread


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

    def with_payloads(self, known: Payloads) -> _Waiting:
        """With the payloads that its rows refer to; raises Unread, Lost."""
        originals = [task for task in self.originals.values() if task]
        rows: list[LockedExecution | TaskView] = [self.run, *self.tasks, *originals]
        if not any(map(is_offloaded, rows)):
            return self
        held = gather(rows, known)
        run = fill(self.run, "the run", held)
        tasks = tuple(fill(task, f"the task {task.ref}", held) for task in self.tasks)
        more = {after: task and fill(task, f"the task {task.ref}", held) for after, task in self.originals.items()}
        return replace(self, run=run, tasks=tasks, originals=more)

    def give_up(self, error: Lost) -> Decision:
        """The end of a run that cannot go on without what is lost."""
        failure = None
        if self.blueprint is not None:
            failure = failure_of(self.blueprint.definition, self.run)
        refs = (error.ref,) if error.ref else ()
        return Decision(
            (EndRun(WorkflowStatus.FAILED, {}, error.reason, refs, failure),), root_ended=self.run.root_ended
        )

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
