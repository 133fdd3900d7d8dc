"""Deadlines: what each counts from, what it does under each policy, and that one that throws stands alone."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import InterfaceError, OperationalError, connection

from dispatch.models import QueuedTask
from dispatch.services import dispatching
from orchestrator.db.transactions import transaction
from orchestrator.runtime.metrics import render
from tests import flows
from tests.support import Contender, observer, race
from workflows.managers.task import TaskEnd
from workflows.managers.timer import DueTimer
from workflows.models import DecideQueue, Execution, HistoryEvent, Task, Timer
from workflows.services import definitions, timers
from workflows.services.sweeping import invariant_report
from workflows.transitions import end_tasks

pytestmark = pytest.mark.usefixtures("committed")

FIELDS = {"POLL": "pollTimeoutSeconds", "RESPONSE": "responseTimeoutSeconds", "TASK": "timeoutSeconds",
          "TOTAL": "totalTimeoutSeconds"}  # fmt: skip


def started(**policy: Any) -> tuple[UUID, str]:
    """A run whose one task waits in its queue."""
    queue = flows.unique("q")
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue, **policy}])
    run = flows.start(flows.register(flows.simple("a", queue)))
    flows.drain()
    return run, queue


def fire(run: UUID, kind: str) -> None:
    """Let the one timer of this kind fire now."""
    timer = Timer.objects.get(workflow_id=run, kind=kind)
    flows.hurry(timer)
    assert timers.fire_next_batch()
    assert not Timer.objects.filter(id=timer.id).exists()
    flows.drain()


def due(run: UUID) -> dict[str, datetime]:
    """When each deadline of a run and of its tasks fires."""
    queued = QueuedTask.objects.filter(workflow_id=run, respond_by__isnull=False)
    found = [(timer.kind, timer.due_at) for timer in Timer.objects.filter(workflow_id=run)]
    return dict([*found, *(("RESPONSE", task.respond_by) for task in queued)])


def alerts(run: UUID) -> list[str]:
    return [event.data["kind"] for event in HistoryEvent.objects.filter(workflow_id=run, type__endswith=".alert")]


def clean() -> dict[str, object]:
    return {name: rows for name, rows in invariant_report().items() if rows}


@pytest.mark.parametrize("kind", ["POLL", "TASK", "TOTAL", "RESPONSE"])
@pytest.mark.parametrize("policy", ["TIME_OUT_WF", "RETRY", "ALERT_ONLY"])
def test_each_deadline_under_each_policy_with_the_default_count_of_retries(kind: str, policy: str) -> None:
    seconds = 1 if kind == "RESPONSE" else 600
    run, queue = started(**{FIELDS[kind]: seconds, "timeoutPolicy": policy, "retryDelaySeconds": 0})
    if kind != "POLL":
        flows.lease_all(queue, 1)
    if kind == "RESPONSE":
        flows.time_out()
    else:
        fire(run, kind)
    first = Task.objects.get(workflow_id=run, attempt=0)
    retried = Task.objects.filter(workflow_id=run, attempt=1).exists()
    if policy == "ALERT_ONLY" and kind != "RESPONSE":
        assert (first.status == "TIMED_OUT", retried, flows.status(run)) == (False, False, "RUNNING")
        assert alerts(run) == [f"{kind}_TIMEOUT"]
        assert flows.status(run) == "RUNNING"
    elif kind == "TOTAL" or (policy == "TIME_OUT_WF" and kind != "RESPONSE"):
        assert (first.status, retried, flows.status(run)) == ("TIMED_OUT", False, "TIMED_OUT")
        assert not QueuedTask.objects.filter(workflow_id=run).exists()
    else:  # a worker that does not answer is tried again, whatever the policy
        assert (first.status, first.cause, retried) == ("TIMED_OUT", f"{kind}_TIMEOUT", True)
        assert flows.status(run) == "RUNNING"
    assert clean() == {}


def test_retries_after_time_outs_come_to_an_end() -> None:
    run, _ = started(pollTimeoutSeconds=600, timeoutPolicy="RETRY", retryCount=1, retryDelaySeconds=0)
    fire(run, "POLL")
    assert flows.status(run) == "RUNNING"
    fire(run, "POLL")
    assert flows.status(run) == "TIMED_OUT"
    assert Task.objects.filter(workflow_id=run).count() == 2


def test_every_attempt_has_deadlines_of_its_own_and_the_total_one_is_shared() -> None:
    run, queue = started(
        pollTimeoutSeconds=100, responseTimeoutSeconds=200, timeoutSeconds=300, totalTimeoutSeconds=900, retryCount=1,
        retryDelaySeconds=0,
    )  # fmt: skip
    assert set(due(run)) == {"POLL", "TOTAL"}
    (task,) = flows.lease_all(queue, 1)
    first = due(run)
    assert set(first) == {"POLL", "TOTAL", "RESPONSE", "TASK"}
    flows.complete([task], status="FAILED")
    flows.drain()
    assert set(due(run)) == {"POLL", "TOTAL"}
    flows.lease_all(queue, 1)
    second = due(run)
    assert second["TOTAL"] == first["TOTAL"]
    assert all(second[kind] > first[kind] for kind in ("POLL", "RESPONSE", "TASK"))


def test_a_delay_postpones_the_poll_deadline() -> None:
    queue = flows.unique("q")
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue, "pollTimeoutSeconds": 10}])
    run = flows.start(flows.register(flows.simple("a", queue, startDelay=100)))
    flows.drain()
    assert (due(run)["POLL"] - Task.objects.get(workflow_id=run).scheduled_at).total_seconds() == pytest.approx(110, abs=1)


def test_a_task_that_was_polled_once_has_no_poll_deadline_however_long_it_is_put_back() -> None:
    run, queue = started(pollTimeoutSeconds=600, retryCount=0)
    (task,) = flows.lease_all(queue, 1)
    dispatching.release_tasks([(task.id, task.lease_token)])
    assert Task.objects.get(id=task.id).status == "SCHEDULED"
    fire(run, "POLL")
    assert (Task.objects.get(id=task.id).status, flows.status(run)) == ("SCHEDULED", "RUNNING")


def test_the_time_of_a_task_runs_on_while_it_waits_in_the_queue_again() -> None:
    run, queue = started(timeoutSeconds=600, timeoutPolicy="TIME_OUT_WF")
    (task,) = flows.lease_all(queue, 1)
    dispatching.release_tasks([(task.id, task.lease_token)])
    fire(run, "TASK")
    assert flows.status(run) == "TIMED_OUT"
    assert flows.lease(queue) == []


def test_an_answer_in_time_postpones_the_response_deadline_and_no_other() -> None:
    run, queue = started(responseTimeoutSeconds=600, timeoutSeconds=900, totalTimeoutSeconds=900)
    (task,) = flows.lease_all(queue, 1)
    before = due(run)
    dispatching.renew_leases([(task.id, task.lease_token)])
    after = due(run)
    assert after["RESPONSE"] > before["RESPONSE"]
    assert {kind: after[kind] for kind in ("TASK", "TOTAL")} == {kind: before[kind] for kind in ("TASK", "TOTAL")}


@pytest.mark.parametrize("policy", ["TIME_OUT_WF", "ALERT_ONLY"])
def test_a_deadline_of_the_run(policy: str) -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue), timeoutSeconds=600, timeoutPolicy=policy))
    flows.drain()
    fire(run, "WORKFLOW")
    if policy == "ALERT_ONLY":
        assert (flows.status(run), alerts(run)) == ("RUNNING", ["WORKFLOW"])
        flows.finish([queue])
        assert flows.status(run) == "COMPLETED"
    else:
        assert flows.status(run) == "TIMED_OUT"
        assert "timeoutSeconds=600" in Execution.objects.get(id=run).reason


def test_a_run_that_times_out_starts_the_failure_workflow_that_its_input_names() -> None:
    clean_up = flows.register(flows.simple("clean"))
    run = flows.start(
        flows.register(
            flows.simple("a"), timeoutSeconds=600, timeoutPolicy="TIME_OUT_WF", failureWorkflow="${workflow.input.after}"
        ),
        {"after": clean_up},
    )
    flows.drain()
    fire(run, "WORKFLOW")
    assert Execution.objects.get(id=Execution.objects.get(id=run).failure_workflow_id).name == clean_up


def test_a_branch_that_is_late_and_only_alerts_keeps_its_join_waiting() -> None:
    late, other = flows.unique("late"), flows.unique("other")
    definitions.register_tasks(flows.NAMESPACE, [{"name": late, "timeoutSeconds": 600, "timeoutPolicy": "ALERT_ONLY"}])
    run = flows.start(flows.register(*flows.fork("f", [flows.simple("a", late)], [flows.simple("b", other)])))
    flows.drain()
    (task,) = flows.lease_all(late, 1)
    fire(run, "TASK")
    flows.finish([other])
    assert (flows.statuses(run)["f_join"], flows.status(run), alerts(run)) == ("IN_PROGRESS", "RUNNING", ["TASK_TIMEOUT"])
    flows.complete([task])
    flows.drain()
    assert (flows.statuses(run)["f_join"], flows.status(run)) == ("COMPLETED", "COMPLETED")


@pytest.mark.parametrize("type_", ["HUMAN", "WAIT", "SUB_WORKFLOW"])
def test_tasks_that_wait_have_deadlines_too_and_a_child_is_stopped_with_its_task(type_: str) -> None:
    name = flows.unique("waits")
    definitions.register_tasks(flows.NAMESPACE, [{"name": name, "timeoutSeconds": 600, "timeoutPolicy": "TIME_OUT_WF"}])
    leaf = flows.register(flows.simple("leaf", flows.unique("never")))
    task = {"name": name, "taskReferenceName": "t", "type": type_, "optional": True}
    if type_ == "SUB_WORKFLOW":
        task["subWorkflowParam"] = {"name": leaf}
    run = flows.start(flows.register(task))
    flows.drain()
    fire(run, "TASK")
    assert (flows.statuses(run)["t"], flows.status(run)) == ("TIMED_OUT", "TIMED_OUT")
    if type_ == "SUB_WORKFLOW":
        assert Execution.objects.get(parent_workflow_id=run).status == "TERMINATED"
    assert clean() == {}


def test_a_child_whose_task_is_tried_again_after_a_time_out_is_stopped() -> None:
    name = flows.unique("waits")
    policy = {"timeoutSeconds": 600, "timeoutPolicy": "RETRY", "retryCount": 1, "retryDelaySeconds": 0}
    definitions.register_tasks(flows.NAMESPACE, [{"name": name, **policy}])
    leaf = flows.register(flows.simple("leaf", flows.unique("never")))
    run = flows.start(
        flows.register(
            {"name": name, "taskReferenceName": "t", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": leaf}}
        )
    )
    flows.drain()
    fire(run, "TASK")
    children = [child.status for child in Execution.objects.filter(parent_workflow_id=run).order_by("id")]
    assert children == ["TERMINATED", "RUNNING"]
    assert clean() == {}


def test_a_task_made_at_run_time_follows_the_policy_of_its_own_definition() -> None:
    queue = flows.unique("q")
    definitions.register_tasks(flows.NAMESPACE, [{"name": queue, "pollTimeoutSeconds": 600, "timeoutPolicy": "ALERT_ONLY"}])
    made = {
        "name": "d", "taskReferenceName": "d", "type": "FORK_JOIN_DYNAMIC", "dynamicForkTasksParam": "t",
        "dynamicForkTasksInputParamName": "i",
        "inputParameters": {
            "t": [flows.simple("x", queue, taskDefinition={"pollTimeoutSeconds": 600, "timeoutPolicy": "ALERT_ONLY"})],
            "i": {},
        },
    }  # fmt: skip
    run = flows.start(flows.register(made, {"name": "j", "taskReferenceName": "j", "type": "JOIN"}))
    flows.drain()
    fire(run, "POLL")
    assert (flows.status(run), alerts(run)) == ("RUNNING", ["POLL_TIMEOUT"])


def test_the_lateness_of_a_firing_is_measured() -> None:
    run = flows.start(
        flows.register({"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1h"}})
    )
    flows.drain()
    before = render().count(b'ostinato_timer_lateness_seconds_count{kind="WAIT"}')
    fire(run, "WAIT")
    assert before in (0, 1)
    assert b'ostinato_timer_lateness_seconds_count{kind="WAIT"}' in render()
    assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-13")
def test_a_timer_that_throws_stands_alone_and_is_put_aside(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "DECIDE_MAX_ATTEMPTS": 1}
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1h"}}
    name = flows.register(wait)
    runs = [flows.start(name) for _ in range(5)]
    flows.drain()
    real = timers._fire

    def fire_some(timer: Any) -> None:
        if timer.workflow_id == runs[2]:
            raise ValueError("stopped clock")
        real(timer)

    for timer in Timer.objects.all():
        flows.hurry(timer)
    monkeypatch.setattr(timers, "_fire", fire_some)
    assert timers.fire_next_batch() == 4
    flows.drain()
    assert [flows.status(run) for run in runs].count("COMPLETED") == 4
    timer = Timer.objects.get()
    assert (timer.workflow_id, timer.quarantined, timer.last_error) == (runs[2], True, "ValueError: stopped clock")


@pytest.mark.invariant("INV-13")
def test_eight_timekeepers_fire_each_timer_once() -> None:
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1h"}}
    name = flows.register(wait)
    runs = [flows.start(name) for _ in range(20)]
    flows.drain()
    for timer in Timer.objects.all():
        flows.hurry(timer)
    fired = race(8, lambda _: timers.fire_next_batch())
    assert sum(n for n in fired if isinstance(n, int)) == 20, fired
    flows.drain()
    assert {flows.status(run) for run in runs} == {"COMPLETED"}
    assert clean() == {}


@pytest.mark.invariant("INV-7b")
def test_a_completion_that_is_under_way_is_waited_for_and_wins() -> None:
    run, queue = started(timeoutSeconds=600, timeoutPolicy="TIME_OUT_WF")
    (task,) = flows.lease_all(queue, 1)
    flows.hurry(Timer.objects.get(workflow_id=run, kind="TASK"))
    with transaction():
        DecideQueue.sql.enqueue([run])
        firing = Contender(timers.fire_next_batch).until_blocked()
        end_tasks([TaskEnd(task.id, run, "COMPLETED", {})])
    firing.result()
    flows.drain()
    assert (flows.statuses(run), flows.status(run)) == ({"a": "COMPLETED"}, "COMPLETED")


@pytest.mark.invariant("INV-13")
def test_a_lost_connection_is_not_the_timers_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = started(pollTimeoutSeconds=100, timeoutPolicy="ALERT_ONLY")
    timer = Timer.objects.get(workflow_id=run, kind="POLL")
    flows.hurry(timer)
    before = Timer.objects.get(id=timer.id).attempts
    fire_really = timers._fire

    def cut(due: DueTimer) -> None:
        own = connection.connection.execute("SELECT pg_backend_pid()").fetchone()
        with observer() as other:
            other.execute("SELECT pg_terminate_backend(%s)", own)
        fire_really(due)

    monkeypatch.setattr(timers, "_fire", cut)
    with pytest.raises((OperationalError, InterfaceError)):
        timers.fire_next_batch()
    connection.close()
    assert Timer.objects.get(id=timer.id).attempts == before
    monkeypatch.undo()
    assert timers.fire_next_batch() == 1
    assert alerts(run) == ["POLL_TIMEOUT"]
