"""The last step before a task leaves: its payloads in the store are read, and its references to secrets filled in.

It happens after the lease's commit, so that no lock is held meanwhile, and nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import structlog

from dispatch.services import dispatching
from dispatch.services.dispatching import TaskReport
from orchestrator.errors import PayloadLost, StoreUnavailable
from orchestrator.services import secrets
from workflows import offloading
from workflows.engine.blueprint import Node
from workflows.engine.secrets import SecretError, reveal
from workflows.managers.task import StartedTask
from workflows.models import Execution
from workflows.services import reading
from workflows.services.evaluation import evaluate_eagerly

log = structlog.get_logger(__name__)


def opened(task: StartedTask, run: Execution | None = None) -> StartedTask:
    """The task with its payloads, and its secrets in its input; raises PayloadLost, StoreUnavailable, and SecretError when
    a secret does not exist."""
    given, made = offloading.whole(task.input), offloading.whole(task.output)
    if given is not task.input or made is not task.output:
        task = replace(task, input=given, output=made)
    if not _mentions(task.input):
        return task
    run = run or reading.runs_by_id({task.workflow_id}).get(task.workflow_id)
    node = _node(task, run)
    if run is None or node is None or not node.secrets:
        return task
    return replace(task, input=reveal(node.inputs, task.input, secrets.values(run.namespace, node.secrets)))


def open_all(tasks: Sequence[StartedTask], runs: Mapping[UUID, Execution]) -> list[StartedTask]:
    """Tasks as they leave; one whose payload or secret does not exist is ended with the reason, and left out, as is one
    whose payload cannot be read just now: it waits a little."""
    ready: list[StartedTask] = []
    refused: list[TaskReport] = []
    for task in tasks:
        try:
            ready.append(opened(task, runs.get(task.workflow_id)))
        except REFUSED as error:
            refused.append(refusal(task, error))
    if refused:
        dispatching.report(refused, strict=False)
        evaluate_eagerly([report.workflow_id for report in refused if report.workflow_id is not None])
    return ready


REFUSED = (SecretError, PayloadLost, StoreUnavailable)
"""Why a task cannot leave."""
_AGAIN_SECONDS = 5


def refusal(task: StartedTask, error: Exception) -> TaskReport:
    """The end of a task that cannot be handed out: trying again would not help, unless it is the store that fails."""
    log.warning("task_not_handed_out", task_id=str(task.id), error=str(error))
    if isinstance(error, StoreUnavailable):
        return TaskReport(
            task.id, task.workflow_id, "IN_PROGRESS", lease_token=task.lease_token, callback_seconds=_AGAIN_SECONDS
        )
    return TaskReport(
        task.id,
        task.workflow_id,
        "FAILED_WITH_TERMINAL_ERROR",
        lease_token=task.lease_token,
        reason=str(error)[:500],
    )


def _node(task: StartedTask, run: Execution | None) -> Node | None:
    """The task's place in the definition; a task that a fork made of data has none."""
    if run is None or task.spec is not None:
        return None
    blueprint = reading.get_blueprint(run)
    return blueprint.find(task.ref) if blueprint is not None else None


def _mentions(value: object) -> bool:
    """Whether anything in a value could be a reference: nearly always not, and then nothing more is read."""
    if isinstance(value, str):
        return "workflow.secrets" in value
    if isinstance(value, dict):
        return _any(value.values())
    return isinstance(value, list) and _any(value)


def _any(values: Iterable[object]) -> bool:
    return any(_mentions(value) for value in values)
