"""What every transition must leave behind: nothing that could come back to life, nothing twice."""

from __future__ import annotations

from uuid import UUID

import pytest

from dispatch.models import QueuedTask
from dispatch.services import dispatching
from dispatch.services.dispatching import TaskReport
from orchestrator.db.transactions import transaction
from orchestrator.errors import LeaseLost
from outbox.models import OutboxEvent
from outbox.services import relay
from tests import flows
from tests.support import Contender, race
from workflows import handlers
from workflows.engine.state import TaskStatus
from workflows.managers.task import TaskEnd
from workflows.models import DecideQueue, Execution, HistoryEvent, Task, Timer
from workflows.services import evaluation
from workflows.services.sweeping import invariant_report
from workflows.transitions import end_tasks

pytestmark = pytest.mark.usefixtures("committed")


def clean() -> dict[str, object]:
    return {name: rows for name, rows in invariant_report().items() if rows}


@pytest.mark.invariant("INV-4")
def test_a_run_is_locked_by_one_transaction_at_a_time() -> None:
    run = flows.start(flows.register(flows.simple("a")))

    def lock() -> list[UUID]:
        with transaction():
            return [found.id for found in Execution.sql.lock([run])]

    with transaction():
        Execution.sql.lock([run])
        other = Contender(lock).until_blocked()
    assert other.result() == [run]


@pytest.mark.invariant("INV-6d")
def test_an_absorbed_task_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = flows.register(flows.simple("a"))
    run = flows.start(flows.register(flows.child("c", leaf)))
    evaluation.evaluate_next_batch()
    assert OutboxEvent.objects.filter(topic="workflow.start_child").count() == 1
    with monkeypatch.context() as patch:
        patch.setattr(Task.sql, "has_any", lambda ids: set())
        patch.setattr(Task.sql, "read_frontier", lambda ids: [])
        with transaction():
            DecideQueue.sql.enqueue([run])
        evaluation.evaluate_now([run])
    assert OutboxEvent.objects.filter(topic="workflow.start_child").count() == 1


@pytest.mark.invariant("INV-7a")
def test_only_the_holder_of_the_lease_may_write() -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue)))
    flows.drain()
    (first,) = flows.lease(queue, worker_id="one")
    dispatching.release_tasks([(first.id, first.lease_token)])
    (second,) = flows.lease(queue, worker_id="two")
    assert first.lease_token != second.lease_token
    with pytest.raises(LeaseLost):
        flows.complete([first])
    assert dispatching.renew_leases([(first.id, first.lease_token)]) == set()
    dispatching.release_tasks([(first.id, first.lease_token)])
    with pytest.raises(LeaseLost):
        dispatching.append_logs(first.id, ["late"], lease_token=first.lease_token)
    assert Task.objects.get(id=first.id).worker_id == "two"
    assert HistoryEvent.objects.filter(workflow_id=run, type="task.late_result_refused").count() == 1
    flows.complete([second])
    flows.drain()
    assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-7b")
def test_a_finished_task_stays_finished() -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue)))
    flows.drain()
    (task,) = flows.lease(queue)
    with transaction():
        DecideQueue.sql.enqueue([run])
        end_tasks([TaskEnd(task.id, run, TaskStatus.TIMED_OUT, None, "too late", "RESPONSE_TIMEOUT")])
    with transaction():
        DecideQueue.sql.enqueue([run])
        assert end_tasks([TaskEnd(task.id, run, TaskStatus.COMPLETED, {"late": True})]) == []
    late = TaskReport(task.id, run, "COMPLETED", lease_token=task.lease_token, output={"late": True})
    (outcome,) = dispatching.report([late], strict=False)
    assert not outcome.applied
    assert Task.objects.get(id=task.id).status == "TIMED_OUT"


@pytest.mark.invariant("INV-9")
def test_eight_completers_of_one_run_write_a_gapless_history() -> None:
    queue, width = flows.unique("q"), 8
    run = flows.start(flows.register(*flows.fork("f", *[[flows.simple(f"b{i}", queue)] for i in range(width)])))
    flows.drain()
    tasks = flows.lease_all(queue, width)
    assert race(width, lambda i: flows.complete([tasks[i]])) == [None] * width
    flows.drain()
    seqs = list(HistoryEvent.objects.filter(workflow_id=run).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))
    assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-11")
def test_the_end_of_a_run_leaves_nothing_of_it_alive() -> None:
    queue = flows.unique("q")
    leaf = flows.register(flows.simple("leaf", queue))
    end = {
        "name": "t", "taskReferenceName": "t", "type": "TERMINATE",
        "inputParameters": {"terminationStatus": "FAILED", "terminationReason": "enough"},
    }  # fmt: skip
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1h"}}
    branches = [[flows.simple("first", queue), end], [flows.simple("queued", queue)], [wait], [flows.child("c", leaf)]]
    run = flows.start(flows.register(*flows.fork("f", *branches)))
    flows.drain()
    tasks = {task.ref: task for task in flows.lease_all(queue, 3)}
    flows.complete([tasks["first"]])
    flows.drain()
    assert flows.status(run) == "FAILED"
    assert Execution.objects.get(parent_workflow_id=run).status == "TERMINATED", "the cascade reached the child"
    assert not QueuedTask.objects.filter(workflow_id=run).exists()
    assert not Timer.objects.filter(workflow_id=run).exists()
    assert not Task.objects.filter(workflow_id=run, ended_at=None).exists()
    assert clean() == {}


@pytest.mark.invariant("INV-11")
def test_a_cascade_that_overtakes_the_childs_start_leaves_no_orphan() -> None:
    queue = flows.unique("q")
    leaf = flows.register(flows.simple("leaf", queue))
    end = {
        "name": "t", "taskReferenceName": "t", "type": "TERMINATE", "inputParameters": {"terminationStatus": "FAILED"},
    }  # fmt: skip
    run = flows.start(flows.register(*flows.fork("f", [flows.child("c", leaf)], [end])))
    evaluation.evaluate_next_batch()
    assert flows.status(run) == "FAILED"
    start, cascade = OutboxEvent.objects.order_by("id")
    assert (start.topic, cascade.topic) == ("workflow.start_child", "workflow.terminate")
    handlers.terminate(cascade)
    handlers.start_child(start)
    handlers.start_child(start)
    flows.drain()
    assert not Execution.objects.filter(parent_workflow_id=run).exists()


def test_a_started_workflow_exists_when_its_task_has_ended() -> None:
    leaf = flows.register(flows.simple("leaf"))
    start = {
        "name": "s", "taskReferenceName": "s", "type": "START_WORKFLOW",
        "inputParameters": {"startWorkflow": {"name": leaf, "input": {"x": 1}}},
    }  # fmt: skip
    run = flows.start(flows.register(start))
    flows.drain()
    assert flows.status(run) == "COMPLETED"
    started = Execution.objects.get(id=Execution.objects.get(id=run).output["workflowId"])
    assert (started.name, started.input, started.parent_workflow_id) == (leaf, {"x": 1}, None)


def test_a_start_that_cannot_be_fails_its_task_with_the_reason() -> None:
    start = {
        "name": "s", "taskReferenceName": "s", "type": "START_WORKFLOW",
        "inputParameters": {"startWorkflow": {"name": "nobody"}},
    }  # fmt: skip
    run = flows.start(flows.register(start))
    flows.drain()
    assert flows.status(run) == "FAILED"
    assert "No such workflow found by name: nobody" in (Task.objects.get(workflow_id=run).reason or "")


@pytest.mark.invariant("INV-6c")
def test_a_child_start_that_is_delivered_twice_starts_one_child() -> None:
    leaf = flows.register(flows.simple("leaf"))
    run = flows.start(flows.register(flows.child("c", leaf)))
    evaluation.evaluate_next_batch()
    start = OutboxEvent.objects.get()
    handlers.start_child(start)
    handlers.start_child(start)
    assert Execution.objects.filter(parent_workflow_id=run).count() == 1


@pytest.mark.invariant("INV-5")
def test_an_event_without_a_handler_is_kept_backs_off_and_can_be_replayed(settings: object) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "OUTBOX_MAX_ATTEMPTS": 1}  # type: ignore[attr-defined]
    leaf = flows.register(flows.simple("a"))
    run = flows.start(flows.register(flows.child("c", leaf)))
    evaluation.evaluate_next_batch()
    handler = relay.unregister("workflow.start_child")
    assert handler is not None
    try:
        assert relay.deliver_next_batch() == 1
    finally:
        relay.register("workflow.start_child", handler)
    event = OutboxEvent.objects.get()
    assert event.dead_at is not None and event.delivered_at is None
    assert "no handler" in (event.last_error or "")
    assert relay.deliver_next_batch() == 0
    assert relay.replay([event.id]) == 1
    flows.finish(["a"])
    assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-5")
def test_nothing_is_written_to_the_outbox_by_a_pass_that_rolls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = flows.register(flows.simple("a"))
    flows.start(flows.register(flows.child("c", leaf)))
    real = evaluation.apply_decisions

    def crash(decided: object) -> set[UUID]:
        real(decided)  # type: ignore[arg-type]
        raise RuntimeError("crash before the commit")

    monkeypatch.setattr(evaluation, "apply_decisions", crash)
    evaluation.evaluate_next_batch()
    assert not OutboxEvent.objects.exists()


@pytest.mark.invariant("INV-13")
def test_one_poisonous_run_does_not_stop_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = flows.unique("q")
    name = flows.register(flows.simple("a", queue))
    runs = [flows.start(name) for _ in range(10)]
    poison = runs[3]
    real = evaluation.apply_decisions

    def apply(decided: list[evaluation.Decided]) -> set[UUID]:
        if any(item.run.id == poison for item in decided):
            raise ValueError("poison")
        return real(decided)

    monkeypatch.setattr(evaluation, "apply_decisions", apply)
    flows.drain()
    assert {task.workflow_id for task in flows.lease(queue)} == set(runs) - {poison}
    row = DecideQueue.objects.get(workflow_id=poison)
    assert row.attempts == 1 and "poison" in (row.last_error or "")
