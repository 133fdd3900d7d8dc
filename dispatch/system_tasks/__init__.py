"""Tasks that our own workers run: type -> runner. A runner takes the leased task and says how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dispatch.services.dispatching import TaskReport, find_tasks
from dispatch.system_tasks.http import run_http_task
from dispatch.system_tasks.inline import run_inline, run_lambda
from dispatch.system_tasks.jq import run_jq
from dispatch.system_tasks.outcome import Outcome
from dispatch.system_tasks.polling import run_http_poll
from dispatch.system_tasks.runs import run_get_workflow, run_update_task
from workflows.managers.task import StartedTask

Runner = Callable[[StartedTask], Outcome]


def _on_input(run: Callable[[dict[str, Any]], Outcome]) -> Runner:
    """A runner that needs nothing but the resolved input."""
    return lambda started: run(started.input or {})


def _get_workflow(started: StartedTask) -> Outcome:
    return run_get_workflow(started.input or {}, _namespace(started))


def _update_task(started: StartedTask) -> Outcome:
    return run_update_task(started.input or {}, _namespace(started), f"task:{started.id}")


def _namespace(started: StartedTask) -> str:
    return find_tasks([started.id])[started.id].namespace


RUNNERS: dict[str, Runner] = {
    "HTTP": _on_input(run_http_task),
    "HTTP_POLL": lambda started: run_http_poll(started.input or {}, started.output),
    "INLINE": _on_input(run_inline),
    "LAMBDA": _on_input(run_lambda),
    "JSON_JQ_TRANSFORM": _on_input(run_jq),
    "GET_WORKFLOW": _get_workflow,
    "UPDATE_TASK": _update_task,
}


def run_system_task(started: StartedTask) -> TaskReport:
    """Run a leased system task by its type."""
    outcome = RUNNERS[started.type](started)
    return TaskReport(
        started.id,
        started.workflow_id,
        outcome.status,
        lease_token=started.lease_token,
        output=outcome.output,
        reason=outcome.reason,
        callback_seconds=outcome.seconds,
        awaits=outcome.awaits,
    )
