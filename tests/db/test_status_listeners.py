"""workflowStatusListenerEnabled: each change of a run's status is told as an event, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from orchestrator.db import sql
from orchestrator.db.transactions import transaction
from outbox.models import OutboxEvent
from outbox.services import events
from tests import flows
from workflows import listening
from workflows.models import DecideQueue, Execution
from workflows.services import control, definitions
from workflows.transitions import end_runs, run_end

pytestmark = pytest.mark.usefixtures("committed")
ACTOR = {"actor": "ann"}


def told(run: UUID) -> list[dict[str, Any]]:
    """The events of a run's status, in order."""
    found = OutboxEvent.objects.filter(topic="event.published").order_by("id")
    return [event.payload for event in found if event.payload["payload"]["workflowInstanceId"] == str(run)]


def statuses(run: UUID) -> list[str]:
    return [event["payload"]["status"] for event in told(run)]


def begun(**fields: Any) -> tuple[UUID, str, str]:
    """A run whose status is told, the queue of its only task, and its workflow."""
    queue = flows.unique("q")
    fields = {"workflowStatusListenerEnabled": True, **fields}
    name = flows.register(flows.simple("a", queue, retryCount=0), **fields)
    run = flows.start(name, correlation_id="c")
    flows.drain()
    return run, queue, name


def test_the_end_of_a_run_is_told_with_what_it_is_about() -> None:
    run, queue, name = begun(
        workflowStatusListenerSink="conductor:moves", outputParameters={"x": "${a.output.x}"}, version=1
    )
    assert told(run) == []
    flows.complete(flows.lease(queue), {"x": 1})
    flows.drain()
    (event,) = told(run)
    assert event["event"] == f"conductor:{name}:moves"
    assert event["payload"] == {
        "workflowInstanceId": str(run), "workflowType": name, "workflowVersion": 1, "correlationId": "c",
        "parentWorkflowId": None, "status": "COMPLETED", "reasonForIncompletion": None, "output": {"x": 1},
    }  # fmt: skip


def test_a_failure_is_told_with_its_reason_under_a_name_of_ours_without_a_sink() -> None:
    run, queue, name = begun()
    flows.complete(flows.lease(queue), status="FAILED")
    flows.drain()
    (event,) = told(run)
    assert event["event"] == f"conductor:{name}:workflow_status"
    ended = Execution.objects.get(id=run)
    assert (event["payload"]["status"], event["payload"]["reasonForIncompletion"]) == ("FAILED", ended.reason)


def test_a_pause_and_what_follows_are_told_once_each() -> None:
    run, _, _ = begun()
    for act in (control.pause, control.pause, control.resume):
        act(flows.NAMESPACE, run, **ACTOR)
    control.terminate(flows.NAMESPACE, run, reason="enough", **ACTOR)
    control.terminate(flows.NAMESPACE, run, reason="again", **ACTOR)
    flows.drain()
    assert statuses(run) == ["PAUSED", "RUNNING", "TERMINATED"]


def test_a_failed_run_that_is_called_terminated_tells_that_too() -> None:
    run, queue, _ = begun()
    flows.complete(flows.lease(queue), status="FAILED")
    flows.drain()
    control.terminate(flows.NAMESPACE, run, reason="enough", **ACTOR)
    assert statuses(run) == ["FAILED", "TERMINATED"]


def test_a_run_that_ends_again_is_told_again_by_what_its_definition_says_then() -> None:
    run, queue, name = begun()
    flows.complete(flows.lease(queue))
    flows.drain()
    changed = {"workflowStatusListenerEnabled": True, "workflowStatusListenerSink": "conductor:new"}
    flows.register(flows.simple("a", queue), name=name, **changed)
    control.restart(flows.NAMESPACE, run, use_latest_definitions=True, **ACTOR)
    flows.drain()
    flows.complete(flows.lease(queue))
    flows.drain()
    first, second = told(run)
    assert first["message_id"] != second["message_id"]
    assert (first["event"], second["event"]) == (f"conductor:{name}:workflow_status", f"conductor:{name}:new")


def test_a_handler_hears_of_it() -> None:
    target, queue, source = flows.register(flows.simple("t", flows.unique("q"))), flows.unique("q"), flows.unique("s")
    start = {"action": "start_workflow", "start_workflow": {"name": target, "input": {"of": "${workflowInstanceId}"}}}
    event = f"conductor:{source}:done"
    events.register(flows.NAMESPACE, {"name": flows.unique("h"), "event": event, "actions": [start], "active": True})
    said = {"workflowStatusListenerEnabled": True, "workflowStatusListenerSink": "conductor:done"}
    flows.register(flows.simple("a", queue), name=source, **said)
    run = flows.start(source)
    flows.drain()
    flows.complete(flows.lease(queue))
    flows.drain()
    assert Execution.objects.get(name=target).input["of"] == str(run)


def test_a_child_defined_inside_its_parent_tells_by_itself() -> None:
    queue = flows.unique("q")
    inner = {
        "name": flows.unique("inner"), "version": 1, "tasks": [flows.simple("a", queue)],
        "workflowStatusListenerEnabled": True,
    }  # fmt: skip
    sub = {
        "name": "c", "taskReferenceName": "c", "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": inner["name"], "workflowDefinition": inner},
    }  # fmt: skip
    parent = flows.start(flows.register(sub))
    flows.drain()
    flows.complete(flows.lease(queue))
    flows.drain()
    child = Execution.objects.get(parent_workflow_id=parent)
    ((event,), none) = told(child.id), told(parent)
    assert (event["payload"]["parentWorkflowId"], none) == (str(parent), [])


@pytest.mark.invariant("INV-5")
def test_what_is_undone_tells_nothing() -> None:
    run, _, _ = begun()
    with pytest.raises(RuntimeError, match="undone"), transaction():
        DecideQueue.sql.enqueue([run])
        (locked,) = Execution.sql.lock([run])
        end_runs([run_end(locked, "TERMINATED", reason="x")])
        assert statuses(run) == ["TERMINATED"]
        raise RuntimeError("undone")
    assert told(run) == []


@pytest.fixture
def seen() -> Iterator[list[str]]:
    """The names of the statements that are sent."""
    found: list[str] = []

    def watch(name: str, params: dict[str, Any]) -> None:
        found.append(name)

    sql.OBSERVERS.append(watch)
    yield found
    sql.OBSERVERS.remove(watch)


def test_a_pass_that_ends_a_run_reads_nothing_to_know_that_nobody_listens(seen: list[str]) -> None:
    run, queue, _ = begun(workflowStatusListenerEnabled=False)
    tasks = flows.lease(queue)
    seen.clear()
    flows.complete(tasks)
    flows.drain()
    assert flows.status(run) == "COMPLETED"
    assert not [name for name in seen if "revision" in name or "publish" in name]


def test_a_process_that_has_compiled_nothing_finds_out(seen: list[str]) -> None:
    run, _, _ = begun()
    listening.forget()
    seen.clear()
    control.terminate(flows.NAMESPACE, run, **ACTOR)
    assert statuses(run) == ["TERMINATED"]
    assert seen.count("workflows.revision.read") == 1


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("workflowStatusListenerEnabled", "yes", "expected true or false"),
        ("workflowStatusListenerSink", 5, "expected a text"),
        ("workflowStatusListenerSink", "kafka:x", "is not available: expected conductor"),
        ("workflowStatusListenerSink", "conductor:${workflow.input.x}", "expected a sink without expressions"),
    ],
)
def test_what_cannot_be_told_is_refused(field: str, value: Any, said: str) -> None:
    definition = {"name": "x", "version": 1, "tasks": [flows.simple("a")], field: value}
    (problem,) = definitions.check(flows.NAMESPACE, definition)
    assert problem[0] == field and said in problem[1]
