"""Tasks that our own workers run: type -> runner. A runner takes the resolved input and returns a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dispatch.services.dispatching import TaskReport
from dispatch.system_tasks.http import run_http
from dispatch.system_tasks.inline import run_inline, run_lambda
from dispatch.system_tasks.jq import run_jq
from dispatch.system_tasks.outcome import Outcome
from workflows.managers.task import StartedTask

RUNNERS: dict[str, Callable[[dict[str, Any]], Outcome]] = {
    "HTTP": run_http,
    "INLINE": run_inline,
    "LAMBDA": run_lambda,
    "JSON_JQ_TRANSFORM": run_jq,
}


def run_system_task(started: StartedTask) -> TaskReport:
    """Run a leased system task by its type."""
    outcome = RUNNERS[started.type](started.input or {})
    return TaskReport(
        started.id,
        started.workflow_id,
        outcome.status,
        lease_token=started.lease_token,
        output=outcome.output,
        reason=outcome.reason,
    )
