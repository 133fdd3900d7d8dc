"""Work for workers: SIMPLE, DYNAMIC, our system tasks, and every type that somebody's workers serve."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from workflows.engine.blueprint import OPERATORS, SYSTEM_TASKS
from workflows.engine.commands import TimerSpec
from workflows.engine.operators.start import Start
from workflows.engine.retries import policy_of
from workflows.engine.rows import TaskError
from workflows.engine.state import TaskStatus

ASYNC = "asyncComplete"
_QUEUES = {"LAMBDA": "INLINE"}
"""System tasks that share the queue of another type."""


def awaiting(given: dict[str, Any], wanted: Any) -> dict[str, Any]:
    """The input of an HTTP task that others complete, if that is wanted: our worker goes by the input, which may say no."""
    return {**given, ASYNC: wanted} if wanted and given.get(ASYNC) is None else given


def queued(start: Start) -> None:
    """A task in a queue, with the deadlines that run from now on."""
    node, state = start.node, start.pass_.state
    given = start.inputs()
    name, type_ = _chosen(start) if node.type == "DYNAMIC" else (node.name, node.type)
    if type_ == "HTTP":
        given = awaiting(given, node.spec.get(ASYNC))
    domain = None
    queue = _QUEUES.get(type_, type_)
    if type_ not in SYSTEM_TASKS:
        domain = _domain(state.workflow.task_to_domain, name)
        queue = f"{domain}:{name}" if domain else name
    policy = policy_of(start.pass_.blueprint, node, name)
    delay = start.initial_delay()
    timers: list[TimerSpec] = []
    if policy.poll_timeout_seconds:
        timers.append(TimerSpec("POLL", state.now + timedelta(seconds=policy.poll_timeout_seconds + delay)))
    if policy.total_timeout_seconds:
        first = (start.retried.first_scheduled_at if start.retried else None) or state.now
        timers.append(TimerSpec("TOTAL", first + timedelta(seconds=policy.total_timeout_seconds)))
    schedule = {
        "queue": queue,
        "domain": domain,
        "delay_seconds": delay,
        "response_seconds": policy.response_seconds,
        "timeout_seconds": policy.timeout_seconds,
    }
    row = start.row(TaskStatus.SCHEDULED, input=given, schedule=schedule, timers=tuple(timers))
    row.name, row.type = name, type_


def _chosen(start: Start) -> tuple[str, str]:
    """(name, type) of the task that a DYNAMIC task becomes."""
    parameter = str(start.node.spec.get("dynamicTaskNameParam") or "")
    name = start.inputs().get(parameter)
    if not isinstance(name, str) or not name:
        raise TaskError(f"the dynamic task name is missing: expected a text in input {parameter!r}, got {name!r}")
    if name in OPERATORS:
        raise TaskError(f"a DYNAMIC task can become a worker's task or a system task, not the operator {name}")
    return name, name if name in SYSTEM_TASKS else "SIMPLE"


def _domain(domains: dict[str, str] | None, name: str) -> str | None:
    """The first domain a run chose for a task; NO_DOMAIN means none."""
    if not domains:
        return None
    choice = domains.get(name) or domains.get("*")
    first = str(choice).split(",")[0].strip() if choice else ""
    return None if first in ("", "NO_DOMAIN") else first
