"""Retry, restart and rerun of ended runs, with the runs above them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from orchestrator.errors import Invalid, NotFound
from workflows import masking, payloads
from workflows.engine.blueprint import OPERATORS, Blueprint
from workflows.engine.commands import Effect, ScheduleTask, TimerSpec
from workflows.engine.human import inbox
from workflows.engine.operators.waiting import START_CHILD
from workflows.engine.operators.work import ASYNC, awaiting
from workflows.engine.rows import TaskError
from workflows.managers.execution import LockedExecution
from workflows.managers.task import OutlineTask
from workflows.models import Execution, Task, TaskLog
from workflows.services.control.acting import FAILED, audited, missing, note, refuse, require
from workflows.services.control.continuing import UNCHANGED, Reopening, Revise, carry_out, reopen_run
from workflows.services.control.planning import Preview, named, plan_rerun, plan_retry, preview, undone
from workflows.services.control.reviving import hold_family, revive_ancestors
from workflows.services.control.walking import Plan, newest
from workflows.services.revisions import blueprint_for, resolve_revision

_DEEPEST = 32
_OWN_INPUT = (OPERATORS | {"FORK"}) - {"SUB_WORKFLOW", "HUMAN", "YIELD"}
Run = LockedExecution | Execution


def retry(namespace: str, workflow_id: UUID, *, actor: str, resume_subworkflow_tasks: bool = False) -> None:
    """Run again what failed, timed out or was cancelled, as new attempts; forks and loops go on where they were.

    A failed child is started anew, or with `resume_subworkflow_tasks` retried itself. Runs above are revived.
    """

    def body() -> None:
        below = descendants_to_retry(workflow_id) if resume_subworkflow_tasks else []
        family = hold_family(namespace, workflow_id, below)
        run = _own(family, namespace, workflow_id)
        require(run, "retry")
        target = _deepest_failed(run, family) if resume_subworkflow_tasks else run
        blueprint, rows = _blueprint(target), Task.sql.outline(target.id)
        plan = _checked(target, "retry", rows, plan_retry(blueprint, rows))
        if not rows:
            refuse(target, "retry", "it has no task yet; restart it instead")
        if not plan.moves:
            refuse(target, "retry", "none of its tasks can be retried")
        carry_out(reopen_run(target, blueprint), blueprint, plan)
        note(target.id, "workflow.retried", actor)
        revive_ancestors(target, family, actor)

    detail = {"resume_subworkflow_tasks": resume_subworkflow_tasks}
    audited("retry", namespace, workflow_id, actor, body, detail=detail)


def restart(namespace: str, workflow_id: UUID, *, actor: str, use_latest_definitions: bool = False) -> None:
    """Run an ended run from its beginning under the same id: its tasks are wiped, its history is kept."""

    def body() -> None:
        family = hold_family(namespace, workflow_id)
        run = _own(family, namespace, workflow_id)
        require(run, "restart")
        _start_over(run, family, actor, "workflow.restarted", latest=use_latest_definitions)

    detail = {"use_latest_definitions": use_latest_definitions}
    audited("restart", namespace, workflow_id, actor, body, detail=detail)


def rerun(
    namespace: str,
    workflow_id: UUID,
    *,
    actor: str,
    task_id: UUID | None = None,
    task_input: dict[str, Any] | None = None,
    workflow_input: dict[str, Any] | None = None,
    correlation_id: str | None = None,
) -> UUID:
    """Run an ended run again from a task: it and everything behind it in the graph; what stands beside it is kept.

    Without a task it runs from its beginning. The task may belong to a child at any depth: the child is rerun and the
    runs above it are revived. Returns the id of the run that was rerun.
    """

    payloads.require("task input", task_input, "taskInput")
    payloads.require("workflow input", workflow_input, "workflowInput")

    def body() -> UUID:
        owner = workflow_id if task_id is None else _owner(namespace, workflow_id, task_id)
        family = hold_family(namespace, owner)
        run = _own(family, namespace, owner)
        require(run, "rerun")
        change = Reopening(input=workflow_input, correlation_id=correlation_id)
        if task_id is None:
            _start_over(run, family, actor, "workflow.rerun", change=change)
            return run.id
        blueprint, rows = _blueprint(run), Task.sql.outline(run.id)
        target = _target(run, rows, task_id)
        plan = _checked(run, "rerun", rows, plan_rerun(blueprint, rows, target))
        revise = _with_input(run, target, task_input)
        carry_out(reopen_run(run, blueprint, change), blueprint, plan, revise)
        note(run.id, "workflow.rerun", actor, target.ref, iteration=target.iteration)
        revive_ancestors(run, family, actor)
        return run.id

    detail = {"task_id": None if task_id is None else str(task_id)}
    return audited("rerun", namespace, workflow_id, actor, body, detail=detail)


def preview_retry(namespace: str, workflow_id: UUID) -> Preview:
    """What `retry` would run again, and what it would keep; takes no lock."""
    run = _peek(namespace, workflow_id)
    require(run, "retry")
    rows = Task.sql.outline(run.id)
    return preview(run.id, rows, _checked(run, "retry", rows, plan_retry(_blueprint(run), rows)))


def preview_restart(namespace: str, workflow_id: UUID) -> Preview:
    """What `restart` would wipe and run anew: everything; takes no lock."""
    run = _peek(namespace, workflow_id)
    require(run, "restart")
    rows = Task.sql.outline(run.id)
    root = _blueprint(run).root.nodes
    again = tuple(named(node.ref, "") for node in root[:1])
    wiped = dict.fromkeys(named(row.ref, row.iteration) for row in rows)
    return Preview(run.id, runs_again=again, deleted=tuple(name for name in wiped if name not in again))


def preview_rerun(namespace: str, workflow_id: UUID, task_id: UUID) -> Preview:
    """What `rerun` from a task would run again, and what it would keep; takes no lock."""
    run = _peek(namespace, _owner(namespace, workflow_id, task_id))
    require(run, "rerun")
    rows = Task.sql.outline(run.id)
    return preview(run.id, rows, _checked(run, "rerun", rows, plan_rerun(_blueprint(run), rows, _target(run, rows, task_id))))


def _start_over(
    run: LockedExecution,
    family: dict[UUID, LockedExecution],
    actor: str,
    event: str,
    *,
    latest: bool = False,
    change: Reopening = UNCHANGED,
) -> None:
    if latest:
        revision_id, definition = resolve_revision(run.namespace, run.name, masked=masking.names(run.revision_id))
        change = replace(change, revision_id=revision_id, version=definition.get("version") or 1)
    else:
        revision_id = run.revision_id
    blueprint = _blueprint(replace(run, revision_id=revision_id))
    reopen_run(run, blueprint, replace(change, variables=blueprint.definition.get("variables") or {}))
    Task.sql.delete(run.id)
    TaskLog.sql.delete([run.id])
    note(run.id, event, actor)
    revive_ancestors(run, family, actor)


def descendants_to_retry(workflow_id: UUID) -> list[UUID]:
    """The failed children of failed children, peeked without a lock: they say which gates to take."""
    found: list[UUID] = []
    waiting = [workflow_id]
    while waiting and len(found) < _DEEPEST:
        for row in newest(Task.sql.outline(waiting.pop())).values():
            if row.sub_workflow_id and row.ended and not row.status.successful:
                found.append(row.sub_workflow_id)
                waiting.append(row.sub_workflow_id)
    return found


def _deepest_failed(run: LockedExecution, family: dict[UUID, LockedExecution]) -> LockedExecution:
    """Down the failed children, as long as they have ended and are held; the one to retry."""
    while True:
        children = [
            family[row.sub_workflow_id]
            for row in newest(Task.sql.outline(run.id)).values()
            if row.sub_workflow_id in family and row.ended and not row.status.successful
        ]
        ended = [child for child in children if child.status in FAILED]
        if not ended:
            return run
        run = ended[0]


def _owner(namespace: str, workflow_id: UUID, task_id: UUID) -> UUID:
    """The run a task belongs to: this one or one below it."""
    found = Task.sql.find([task_id]).get(task_id)
    above = found.workflow_id if found is not None and found.namespace == namespace else None
    for _ in range(_DEEPEST + 1):
        if above is None:
            break
        if above == workflow_id:
            return found.workflow_id  # type: ignore[union-attr]
        parent = Execution.sql.parent_of(above)
        above = parent[1] if parent else None
    known = Execution.sql.parent_of(workflow_id)
    if known is None or known[0] != namespace:
        raise missing(workflow_id)
    raise Invalid(f"Task {task_id} does not belong to workflow {workflow_id} or to a workflow below it")


def _target(run: Run, rows: list[OutlineTask], task_id: UUID) -> OutlineTask:
    for row in rows:
        if row.id == task_id:
            return row
    raise Invalid(f"Task {task_id} does not belong to workflow {run.id} any more")


def _with_input(run: LockedExecution, target: OutlineTask, task_input: dict[str, Any] | None) -> Revise | None:
    """Puts the operator's input into the target as it is made."""
    if task_input is None:
        return None
    if target.type in _OWN_INPUT:
        raise Invalid(problems=[("taskInput", f"{target.ref} is a {target.type}, which works out its own input")])

    def revise(task: ScheduleTask) -> ScheduleTask:
        if (task.ref, task.iteration) != (target.ref, target.iteration):
            return task
        if target.type == "HUMAN":
            return _for_people(run, task, task_input)
        if target.type == "HTTP":
            return replace(task, input=awaiting(task_input, task.input.get(ASYNC)))
        if target.type != "SUB_WORKFLOW":
            return replace(task, input=task_input)
        effects = tuple(
            Effect(effect.topic, {**effect.payload, "input": task_input}) if effect.topic == START_CHILD else effect
            for effect in task.effects
        )
        return replace(task, input={**task.input, "workflowInput": task_input}, effects=effects)

    return revise


def _for_people(run: LockedExecution, task: ScheduleTask, task_input: dict[str, Any]) -> ScheduleTask:
    """The task with the assignment, the form and the deadline of its new input."""
    try:
        shown = inbox(task_input, run.name, run.now)
    except TaskError as error:
        raise Invalid(problems=[("taskInput", str(error))]) from None
    own = (TimerSpec("DEADLINE", shown.due),) if shown.due else ()
    timers = (*own, *(timer for timer in task.timers if timer.kind != "DEADLINE"))
    return replace(task, input=task_input, inbox=shown, timers=timers)


def _checked(run: Run, action: str, rows: list[OutlineTask], plan: Plan) -> Plan:
    if undone(rows):
        refuse(run, action, "it failed and undid its completed tasks; restart it instead")
    if plan.terminated_by is not None:
        ref = plan.terminated_by.ref
        refuse(run, action, f"the TERMINATE task {ref} ended it and would end it again; rerun from a task before it")
    return plan


def _blueprint(run: Run) -> Blueprint:
    blueprint = blueprint_for([run.revision_id]).get(run.revision_id)
    if blueprint is None:
        raise NotFound(f"The definition that workflow {run.id} ran with does not exist any more")
    return blueprint


def _own(family: dict[UUID, LockedExecution], namespace: str, workflow_id: UUID) -> LockedExecution:
    run = family[workflow_id]
    if run.namespace != namespace:
        raise missing(workflow_id)
    return run


def _peek(namespace: str, workflow_id: UUID) -> Execution:
    found: Execution | None = Execution.objects.filter(id=workflow_id, namespace=namespace).first()
    if found is None:
        raise missing(workflow_id)
    return found
