"""Carries a plan out: rows deleted and reopened, and one pass that makes what has to be made, by the engine itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from orchestrator.db.ids import new_id
from orchestrator.scripts import evaluate_script
from orchestrator.services import environment
from workflows import offloading, payloads
from workflows.engine.attributes import extract
from workflows.engine.blueprint import Blueprint
from workflows.engine.commands import Decision, ScheduleTask
from workflows.engine.decider import EvaluateScript, NeedRows, Pass, RunEnded
from workflows.engine.operators.forks import close_if_joined
from workflows.engine.operators.loops import turn_ended
from workflows.engine.rows import Row
from workflows.engine.state import State, TaskView, WorkflowStatus, WorkflowView
from workflows.managers.execution import LockedExecution
from workflows.managers.task import OutlineTask
from workflows.models import Execution, Task
from workflows.services.admission import readmit
from workflows.services.applying import Decided, apply_decisions
from workflows.services.control.walking import Plan
from workflows.services.deadlines import arm_deadline

Revise = Callable[[ScheduleTask], ScheduleTask]


@dataclass(frozen=True, slots=True)
class Reopening:
    """What changes of a run that is brought back; None keeps what it has."""

    revision_id: UUID | None = None
    version: int | None = None
    input: dict[str, Any] | None = None
    variables: dict[str, Any] | None = None
    correlation_id: str | None = None


UNCHANGED = Reopening()


def reopen_run(run: LockedExecution, blueprint: Blueprint, change: Reopening = UNCHANGED) -> LockedExecution:
    """Bring an ended run back to RUNNING, its own deadline armed anew; returns it as it is now."""
    Execution.sql.reopen(
        run.id, revision_id=change.revision_id, version=change.version, input=change.input,
        attributes=extract(blueprint.definition, run.input if change.input is None else change.input),
        variables=change.variables, correlation_id=change.correlation_id,
    )  # fmt: skip
    arm_deadline(run.namespace, run.id, blueprint.definition)
    revived = replace(
        run,
        status=WorkflowStatus.RUNNING,
        output=None,
        reason=None,
        root_ended=False,
        revision_id=change.revision_id or run.revision_id,
        version=change.version or run.version,
        input=offloading.whole(run.input) if change.input is None else change.input,
        variables=run.variables if change.variables is None else change.variables,
        correlation_id=change.correlation_id or run.correlation_id,
        admitted_at=run.admitted_at or run.now,
    )
    known = {
        "input": revived.input, "variables": revived.variables, "workflowId": str(run.id), "priority": run.priority,
        "correlationId": revived.correlation_id, "name": run.name, "workflowType": run.name, "version": revived.version,
    }  # fmt: skip
    readmit(run.id, run.namespace, {**blueprint.definition, "name": run.name}, known, run.parent_workflow_id is None)
    return revived


def carry_out(run: LockedExecution, blueprint: Blueprint, plan: Plan, revise: Revise | None = None) -> None:
    """Apply a plan to a reopened run. `revise` may change a task that is made.

    A mistake that recurs (an expression, a condition) ends the run again, through the one path that ends runs.
    """
    Task.sql.delete(run.id, [row.id for row in plan.deletes])
    reopen_rows(run.id, plan.reopens)
    state = State(
        workflow=_view(run, plan.root_ended),
        tasks=tuple(offloading.whole_task(task) for _, task in Task.sql.read_frontier([run.id])),
        loaded=frozenset(),
        now=run.now,
        env=environment.values([run.namespace]).get(run.namespace, {}),
        new_id=new_id,
        excess=payloads.excess,
    )
    remade = [offloading.whole_task(task) for task in Task.sql.read_tasks(run.id, [row.id for row in plan.remakes])]
    while True:
        decision = _Continuation(blueprint, state, evaluate_script, plan, remade).decide()
        if not decision.needs:
            break
        known = {task.id for task in (*state.tasks, *remade)}
        found = Task.sql.read_refs([(run.id, ref) for ref in sorted(decision.needs)])
        more = tuple(offloading.whole_task(task) for _, task in found if task.id not in known)
        state = replace(state, tasks=state.tasks + more, loaded=state.loaded | decision.needs)
    if revise is not None:
        revised = (revise(c) if isinstance(c, ScheduleTask) else c for c in decision.commands)
        decision = replace(decision, commands=tuple(revised))
    # What is left to do after this (unconsumed rows, a pass cut short) is done by the pass that the gate asks for.
    apply_decisions([Decided(run, decision)])


def reopen_rows(workflow_id: UUID, rows: list[OutlineTask]) -> None:
    """Open ended rows again in place, with the books the plan gives them."""
    if not rows:
        return
    Task.sql.reopen(workflow_id, [row.id for row in rows])
    views = {view.id: view for view in Task.sql.read_tasks(workflow_id, [row.id for row in rows])}
    Task.sql.update_open(
        [
            {"workflow_id": workflow_id, "id": row.id, "state": row.state, "output": _output(row, views[row.id])}
            for row in rows
            if row.id in views
        ]
    )


def _output(row: OutlineTask, view: TaskView) -> dict[str, Any]:
    """The output of a row that is open again: a loop keeps the turns before the present one."""
    if row.sub_workflow_id is not None:
        return {"subWorkflowId": str(row.sub_workflow_id)}
    if row.type != "DO_WHILE" or not row.state:
        return {}
    turn, had = row.state["iteration"], offloading.whole(view.output) or {}
    output = {key: value for key, value in had.items() if not (key.isdigit() and int(key) >= turn)}
    output["iteration"] = turn
    items = row.state.get("items")
    if items is not None:
        output |= {"loopItem": items[turn - 1], "loopIndex": turn - 1}
    return output


class _Continuation(Pass):
    """A pass that starts where a plan says, instead of at the ends of tasks."""

    def __init__(
        self, blueprint: Blueprint, state: State, evaluate: EvaluateScript, plan: Plan, remade: list[TaskView]
    ) -> None:
        super().__init__(blueprint, state, evaluate)
        self.plan = plan
        # The total time-out of a task counts from the operator's retry, or it would end at once.
        self.remade = [Row.of(replace(view, first_scheduled_at=None)) for view in remade]
        for row in self.remade:
            self._add(row)

    def decide(self) -> Decision:
        try:
            self._go_on()
        except RunEnded:
            pass
        except NeedRows as need:
            return Decision(needs=need.refs)
        return self._decision()

    def _go_on(self) -> None:
        nodes = self.blueprint.nodes
        for ref, iteration in self.plan.starts:
            self.start(nodes[ref], iteration)
            self.work()
        for row in self.remade:
            self.start(self.node(row), row.iteration, row.attempt + 1, row)
            self.work()
        for (ref, _), turn in self.plan.turns:
            turn_ended(self, nodes[ref], turn)
            self.work()
        for ref, iteration in self.plan.joins:
            join = self.open_row(ref, iteration)
            if join is not None:
                close_if_joined(self, nodes[ref], join)
            self.work()


def _view(run: LockedExecution, root_ended: bool) -> WorkflowView:
    return WorkflowView(
        id=run.id,
        namespace=run.namespace,
        name=run.name,
        version=run.version,
        status=WorkflowStatus.RUNNING,
        input=run.input,
        output=None,
        variables=run.variables,
        correlation_id=run.correlation_id,
        priority=run.priority,
        parent_workflow_id=run.parent_workflow_id,
        parent_task_id=run.parent_task_id,
        task_to_domain=run.task_to_domain,
        created_at=run.created_at,
        root_ended=root_ended,
        has_any_task=True,
        depth=run.depth,
        reason=None,
        created_by=run.created_by,
    )
