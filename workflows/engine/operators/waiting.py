"""Operators that stay open until something outside ends them: WAIT, HUMAN, YIELD, messages, webhooks, SUB_WORKFLOW."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from workflows.engine.commands import TimerSpec
from workflows.engine.durations import parse_duration, parse_until
from workflows.engine.human import inbox
from workflows.engine.messages import batch_size, is_blocking
from workflows.engine.operators.start import Start
from workflows.engine.rows import TaskError
from workflows.engine.state import TaskStatus
from workflows.engine.webhooks import wanted

START_CHILD = "workflow.start_child"

def wait(start: Start) -> None:
    """Until a duration has passed, until a moment, or until signalled; what is past already is done at once."""
    given = start.inputs()
    duration, until = given.get("duration"), given.get("until")
    if duration not in (None, "") and until not in (None, ""):
        raise TaskError("WAIT takes a duration or an until, not both")
    now = start.pass_.state.now
    due = None
    try:
        if duration not in (None, ""):
            due = now + parse_duration(duration)
        elif until not in (None, ""):
            due = parse_until(until)
    except (ValueError, OverflowError) as error:
        raise TaskError(str(error)) from error
    if due is not None and due <= now:
        start.settle(input=given, output={})
    else:
        own = () if due is None else (TimerSpec("WAIT", due),)
        start.row(TaskStatus.IN_PROGRESS, input=given, timers=(*own, *deadlines(start)))


def human(start: Start) -> None:
    """Until a person answers; its own deadline hands it to somebody else, or fails it."""
    given, state = start.inputs(), start.pass_.state
    shown = inbox(given, state.workflow.name, state.now)
    own = (TimerSpec("DEADLINE", shown.due),) if shown.due else ()
    start.row(TaskStatus.IN_PROGRESS, input=given, schedule={"inbox": shown}, timers=(*own, *deadlines(start)))


def until_ended(start: Start) -> None:
    """Until a signal ends it, or its deadlines come."""
    start.row(TaskStatus.IN_PROGRESS, input=start.inputs(), timers=deadlines(start))


def pull_messages(start: Start) -> None:
    """Until the run has messages; whoever makes the row gives it those that wait already."""
    given = start.inputs()
    try:
        batch_size(given)
        is_blocking(given)
    except ValueError as error:
        raise TaskError(str(error)) from None
    until_ended(start)


def webhook(start: Start) -> None:
    """Until a delivery that it wants is handled: one that was handled before this task was committed is not kept."""
    try:
        wanted(start.inputs())
    except ValueError as error:
        raise TaskError(str(error)) from None
    until_ended(start)


def deadlines(start: Start) -> tuple[TimerSpec, ...]:
    """Deadlines of a task that waits from now on: its own time and that of all its attempts, by its task definition."""
    policy, now = start.node.policy, start.pass_.state.now
    timers = []
    if policy.timeout_seconds:
        timers.append(TimerSpec("TASK", now + timedelta(seconds=policy.timeout_seconds + start.initial_delay())))
    if policy.total_timeout_seconds:
        first = (start.retried.first_scheduled_at if start.retried else None) or now
        timers.append(TimerSpec("TOTAL", first + timedelta(seconds=policy.total_timeout_seconds)))
    return tuple(timers)


def sub_workflow(start: Start) -> None:
    """Name the child now and let it be started after the commit; its end ends this task."""
    pass_, node = start.pass_, start.node
    given = start.inputs()
    param, definition = _param(start)
    version = param.get("version")
    if isinstance(version, str) and version.isdigit():
        version = int(version)
    run, child = pass_.state.workflow, pass_.state.new_id()
    payload: dict[str, Any] = {
        "child_id": child,
        "parent_workflow_id": run.id,
        "parent_task_id": start.id,
        "ref": node.ref,
        "iteration": start.iteration,
        "attempt": start.attempt,
        "name": param.get("name") or (definition or {}).get("name"),
        "version": version or None,
        "definition": definition,
        "input": given,
        "correlation_id": run.correlation_id,
        "task_to_domain": param.get("taskToDomain") or run.task_to_domain,
        "priority": param.get("priority") or run.priority,
        "depth": run.depth + 1,
        "delay_seconds": start.initial_delay(),
    }
    shown = {"subWorkflowName": payload["name"], "subWorkflowVersion": payload["version"], "workflowInput": given}
    start.row(
        TaskStatus.IN_PROGRESS,
        input=shown,
        output={"subWorkflowId": str(child)},
        sub_workflow_id=child,
        effects=(start.effect(START_CHILD, payload),),
        timers=deadlines(start),
    )


def _param(start: Start) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """(subWorkflowParam resolved, its inline definition)."""
    template = start.node.extras.get("subWorkflowParam")
    param = start.pass_.resolve(template, start) if template else None
    if not isinstance(param, dict) or not (param.get("name") or param.get("workflowDefinition")):
        raise TaskError("subWorkflowParam: expected a name or a workflowDefinition")
    definition = param.get("workflowDefinition")
    if definition is not None and not isinstance(definition, dict):
        raise TaskError("subWorkflowParam.workflowDefinition: expected an object")
    return param, definition


def start_workflow(start: Start) -> None:
    """Start another run apart from this one; the task ends when that run has started, its id is known at once."""
    given = start.inputs()
    request = given.get("startWorkflow")
    if not isinstance(request, dict) or not isinstance(request.get("name"), str):
        raise TaskError("inputParameters.startWorkflow: expected an object with a name")
    run, child = start.pass_.state.workflow, start.pass_.state.new_id()
    payload = {
        "workflow_id": child,
        "starter_workflow_id": run.id,
        "starter_task_id": start.id,
        "ref": start.node.ref,
        "iteration": start.iteration,
        "attempt": start.attempt,
        "name": request["name"],
        "version": request.get("version"),
        "definition": request.get("workflowDef"),
        "input": request.get("input") or {},
        "correlation_id": request.get("correlationId") or run.correlation_id,
        "task_to_domain": request.get("taskToDomain") or run.task_to_domain,
        "priority": request.get("priority") or run.priority,
        "delay_seconds": start.initial_delay(),
    }
    effect = start.effect("workflow.start", payload)
    start.row(TaskStatus.IN_PROGRESS, input=given, output={"workflowId": str(child)}, effects=(effect,))
