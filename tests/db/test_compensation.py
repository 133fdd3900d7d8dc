"""The saga in the database: who starts it, what it leaves of the run, and what operators may do meanwhile."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from dispatch.models import QueuedTask
from orchestrator.db.transactions import transaction
from orchestrator.errors import IllegalState
from outbox.models import OutboxEvent
from tests import flows
from tests.support import Contender, race
from workflows.managers.task import TaskEnd
from workflows.models import DecideQueue, Execution, HistoryEvent, Task, Timer
from workflows.services import control, evaluation, simulation, timers
from workflows.services.explaining import Code, explain
from workflows.services.starting import StartRequest
from workflows.services.sweeping import invariant_report
from workflows.transitions import end_tasks

pytestmark = pytest.mark.usefixtures("committed")


def step(ref: str, queue: str, **fields: Any) -> dict[str, Any]:
    undo = flows.simple(f"un_{ref}", f"un_{queue}", retryCount=0, inputParameters={"of": f"${{{ref}.output.by}}"})
    return flows.simple(ref, queue, retryCount=0, compensateWith=undo, **fields)


def saga(*more: dict[str, Any], **fields: Any) -> tuple[UUID, str]:
    """A run whose tasks a and b have completed, and whose next task waits in the queue."""
    queue = flows.unique("q")
    last = flows.simple("last", queue, retryCount=0)
    run = flows.start(flows.register(step("a", queue), step("b", queue), *(more or (last,)), **fields))
    flows.drain()
    for _ in range(2):
        flows.complete(flows.lease_all(queue, 1))
        flows.drain()
    return run, queue


def fail(queue: str) -> None:
    flows.complete(flows.lease_all(queue, 1), status="FAILED_WITH_TERMINAL_ERROR")
    flows.drain()


def undo(queue: str, count: int) -> list[str]:
    """Complete what undoes, one by one; the references in order."""
    done = []
    for _ in range(count):
        (task,) = flows.lease_all(f"un_{queue}", 1)
        flows.complete([task])
        flows.drain()
        done.append(task.ref)
    return done


def clean() -> dict[str, object]:
    return {name: rows for name, rows in invariant_report().items() if rows}


def test_a_failed_run_undoes_its_tasks_and_leaves_nothing_alive() -> None:
    run, queue = saga(failureWorkflow=flows.register(flows.simple("clean")))
    fail(queue)
    assert flows.status(run) == "RUNNING"
    assert not QueuedTask.objects.filter(workflow_id=run, queue=queue).exists()
    reasons = {reason.code for reason in explain(flows.NAMESPACE, run).reasons}
    assert reasons == {Code.COMPENSATING, Code.NO_WORKER}
    assert not OutboxEvent.objects.filter(topic="workflow.start_failure").exists(), "not before everything is undone"
    assert undo(queue, 2) == ["un_b", "un_a"]
    ended = Execution.objects.get(id=run)
    assert (ended.status, ended.failed_refs) == ("FAILED", ["last"])
    assert ended.reason.endswith("; undone: b, a")
    assert Execution.objects.get(id=ended.failure_workflow_id).input["workflowId"] == str(run)
    events = list(HistoryEvent.objects.filter(workflow_id=run, type__startswith="workflow.").values_list("type", flat=True))
    assert sorted(events) == ["workflow.compensating", "workflow.failed", "workflow.started"]
    assert clean() == {}


def test_a_time_out_of_the_run_undoes_its_tasks_even_while_it_is_paused() -> None:
    run, queue = saga(timeoutSeconds=600, timeoutPolicy="TIME_OUT_WF")
    control.pause(flows.NAMESPACE, run, actor="olga")
    flows.hurry(Timer.objects.get(workflow_id=run, kind="WORKFLOW"))
    assert timers.fire_next_batch() == 1
    flows.drain()
    assert flows.statuses(run)["last"] == "CANCELED"
    assert not Timer.objects.filter(workflow_id=run).exists()
    assert undo(queue, 2) == ["un_b", "un_a"]
    assert flows.status(run) == "TIMED_OUT"
    assert clean() == {}


def test_an_operator_terminates_at_once_unless_undoing_is_asked_for() -> None:
    run, queue = saga()
    control.terminate(flows.NAMESPACE, run, actor="olga", reason="enough", compensate=True)
    flows.drain()
    assert flows.status(run) == "RUNNING"
    assert undo(queue, 2) == ["un_b", "un_a"]
    ended = Execution.objects.get(id=run)
    assert (ended.status, ended.reason) == ("TERMINATED", "enough; undone: b, a")
    other, other_queue = saga()
    control.terminate(flows.NAMESPACE, other, actor="olga", reason="enough")
    flows.drain()
    assert (flows.status(other), flows.lease(f"un_{other_queue}")) == ("TERMINATED", [])


def test_a_run_that_undoes_its_tasks_can_be_terminated_and_then_leaves_the_rest() -> None:
    run, queue = saga()
    fail(queue)
    control.terminate(flows.NAMESPACE, run, actor="olga", reason="by hand", compensate=True)
    flows.drain()
    assert flows.status(run) == "RUNNING", "it is undoing already"
    control.terminate(flows.NAMESPACE, run, actor="olga", reason="by hand")
    flows.drain()
    assert flows.status(run) == "TERMINATED"
    assert flows.lease(f"un_{queue}") == []
    assert clean() == {}


def test_what_was_undone_is_restarted_and_neither_retried_nor_rerun() -> None:
    run, queue = saga()
    fail(queue)
    undo(queue, 2)
    target = Task.objects.get(workflow_id=run, ref="b").id
    for action in (
        lambda: control.retry(flows.NAMESPACE, run, actor="olga"),
        lambda: control.rerun(flows.NAMESPACE, run, actor="olga", task_id=target),
        lambda: control.preview_retry(flows.NAMESPACE, run),
    ):
        with pytest.raises(IllegalState, match="undid its completed tasks; restart it instead"):
            action()
    control.restart(flows.NAMESPACE, run, actor="olga")
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"
    assert not Task.objects.filter(workflow_id=run, type="COMPENSATION").exists()


def test_a_run_with_a_fork_made_at_run_time_and_nothing_to_undo_is_retried_as_ever() -> None:
    queue = flows.unique("q")
    made = {
        "name": "d", "taskReferenceName": "d", "type": "FORK_JOIN_DYNAMIC", "dynamicForkTasksParam": "t",
        "dynamicForkTasksInputParamName": "i",
        "inputParameters": {"t": [flows.simple("x", queue, retryCount=0)], "i": {}},
    }  # fmt: skip
    run = flows.start(flows.register(made, {"name": "j", "taskReferenceName": "j", "type": "JOIN"}))
    flows.drain()
    fail(queue)
    assert flows.status(run) == "FAILED"
    control.retry(flows.NAMESPACE, run, actor="olga")
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"


def test_a_parent_that_fails_makes_its_child_undo_too_and_one_that_is_terminated_does_not() -> None:
    for kind in ("fail", "terminate"):
        queue, other = flows.unique("q"), flows.unique("o")
        leaf = flows.register(step("a", queue), flows.simple("wait", queue))
        run = flows.start(flows.register(*flows.fork("f", [flows.child("c", leaf)], [flows.simple("x", other)])))
        flows.drain()
        flows.complete(flows.lease_all(queue, 1))
        flows.drain()
        if kind == "fail":
            fail(other)
        else:
            control.terminate(flows.NAMESPACE, run, actor="olga")
            flows.drain()
        child = Execution.objects.get(parent_workflow_id=run).id
        if kind == "fail":
            assert (flows.status(run), flows.status(child)) == ("FAILED", "RUNNING")
            assert undo(queue, 1) == ["un_a"]
        assert flows.status(child) == "TERMINATED"
        assert clean() == {}


def test_a_child_reports_when_it_has_undone_its_tasks() -> None:
    queue = flows.unique("q")
    leaf = flows.register(step("a", queue), flows.simple("bad", queue, retryCount=0))
    run = flows.start(flows.register(flows.child("c", leaf)))
    flows.drain()
    flows.complete(flows.lease_all(queue, 1))
    flows.drain()
    fail(queue)
    assert flows.statuses(run) == {"c": "IN_PROGRESS"}
    assert undo(queue, 1) == ["un_a"]
    assert (flows.statuses(run), flows.status(run)) == ({"c": "FAILED"}, "FAILED")
    assert "undone: a" in Execution.objects.get(id=run).reason
    assert clean() == {}


def test_a_sub_workflow_may_undo_and_what_is_open_is_cancelled_with_its_child() -> None:
    queue = flows.unique("q")
    undoing = flows.register(flows.simple("back", f"un_{queue}"))
    waiting = flows.register(flows.simple("leaf", flows.unique("never")))
    booked = flows.simple("a", queue, compensateWith=flows.child("un_a", undoing))
    run = flows.start(
        flows.register(booked, *flows.fork("f", [flows.child("c", waiting)], [flows.simple("bad", queue, retryCount=0)]))
    )
    flows.drain()
    flows.complete(flows.lease_all(queue, 1))
    flows.drain()
    fail(queue)
    assert flows.statuses(run)["c"] == "CANCELED"
    assert Execution.objects.get(parent_workflow_id=run, name=waiting).status == "TERMINATED"
    assert undo(queue, 1) == ["back"]
    assert Execution.objects.get(id=run).reason.endswith("; undone: a")
    assert flows.status(run) == "FAILED"


@pytest.mark.invariant("INV-11")
def test_compensation_starts_once_whatever_fails_the_run_at_the_same_time() -> None:
    """The run's deadline, a failing task, an operator and the cascade of a parent, all at once, several times over."""
    for _ in range(5):
        run, queue = saga(timeoutSeconds=600, timeoutPolicy="TIME_OUT_WF")
        (task,) = flows.lease_all(queue, 1)
        flows.hurry(Timer.objects.get(workflow_id=run, kind="WORKFLOW"))

        def fail_task(found: Any = task, run: UUID = run) -> None:
            with transaction():
                DecideQueue.sql.enqueue([run])
                end_tasks([TaskEnd(found.id, run, "FAILED_WITH_TERMINAL_ERROR", None, "boom")])

        bodies = [
            timers.fire_next_batch,
            fail_task,
            lambda: evaluation.evaluate_next_batch(),
            lambda run=run: control.terminate(flows.NAMESPACE, run, actor="olga", compensate=True),
            lambda: evaluation.evaluate_next_batch(),
            timers.fire_next_batch,
        ]
        for outcome in race(len(bodies), lambda i, bodies=bodies: bodies[i]()):  # type: ignore[misc]
            assert not isinstance(outcome, Exception), outcome
        flows.drain()
        assert undo(queue, 2) == ["un_b", "un_a"]
        assert flows.status(run) in ("FAILED", "TIMED_OUT", "TERMINATED")
        kinds = list(Task.objects.filter(workflow_id=run).values_list("ref", flat=True))
        assert sorted(ref for ref in kinds if ref.startswith("un_") or ref == "COMPENSATION") == [
            "COMPENSATION", "un_a", "un_b"
        ]  # fmt: skip
        assert HistoryEvent.objects.filter(workflow_id=run, type="workflow.compensating").count() == 1
        assert clean() == {}


@pytest.mark.invariant("INV-11")
def test_a_deadline_that_fires_while_a_run_undoes_its_tasks_changes_nothing() -> None:
    """Deterministic: the operator holds the gate, the deadline waits for it, and finds its timer gone."""
    run, queue = saga(timeoutSeconds=600, timeoutPolicy="TIME_OUT_WF")
    flows.hurry(Timer.objects.get(workflow_id=run, kind="WORKFLOW"))
    with transaction():
        DecideQueue.sql.enqueue([run])
        firing = Contender(timers.fire_next_batch).until_blocked()
        task = Task.objects.get(workflow_id=run, ref="last")
        end_tasks([TaskEnd(task.id, run, "FAILED_WITH_TERMINAL_ERROR", None, "boom")])
    firing.result()
    flows.drain()
    assert undo(queue, 2) == ["un_b", "un_a"]
    assert Task.objects.filter(workflow_id=run, type="COMPENSATION").count() == 1


@pytest.mark.invariant("INV-11")
def test_a_second_cause_leaves_the_undoing_alone() -> None:
    run, queue = saga()
    fail(queue)
    before = set(Task.objects.filter(workflow_id=run).values_list("id", "status"))
    control.terminate(flows.NAMESPACE, run, actor="olga", compensate=True)
    assert set(Task.objects.filter(workflow_id=run).values_list("id", "status")) == before
    flows.drain()
    assert undo(queue, 2) == ["un_b", "un_a"]
    assert flows.status(run) == "FAILED"


def test_a_run_in_memory_undoes_its_tasks_too() -> None:
    definition = {"name": "trial", "version": 1, "tasks": [step("a", "q"), step("b", "q"), flows.simple("bad", retryCount=0)]}
    mocks = {ref: [{"output": {"by": ref}}] for ref in ("a", "b", "un_a", "un_b")}
    mocks["bad"] = [{"status": "FAILED"}]
    shown = simulation.simulate(StartRequest("trial", definition=definition), {"taskRefToMockOutput": mocks})
    assert (shown["status"], shown["reasonForIncompletion"].rpartition("; ")[2]) == ("FAILED", "undone: b, a")
    done = [(task["referenceTaskName"], task["inputData"].get("of")) for task in shown["tasks"]]
    assert done[-2:] == [("un_b", "b"), ("un_a", "a")]
