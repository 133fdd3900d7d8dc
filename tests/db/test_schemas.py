"""Schemas on the database: a start that is refused leaves nothing, and a wrong result is a failure for everybody."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.errors import Invalid
from tests import flows
from workflows.models import Execution, HistoryEvent, IdempotencyKey, Task
from workflows.services import control, definitions
from workflows.services.replaying import replay
from workflows.services.sweeping import invariant_report

pytestmark = pytest.mark.usefixtures("committed")
SCHEMA = {"type": "JSON", "data": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}}


def checked(queue: str, **fields: Any) -> None:
    """A task definition that enforces its schemas."""
    definition = {"name": queue, "retryCount": 1, "retryDelaySeconds": 0, "enforceSchema": True, **fields}
    definitions.register_tasks(flows.NAMESPACE, [definition])


def test_a_start_with_a_wrong_input_is_refused_and_leaves_nothing() -> None:
    name = flows.register(flows.simple("a"), inputSchema=SCHEMA, inputTemplate={"n": 1})
    with pytest.raises(Invalid) as refused:
        flows.start(name, {"n": "one"}, idempotency_key="k")
    assert refused.value.problems == [("input.n", '"one" is not of type "integer"')]
    assert not Execution.objects.exists()
    assert not IdempotencyKey.objects.exists()
    assert flows.status(flows.start(name, {}, idempotency_key="k")) == "RUNNING", "the template gives the number"


def test_a_child_with_a_wrong_input_fails_its_task() -> None:
    leaf = flows.register(flows.simple("a"), inputSchema=SCHEMA)
    run = flows.start(flows.register(flows.child("c", leaf)))
    flows.drain()
    task = Task.objects.get(workflow_id=run)
    assert task.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "is a required property" in str(task.reason)
    assert flows.status(run) == "FAILED"


def test_a_wrong_result_is_a_failed_attempt_which_is_shown_retried_and_replayed() -> None:
    queue = flows.unique("q")
    checked(queue, outputSchema=SCHEMA)
    run = flows.start(flows.register(flows.simple("a", queue)))
    flows.drain()
    for _ in range(2):
        flows.complete(flows.lease_all(queue, 1), {"n": "one"})
        flows.drain()
    reason = 'output.n: "one" is not of type "integer"'
    tasks = Task.objects.filter(workflow_id=run).order_by("attempt")
    assert [(task.status, task.reason, task.output) for task in tasks] == [("FAILED", reason, {"n": "one"})] * 2
    assert flows.status(run) == "FAILED"
    assert reason in str(Execution.objects.get(id=run).reason)
    alerts = HistoryEvent.objects.filter(workflow_id=run, type="task.alert").values_list("data", flat=True)
    assert [alert["message"] for alert in alerts] == [reason] * 2
    assert replay(run) == []
    control.retry(flows.NAMESPACE, run, actor="olga")
    flows.drain()
    flows.complete(flows.lease_all(queue, 1), {"n": 1})
    flows.drain()
    assert flows.status(run) == "COMPLETED"
    assert not any(invariant_report().values())
