"""onStateChange: each change of a task's state tells its events, once, in the transaction of the change. [INV-5, INV-6d]"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from dispatch.services import dispatching
from orchestrator.db.transactions import transaction
from outbox.models import OutboxEvent
from outbox.services import events
from tests import flows
from tests.support import eventually
from workflows.managers.task import TaskEnd
from workflows.models import DecideQueue, Execution, HistoryEvent, Task, Timer
from workflows.services import control, definitions
from workflows.transitions import end_tasks

pytestmark = pytest.mark.usefixtures("committed")
NAMES = ("onScheduled", "onStart", "onSuccess", "onFailed", "onCancelled")
ACTOR = {"actor": "ann"}


def listening(**payload: Any) -> dict[str, Any]:
    """Listeners of every change: the type is the change's name."""
    return {name: [{"type": name, "payload": payload}] for name in NAMES}


def told(run: UUID, ref: str = "a") -> list[str]:
    """The changes that were told of a task, in order."""
    found = OutboxEvent.objects.filter(topic="event.published").order_by("id")
    payloads = [event.payload["payload"] for event in found]
    return [
        payload["stateChange"]
        for payload in payloads
        if (payload["workflowInstanceId"], payload["referenceTaskName"]) == (str(run), ref)
    ]


def begun(**fields: Any) -> tuple[UUID, str]:
    """A run of one task for workers that tells everything, and its queue."""
    queue = flows.unique("q")
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue, "retryCount": 0, **fields}])
    run = flows.start(flows.register(flows.simple("a", queue, onStateChange=listening())))
    flows.drain()
    return run, queue


def test_a_task_for_workers_tells_when_it_waits_begins_and_ends() -> None:
    queue = flows.unique("q")
    change = {
        "onScheduled": [{"type": "waiting"}],
        "onStart,onSuccess": [{"type": "moved", "payload": {"who": "${workflow.input.who}", "nested": [{"n": 1}]}}],
        "onFailed": [{"type": "never"}],
    }
    name = flows.register(flows.simple("a", queue, onStateChange=change))
    run = flows.start(name, {"who": "ann"}, correlation_id="c")
    flows.drain()
    assert told(run) == ["onScheduled"]
    tasks = flows.lease(queue)
    assert told(run) == ["onScheduled", "onStart"]
    flows.complete(tasks)
    flows.drain()
    (first, second, third) = OutboxEvent.objects.filter(topic="event.published").order_by("id")
    assert [e.payload["event"].removeprefix(f"conductor:{name}:") for e in (first, second, third)] == [
        "waiting", "moved", "moved",
    ]  # fmt: skip
    assert second.payload["payload"] == {
        "who": "ann", "nested": [{"n": 1}], "workflowInstanceId": str(run), "workflowType": name, "workflowVersion": 1,
        "correlationId": "c", "taskId": str(tasks[0].id), "referenceTaskName": "a", "taskDefName": queue,
        "taskType": "SIMPLE", "retryCount": 0, "iteration": 0, "stateChange": "onStart", "status": "IN_PROGRESS",
    }  # fmt: skip
    assert third.payload["payload"]["status"] == "COMPLETED"
    assert len({e.payload["message_id"] for e in (first, second, third)}) == 3


def test_a_handler_hears_of_it() -> None:
    target, source = flows.register(flows.simple("t", flows.unique("q"))), flows.unique("source")
    start = {"action": "start_workflow", "start_workflow": {"name": target, "input": {"of": "${taskId}"}}}
    handler = {"name": flows.unique("h"), "event": f"conductor:{source}:late", "actions": [start], "active": True}
    events.register(flows.NAMESPACE, handler)
    queue = flows.unique("q")
    flows.register(
        flows.simple("a", queue, retryCount=0, onStateChange={"onFailed": [{"type": "late"}]}), name=source
    )
    flows.start(source)
    flows.drain()
    (task,) = flows.lease(queue)
    flows.complete([task], status="FAILED")
    flows.drain()
    assert Execution.objects.get(name=target).input["of"] == str(task.id)


def test_an_operator_that_settles_tells_all_of_its_states_at_once() -> None:
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {}, "onStateChange": listening()}
    noop = {"name": "a", "taskReferenceName": "a", "type": "NOOP", "onStateChange": listening()}
    run = flows.start(flows.register(noop, wait))
    flows.drain()
    assert told(run) == ["onScheduled", "onStart", "onSuccess"]
    assert told(run, "w") == ["onScheduled", "onStart"]
    control.complete_task(flows.NAMESPACE, run, "w", "COMPLETED", {}, **ACTOR)
    assert told(run, "w") == ["onScheduled", "onStart", "onSuccess"]


def test_containers_tell_too() -> None:
    forking, join = flows.fork("f", [flows.simple("b", flows.unique("q"))])
    queue = forking["forkTasks"][0][0]["name"]
    run = flows.start(
        flows.register({**forking, "onStateChange": listening()}, {**join, "onStateChange": listening()})
    )
    flows.drain()
    assert (told(run, "f"), told(run, "f_join")) == (["onScheduled", "onStart", "onSuccess"], ["onScheduled", "onStart"])
    flows.complete(flows.lease(queue))
    flows.drain()
    assert told(run, "f_join") == ["onScheduled", "onStart", "onSuccess"]


def test_each_attempt_tells_each_change_once() -> None:
    run, queue = begun(retryCount=1, retryDelaySeconds=0)
    for _ in range(2):
        tasks = flows.lease_all(queue, 1)
        dispatching.release_tasks([(task.id, task.lease_token) for task in tasks])
        flows.complete(flows.lease_all(queue, 1), status="FAILED")
        flows.drain()
    assert told(run) == ["onScheduled", "onStart", "onFailed"] * 2
    assert flows.status(run) == "FAILED"
    ids = [e.payload["message_id"] for e in OutboxEvent.objects.filter(topic="event.published")]
    assert len(set(ids)) == len(ids)


def by_terminate(run: UUID, queue: str) -> None:
    control.terminate(flows.NAMESPACE, run, **ACTOR)


def by_cancel(run: UUID, queue: str) -> None:
    control.cancel_task(flows.NAMESPACE, run, "a", **ACTOR)


def by_deadline(run: UUID, queue: str) -> None:
    flows.hurry(Timer.objects.get(workflow_id=run, kind="POLL"))
    flows.time_out()


@pytest.mark.parametrize(
    ("end", "said"), [(by_terminate, "onCancelled"), (by_cancel, "onCancelled"), (by_deadline, "onFailed")]
)
def test_every_end_of_a_task_tells(end: Any, said: str) -> None:
    run, queue = begun(pollTimeoutSeconds=600)
    end(run, queue)
    flows.drain()
    assert told(run) == ["onScheduled", said]


def test_a_mistake_that_fails_a_task_at_its_start_tells_of_the_failure() -> None:
    switch = {
        "name": "a", "taskReferenceName": "a", "type": "SWITCH", "evaluatorType": "javascript", "expression": "no(",
        "decisionCases": {"x": [flows.simple("n")]}, "onStateChange": listening(),
    }  # fmt: skip
    run = flows.start(flows.register(switch))
    flows.drain()
    assert told(run) == ["onScheduled", "onFailed"]
    last = OutboxEvent.objects.filter(topic="event.published").latest("id").payload["payload"]
    assert last["reasonForIncompletion"] == Task.objects.get(workflow_id=run, ref="a").reason


@pytest.mark.parametrize("optional", [False, True])
def test_a_result_that_violates_its_schema_tells_of_the_failure(optional: bool) -> None:
    schema = {"name": "out", "type": "JSON", "data": {"type": "object", "required": ["x"]}}
    queue = flows.unique("q")
    definitions.register_tasks(
        flows.NAMESPACE, [{"name": queue, "retryCount": 0, "outputSchema": schema, "enforceSchema": True}]
    )
    run = flows.start(flows.register(flows.simple("a", queue, onStateChange=listening(), optional=optional)))
    flows.drain()
    flows.complete(flows.lease(queue), {"y": 1})
    flows.drain()
    assert told(run) == ["onScheduled", "onStart", "onSuccess", "onFailed"]


def test_an_optional_failure_tells_once() -> None:
    queue = flows.unique("q")
    task = flows.simple("a", queue, optional=True, retryCount=0, onStateChange=listening())
    run = flows.start(flows.register(task))
    flows.drain()
    flows.complete(flows.lease(queue), status="FAILED")
    flows.drain()
    assert (flows.status(run), told(run)) == ("COMPLETED", ["onScheduled", "onStart", "onFailed"])


def test_a_branch_made_at_run_time_tells_and_a_wrong_one_fails_its_fork() -> None:
    def made(change: Any) -> UUID:
        fork = {
            "name": "f", "taskReferenceName": "f", "type": "FORK_JOIN_DYNAMIC", "dynamicForkTasksParam": "t",
            "dynamicForkTasksInputParamName": "i", "inputParameters": {"t": "${workflow.input.t}", "i": {}},
        }  # fmt: skip
        join = {"name": "j", "taskReferenceName": "j", "type": "JOIN"}
        run = flows.start(flows.register(fork, join), {"t": [flows.simple("a", onStateChange=change)]})
        flows.drain()
        return run

    assert told(made(listening())) == ["onScheduled"]
    wrong = made({"onStrat": [{"type": "x"}]})
    assert flows.status(wrong) == "FAILED"
    assert "onStateChange.onStrat" in Execution.objects.get(id=wrong).reason


def test_a_rerun_tells_anew_and_its_input_goes_to_the_child_alone() -> None:
    leaf = flows.register(flows.simple("leaf", flows.unique("leaf")))
    run = flows.start(flows.register({**flows.child("a", leaf), "onStateChange": listening()}))
    flows.drain()
    control.terminate(flows.NAMESPACE, run, **ACTOR)
    flows.drain()
    task = Task.objects.get(workflow_id=run, ref="a")
    control.rerun(flows.NAMESPACE, run, task_id=task.id, task_input={"n": 1}, **ACTOR)
    flows.drain()
    assert told(run) == ["onScheduled", "onStart", "onCancelled", "onScheduled", "onStart"]
    published = [event.payload for event in OutboxEvent.objects.filter(topic="event.published")]
    assert len({event["message_id"] for event in published}) == 5
    assert {"event", "message_id", "payload"} == set().union(*published)
    child = Execution.objects.filter(parent_workflow_id=run).latest("created_at")
    assert child.input == {"n": 1}


@pytest.mark.invariant("INV-5")
def test_what_is_undone_tells_nothing() -> None:
    run, queue = begun()
    tasks = flows.lease(queue)
    with pytest.raises(RuntimeError, match="undone"), transaction():
        DecideQueue.sql.enqueue([run])
        end_tasks([TaskEnd(tasks[0].id, run, "COMPLETED", {})])
        assert told(run)[-1] == "onSuccess"
        raise RuntimeError("undone")
    assert told(run) == ["onScheduled", "onStart"]


def test_a_payload_over_the_limit_is_left_out_and_said_so(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "TASK_PAYLOAD_MAX_BYTES": 1024}
    queue = flows.unique("q")
    task = flows.simple("a", queue, onStateChange=listening(**{str(i): "${workflow.input.big}" for i in range(20)}))
    run = flows.start(flows.register(task), {"big": "x" * 100})
    flows.drain()
    assert flows.statuses(run) == {"a": "SCHEDULED"}
    assert told(run) == []
    alert = HistoryEvent.objects.get(workflow_id=run, type="task.alert")
    assert alert.data["kind"] == "STATE_CHANGE" and "onStateChange" in alert.data["message"]


def test_tasks_that_listen_to_nothing_write_nothing_more() -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue, onStateChange={})))
    flows.drain()
    eventually(lambda: bool(Task.objects.filter(workflow_id=run)))
    flows.complete(flows.lease(queue))
    assert Task.objects.get(workflow_id=run).listeners is None
    assert not OutboxEvent.objects.exists()
