"""Every way a run can end, against everything that an end must deal with. [INV-11]

One run stands between a parent and a child, with something of each kind open: a task in a queue, one in a worker's hands,
a WAIT, a HUMAN, a sub-workflow; and one task that has completed and can be undone. Then something ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from dispatch.models import Permit, QueuedTask
from dispatch.services import dispatching, limiting
from dispatch.services.dispatching import TaskReport
from orchestrator.db.transactions import transaction
from outbox.models import OutboxEvent
from tests import flows
from workflows.managers.task import StartedTask
from workflows.models import DecideQueue, Execution, HistoryEvent, HumanTask, Task, Timer
from workflows.services import control, deciding, definitions, timers
from workflows.services.sweeping import invariant_report

pytestmark = pytest.mark.usefixtures("committed")

OPERATOR = "olga"


@dataclass(frozen=True)
class Scene:
    """The runs and what is in them."""

    parent: UUID
    run: UUID
    child: UUID
    failure: str
    queues: dict[str, str]
    held: StartedTask

    def trigger(self, status: str = "FAILED_WITH_TERMINAL_ERROR", output: dict[str, Any] | None = None) -> None:
        """The worker of the task that decides over the run answers."""
        flows.complete(flows.lease_all(self.queues["trigger"], 1), output, status)


def scene(trigger: dict[str, Any] | None = None, then: list[dict[str, Any]] | None = None, **fields: Any) -> Scene:
    """Everything is open; the branch of `trigger` ends the run."""
    queues = {kind: flows.unique(kind) for kind in ("done", "undo", "queued", "held", "leaf", "trigger")}
    limiting.put_semaphore(flows.NAMESPACE, queues["held"], 1)
    definitions.register_tasks(
        flows.NAMESPACE,
        [
            {
                "name": queues["held"], "responseTimeoutSeconds": 600, "timeoutSeconds": 900,
                "totalTimeoutSeconds": 1800, "semaphores": [queues["held"]],
            },
            {"name": queues["trigger"], "retryCount": 0, **(trigger or {})},
        ],
    )
    failure, leaf = flows.register(flows.simple("clean")), flows.register(flows.simple("leaf", queues["leaf"]))
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1h"}}
    human = {"name": "h", "taskReferenceName": "h", "type": "HUMAN", "inputParameters": {"deadlineSeconds": 3600}}
    done = flows.simple("done", queues["done"], compensateWith=flows.simple("undo", queues["undo"]))
    middle = flows.register(
        done,
        *flows.fork(
            "f",
            [flows.simple("trigger", queues["trigger"]), *(then or [])],
            [flows.simple("queued", queues["queued"])],
            [flows.simple("held", queues["held"])],
            [wait],
            [human],
            [flows.child("c", leaf)],
        ),
        failureWorkflow=failure,
        workflowStatusListenerEnabled=True,
        **fields,
    )
    parent = flows.start(flows.register(flows.child("middle", middle)))
    flows.drain()
    run = Execution.objects.get(parent_workflow_id=parent).id
    flows.complete(flows.lease_all(queues["done"], 1))
    flows.drain()
    (held,) = flows.lease_all(queues["held"], 1)
    assert Permit.objects.filter(task_id=held.id).exists()
    assert HumanTask.objects.filter(workflow_id=run, ref="h").exists()
    child = Execution.objects.get(parent_workflow_id=run).id
    return Scene(parent, run, child, failure, queues, held)


# The causes


def failed_terminally() -> Scene:
    found = scene()
    found.trigger()
    return found


def retries_exhausted() -> Scene:
    found = scene({"retryCount": 1, "retryDelaySeconds": 0})
    found.trigger("FAILED")
    flows.drain()
    found.trigger("FAILED")
    return found


def task_timed_out() -> Scene:
    found = scene({"timeoutSeconds": 600, "timeoutPolicy": "TIME_OUT_WF"})
    flows.lease_all(found.queues["trigger"], 1)
    return fired(found, "TASK")


def response_timed_out() -> Scene:
    found = scene({"responseTimeoutSeconds": 1})
    flows.lease_all(found.queues["trigger"], 1)
    flows.time_out()
    return found


def poll_timed_out() -> Scene:
    return fired(scene({"pollTimeoutSeconds": 600, "timeoutPolicy": "TIME_OUT_WF"}), "POLL")


def total_timed_out() -> Scene:
    found = scene({"totalTimeoutSeconds": 600, "retryCount": 5})
    flows.lease_all(found.queues["trigger"], 1)
    return fired(found, "TOTAL")


def terminate_task(status: str) -> Callable[[], Scene]:
    def cause() -> Scene:
        end = {
            "name": "t", "taskReferenceName": "t", "type": "TERMINATE",
            "inputParameters": {"terminationStatus": status, "terminationReason": "enough"},
        }  # fmt: skip
        found = scene(then=[end])
        found.trigger("COMPLETED")
        return found

    return cause


def operator_terminated() -> Scene:
    found = scene()
    control.terminate(flows.NAMESPACE, found.run, actor=OPERATOR, reason="enough")
    return found


def operator_terminated_and_undone() -> Scene:
    found = scene()
    control.terminate(flows.NAMESPACE, found.run, actor=OPERATOR, reason="enough", compensate=True)
    return found


def terminated_while_paused() -> Scene:
    found = scene()
    control.pause(flows.NAMESPACE, found.run, actor=OPERATOR)
    control.terminate(flows.NAMESPACE, found.run, actor=OPERATOR, reason="enough")
    return found


def task_cancelled() -> Scene:
    found = scene()
    control.cancel_task(flows.NAMESPACE, found.run, "trigger", actor=OPERATOR)
    return found


def parent_terminated() -> Scene:
    found = scene()
    control.terminate(flows.NAMESPACE, found.parent, actor=OPERATOR, reason="enough")
    return found


def expression_failed() -> Scene:
    switch = {
        "name": "s", "taskReferenceName": "s", "type": "SWITCH", "evaluatorType": "javascript", "expression": "no(",
        "decisionCases": {"x": [flows.simple("never")]},
    }  # fmt: skip
    found = scene(then=[switch])
    found.trigger("COMPLETED")
    return found


def engine_failed(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A pass that throws puts the run aside; a person ends it."""
    found = scene()
    with monkeypatch.context() as patch:
        patch.setattr(deciding, "decide", _rotten)
        with transaction():
            DecideQueue.sql.enqueue([found.run])
        flows.drain()
        with transaction():
            DecideQueue.sql.record_failure(found.run, "rotten", max_attempts=1)
    assert DecideQueue.objects.get(workflow_id=found.run).quarantined
    control.terminate(flows.NAMESPACE, found.run, actor=OPERATOR, reason="rotten")
    control.nudge(flows.NAMESPACE, found.run, actor=OPERATOR)
    return found


def _rotten(*args: object) -> None:
    raise ValueError("rotten")


def run_timed_out() -> Scene:
    return fired(scene(timeoutSeconds=600, timeoutPolicy="TIME_OUT_WF"), "WORKFLOW")


def fired(found: Scene, kind: str) -> Scene:
    """The deadline of the run, or of the task that decides over it, comes."""
    of_held = Timer.objects.filter(workflow_id=found.run, task_id=found.held.id)
    timer = Timer.objects.filter(workflow_id=found.run, kind=kind).exclude(id__in=of_held.values("id")).get()
    flows.hurry(timer)
    assert timers.fire_next_batch() == 1
    return found


@dataclass(frozen=True)
class Expected:
    """How the run ends, what its parent's task becomes, whether the failure workflow runs, whether the task is undone."""

    status: str
    reported: str
    failure: bool
    undone: bool


FAILED = Expected("FAILED", "FAILED", failure=True, undone=True)
TIMED_OUT = Expected("TIMED_OUT", "TIMED_OUT", failure=True, undone=True)
STOPPED = Expected("TERMINATED", "CANCELED", failure=False, undone=False)
CAUSES: dict[str, tuple[Callable[..., Scene], Expected]] = {
    "failed terminally": (failed_terminally, FAILED),
    "retries exhausted": (retries_exhausted, FAILED),
    "task timed out": (task_timed_out, TIMED_OUT),
    "response timed out": (response_timed_out, TIMED_OUT),
    "poll timed out": (poll_timed_out, TIMED_OUT),
    "total timed out": (total_timed_out, TIMED_OUT),
    "TERMINATE FAILED": (terminate_task("FAILED"), FAILED),
    "TERMINATE COMPLETED": (
        terminate_task("COMPLETED"), Expected("COMPLETED", "COMPLETED", failure=False, undone=False)
    ),
    "TERMINATE TERMINATED": (
        terminate_task("TERMINATED"), Expected("TERMINATED", "CANCELED", failure=True, undone=False)
    ),
    "operator terminates": (operator_terminated, STOPPED),
    "operator terminates and undoes": (
        operator_terminated_and_undone, Expected("TERMINATED", "CANCELED", failure=False, undone=True)
    ),
    "terminated while paused": (terminated_while_paused, STOPPED),
    "task cancelled": (task_cancelled, Expected("TERMINATED", "CANCELED", failure=True, undone=False)),
    "parent terminated": (parent_terminated, STOPPED),
    "expression failed": (expression_failed, FAILED),
    "engine failed": (engine_failed, STOPPED),
    "run timed out": (run_timed_out, TIMED_OUT),
}  # fmt: skip


@pytest.mark.invariant("INV-11")
@pytest.mark.parametrize("name", CAUSES)
def test_every_end_of_a_run_deals_with_everything(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cause, expected = CAUSES[name]
    found = cause(monkeypatch) if cause is engine_failed else cause()
    flows.drain()
    compensation(found, expected)
    ended = Execution.objects.get(id=found.run)
    assert (ended.status, ended.ended_at is not None) == (expected.status, True), ended.reason
    nothing_is_left(found.run)
    late_results_are_refused(found)
    children(found)
    parent(found, expected)
    failure_workflow(found, ended, expected)
    history(found, expected)
    assert ends_told(found) == [expected.status]
    assert {check: rows for check, rows in invariant_report().items() if rows} == {}


def ends_told(found: Scene) -> list[str]:
    """What the listener of the run was told of its end."""
    heard = OutboxEvent.objects.filter(topic="event.published", payload__payload__workflowInstanceId=str(found.run))
    statuses = [event.payload["payload"]["status"] for event in heard]
    return [status for status in statuses if status != "PAUSED"]


def compensation(found: Scene, expected: Expected) -> None:
    """What was completed is undone, or nothing ever asks for it; until then everything else is gone already."""
    undoing = Task.objects.filter(workflow_id=found.run, ref="undo")
    assert undoing.exists() == expected.undone
    if expected.undone:
        assert not QueuedTask.objects.filter(workflow_id=found.run).exclude(queue=found.queues["undo"]).exists()
        assert flows.statuses(found.parent) == {"middle": "IN_PROGRESS"}, "the parent waits for the undoing"
        assert ends_told(found) == [], "so does the listener"
        flows.complete(flows.lease_all(found.queues["undo"], 1))
        flows.drain()
    assert Task.objects.filter(workflow_id=found.run, ref="COMPENSATION").count() == int(expected.undone)


def nothing_is_left(run: UUID) -> None:
    assert not Task.objects.filter(workflow_id=run, ended_at=None).exists()
    assert not QueuedTask.objects.filter(workflow_id=run).exists()
    assert not Timer.objects.filter(workflow_id=run).exists()
    assert not HumanTask.objects.filter(workflow_id=run).exists()
    assert not Permit.objects.filter(workflow_id=run).exists()
    assert not DecideQueue.objects.filter(workflow_id=run).exists()
    assert not Task.objects.filter(workflow_id=run).exclude(lease_token=None).exists()


def late_results_are_refused(found: Scene) -> None:
    """The worker learns at its heartbeat, and what it reports changes nothing."""
    assert dispatching.renew_leases([(found.held.id, found.held.lease_token)]) == set()
    late = TaskReport(found.held.id, found.run, "COMPLETED", lease_token=found.held.lease_token, output={"late": 1})
    assert [outcome.applied for outcome in dispatching.report([late], strict=False)] == [False]
    for queue in ("queued", "trigger", "leaf"):
        assert flows.lease(found.queues[queue]) == []
    flows.drain()
    assert {flows.statuses(found.run)[ref] for ref in ("queued", "held", "w", "h", "c", "f_join")} == {"CANCELED"}


def children(found: Scene) -> None:
    assert flows.status(found.child) == "TERMINATED"
    nothing_is_left(found.child)


def parent(found: Scene, expected: Expected) -> None:
    parent = Execution.objects.get(id=found.parent)
    nothing_is_left(found.parent)
    (task,) = Task.objects.filter(workflow_id=found.parent)
    assert task.status == expected.reported
    ended = {"CANCELED": "TERMINATED"}.get(expected.reported, expected.reported)
    assert parent.status == ended
    if expected.reported not in ("COMPLETED", "CANCELED"):
        assert str(found.run) in (task.reason or "")


def failure_workflow(found: Scene, ended: Execution, expected: Expected) -> None:
    started = list(Execution.objects.filter(name=found.failure))
    assert [run.id for run in started] == ([ended.failure_workflow_id] if expected.failure else [])
    for run in started:
        assert (run.input["workflowId"], run.input["failureStatus"]) == (str(found.run), expected.status)
    assert not OutboxEvent.objects.filter(delivered_at=None).exists()


def history(found: Scene, expected: Expected) -> None:
    """One end, said once; every task that was made is said to have ended once."""
    events = list(HistoryEvent.objects.filter(workflow_id=found.run).order_by("seq"))
    ends = [event.type for event in events if event.type.startswith("workflow.") and "status" in event.data]
    ends = [kind for kind in ends if kind not in ("workflow.compensating", "workflow.started")]
    assert ends == [f"workflow.{expected.status.lower()}"]
    made = [str(event.task_id) for event in events if event.type == "task.scheduled"]
    kinds = ("completed", "failed", "timed_out", "canceled", "skipped")
    over = [str(event.task_id) for event in events if event.type in {f"task.{kind}" for kind in kinds}]
    assert sorted(made) == sorted(over)


def test_a_run_that_completes_leaves_nothing_either() -> None:
    found = scene()
    for queue in ("queued", "trigger", "leaf"):
        flows.complete(flows.lease_all(found.queues[queue], 1))
    flows.complete([found.held])
    for ref in ("w", "h"):
        control.complete_task(flows.NAMESPACE, found.run, ref, "COMPLETED", actor=OPERATOR)
    flows.drain()
    ended = Execution.objects.get(id=found.run)
    assert ended.status == "COMPLETED"
    nothing_is_left(found.run)
    assert flows.status(found.child) == "COMPLETED"
    assert (flows.statuses(found.parent), flows.status(found.parent)) == ({"middle": "COMPLETED"}, "COMPLETED")
    assert not Execution.objects.filter(name=found.failure).exists()
    assert not Task.objects.filter(workflow_id=found.run, ref="undo").exists()
    history(found, Expected("COMPLETED", "COMPLETED", failure=False, undone=False))
    assert ends_told(found) == ["COMPLETED"]
    assert {check: rows for check, rows in invariant_report().items() if rows} == {}
