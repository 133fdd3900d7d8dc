"""Operator actions on real runs: what each does, what it refuses, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from dispatch.models import QueuedTask
from orchestrator.db.ids import new_id
from orchestrator.errors import IllegalState, Invalid, NotFound
from orchestrator.models import AuditEntry
from outbox.models import OutboxEvent
from tests import flows
from tests.flows import child, complete, drain, fork, lease, register, simple, start, status, statuses, unique
from workflows.models import DecideQueue, Execution, HistoryEvent, Task, TaskLog, Timer
from workflows.services import control, definitions

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE
WHO = {"actor": "ann"}


def one(queue: str, outcome: str = "COMPLETED", **output: Any) -> None:
    """Lease and report exactly one task of a queue, then let everything settle."""
    tasks = lease(queue)
    assert len(tasks) == 1, f"expected one task on {queue}, found {len(tasks)}"
    complete(tasks, output or None, outcome)
    drain()


def fail(queue: str) -> None:
    one(queue, "FAILED_WITH_TERMINAL_ERROR")


def running(*tasks: dict[str, Any], **fields: Any) -> UUID:
    run = start(register(*tasks, **fields))
    drain()
    return run


def events(run: UUID) -> list[str]:
    return list(HistoryEvent.objects.filter(workflow_id=run).order_by("seq").values_list("type", flat=True))


def audit(run: UUID) -> list[tuple[str, str]]:
    return list(AuditEntry.objects.filter(target=str(run)).order_by("id").values_list("action", "outcome"))


def task_of(run: UUID, ref: str, iteration: str = "") -> Task:
    return Task.objects.filter(workflow_id=run, ref=ref, iteration=iteration).order_by("-attempt")[0]


def attempts(run: UUID, ref: str) -> int:
    return Task.objects.filter(workflow_id=run, ref=ref).count()


def names(*refs: str) -> dict[str, str]:
    """ref -> a queue of its own."""
    return {ref: unique(ref) for ref in refs}


# Pause, resume


def test_a_paused_run_schedules_nothing_and_resume_wakes_what_ended_meanwhile() -> None:
    q = names("a", "b")
    run = running(simple("a", q["a"]), simple("b", q["b"]))
    control.pause(NS, run, **WHO)
    control.pause(NS, run, **WHO)
    one(q["a"])
    assert (status(run), statuses(run)) == ("PAUSED", {"a": "COMPLETED"})
    control.resume(NS, run, **WHO)
    drain()
    assert statuses(run) == {"a": "COMPLETED", "b": "SCHEDULED"}
    one(q["b"])
    assert status(run) == "COMPLETED"
    assert [e for e in events(run) if e in ("workflow.paused", "workflow.resumed")] == [
        "workflow.paused",
        "workflow.resumed",
    ]


@pytest.mark.parametrize(
    "action",
    [control.pause, control.resume, control.retry, control.restart, control.rerun, control.remove, control.terminate],
)
def test_each_action_is_refused_for_an_unknown_run_and_in_another_namespace(action: Callable[..., Any]) -> None:
    run = running(simple("a", unique("a")))
    for namespace, target in ((NS, new_id()), ("elsewhere", run)):
        with pytest.raises(NotFound, match=f"No such workflow found by id: {target}"):
            action(namespace, target, **WHO)
    assert status(run) == "RUNNING"
    assert audit(run) == [(f"workflow.{action.__name__}", "refused")]


def test_refusals_say_the_status_and_what_is_allowed_and_are_audited() -> None:
    q = names("a")
    run = running(simple("a", q["a"]))
    for action in (control.resume, control.retry, control.restart, control.rerun, control.remove):
        with pytest.raises(IllegalState, match=r"is RUNNING: .* Allowed now: .*pause"):
            action(NS, run, **WHO)
    one(q["a"])
    for action in (control.pause, control.resume, control.terminate, control.retry):
        with pytest.raises(IllegalState, match=r"is COMPLETED: .* Allowed now: restart, rerun"):
            action(NS, run, **WHO)
    assert {outcome for _, outcome in audit(run)} == {"refused"}
    assert len(audit(run)) == 9


def test_available_actions_follow_the_status() -> None:
    assert "pause" in control.available_actions("RUNNING")
    assert "pause" not in control.available_actions("PAUSED")
    assert "resume" in control.available_actions("PAUSED")
    assert control.available_actions("COMPLETED") == ("restart", "rerun", "remove", "terminate_remove")
    assert "retry" in control.available_actions("FAILED")


# Terminate


@pytest.mark.invariant("INV-11")
def test_terminate_leaves_nothing_live_and_cascades() -> None:
    q = names("a", "inner")
    sub = register(simple("inner", q["inner"]))
    branches = fork("f", [simple("a", q["a"])], [{"name": "w", "taskReferenceName": "w", "type": "WAIT",
                    "inputParameters": {"duration": "1 hour"}}], [child("c", sub)])  # fmt: skip
    run = running(*branches, timeoutSeconds=3600, timeoutPolicy="TIME_OUT_WF")
    inner = task_of(run, "c").sub_workflow_id
    assert inner is not None
    lease(q["a"])
    control.terminate(NS, run, reason="enough", **WHO)
    assert status(run) == "TERMINATED"
    assert Execution.objects.get(id=run).reason == "enough"
    assert not QueuedTask.objects.filter(workflow_id=run).exists()
    assert not Timer.objects.filter(workflow_id=run).exists()
    assert not Task.objects.filter(workflow_id=run, ended_at=None).exists()
    drain()
    assert status(inner) == "TERMINATED"
    assert not QueuedTask.objects.exists()
    control.terminate(NS, run, **WHO)
    assert audit(run) == [("workflow.terminate", "done")] * 2


def test_a_terminated_child_reports_to_its_parent() -> None:
    q = names("inner")
    run = running(child("c", register(simple("inner", q["inner"]))))
    inner = task_of(run, "c").sub_workflow_id
    assert inner is not None
    control.terminate(NS, inner, reason="stop", **WHO)
    drain()
    assert (statuses(run), status(run)) == ({"c": "CANCELED"}, "TERMINATED")


def test_a_failed_run_may_be_relabelled_terminated() -> None:
    q = names("a")
    run = running(simple("a", q["a"]))
    fail(q["a"])
    control.terminate(NS, run, reason="given up", **WHO)
    assert status(run) == "TERMINATED"


# Retry


def test_retry_makes_a_new_attempt_of_the_failed_task_only() -> None:
    q = names("a", "b", "c")
    run = running(*(simple(ref, q[ref]) for ref in "abc"), timeoutSeconds=600)
    one(q["a"])
    fail(q["b"])
    assert (status(run), Timer.objects.filter(workflow_id=run).count()) == ("FAILED", 0)
    assert control.preview_retry(NS, run) == control.Preview(run, ("b",), kept=("a",))
    control.retry(NS, run, **WHO)
    row = task_of(run, "b")
    assert (row.attempt, row.status, attempts(run, "a")) == (1, "SCHEDULED", 1)
    assert row.retried_task_id == Task.objects.get(workflow_id=run, ref="b", attempt=0).id
    assert Timer.objects.filter(workflow_id=run, kind="WORKFLOW").count() == 1
    one(q["b"])
    one(q["c"])
    assert status(run) == "COMPLETED"
    assert "workflow.retried" in events(run)


def test_retry_through_a_fork_keeps_arrivals_and_restores_cancelled_branches() -> None:
    q = names("a", "b", "c", "d", "z")
    run = running(
        *fork("f", [simple("a", q["a"])], [simple("b", q["b"])], [simple("c", q["c"]), simple("d", q["d"])]),
        simple("z", q["z"]),
    )
    one(q["a"])
    one(q["c"])
    fail(q["b"])
    assert statuses(run)["d"] == "CANCELED"
    plan = control.preview_retry(NS, run)
    assert (set(plan.runs_again), plan.reopened) == ({"b", "d"}, ("f_join",))
    assert {"a", "c"} <= set(plan.kept)
    control.retry(NS, run, **WHO)
    drain()
    assert task_of(run, "f_join").state["left"] == 2
    one(q["b"])
    assert "z" not in statuses(run)
    one(q["d"])
    assert statuses(run)["f_join"] == "COMPLETED"
    assert (attempts(run, "a"), attempts(run, "c"), attempts(run, "f_join")) == (1, 1, 1)
    one(q["z"])
    assert status(run) == "COMPLETED"


def test_two_failing_branches_can_be_retried_again_and_again() -> None:
    q = names("a", "b")
    run = running(*fork("f", [simple("a", q["a"])], [simple("b", q["b"])]))
    for _ in range(3):
        fail(q["b"])
        assert status(run) == "FAILED"
        control.retry(NS, run, **WHO)
        drain()
    one(q["a"])
    one(q["b"])
    assert (status(run), attempts(run, "a"), attempts(run, "b")) == ("COMPLETED", 4, 4)


def test_a_completion_that_no_pass_had_consumed_is_counted_after_the_retry() -> None:
    q = names("a", "b")
    run = running(*fork("f", [simple("a", q["a"])], [simple("b", q["b"])]))
    complete(lease(q["b"]), status="FAILED_WITH_TERMINAL_ERROR")
    complete(lease(q["a"]))
    drain()
    assert status(run) == "FAILED"
    control.retry(NS, run, **WHO)
    drain()
    one(q["b"])
    assert (status(run), attempts(run, "a")) == ("COMPLETED", 1)


LOOP = "if ($.l['iteration'] < 3) { true; } else { false; }"


def loop(*body: dict[str, Any], condition: str = LOOP) -> dict[str, Any]:
    return {
        "name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": condition, "loopOver": list(body),
        "inputParameters": {},
    }  # fmt: skip


def test_retry_inside_a_loop_goes_on_in_its_turn() -> None:
    q = names("a", "b", "z")
    run = running(loop(simple("a", q["a"]), simple("b", q["b"])), simple("z", q["z"]))
    one(q["a"])
    one(q["b"])
    one(q["a"])
    fail(q["b"])
    assert (status(run), statuses(run)["l"]) == ("FAILED", "CANCELED")
    control.retry(NS, run, **WHO)
    drain()
    assert (task_of(run, "l").status, attempts(run, "a")) == ("IN_PROGRESS", 2)
    one(q["b"])
    one(q["a"])
    one(q["b"])
    one(q["z"])
    assert status(run) == "COMPLETED"
    assert sorted(Task.objects.filter(workflow_id=run, ref="b").values_list("iteration", "attempt")) == [
        ("1", 0), ("2", 0), ("2", 1), ("3", 0),
    ]  # fmt: skip
    assert {"1", "2", "3"} <= set(task_of(run, "l").output)


def test_retry_of_a_fork_in_a_switch_in_a_loop() -> None:
    q = names("a", "b")
    switch = {
        "name": "s", "taskReferenceName": "s", "type": "SWITCH", "evaluatorType": "value-param", "expression": "k",
        "inputParameters": {"k": "x"},
        "decisionCases": {"x": fork("f", [simple("a", q["a"])], [simple("b", q["b"])])},
    }  # fmt: skip
    run = running(loop(switch, condition="$.l['iteration'] < 2"))
    one(q["a"])
    one(q["b"])
    one(q["a"])
    fail(q["b"])
    control.retry(NS, run, **WHO)
    drain()
    one(q["b"])
    assert (status(run), attempts(run, "a"), attempts(run, "b")) == ("COMPLETED", 2, 3)


def test_retry_of_a_terminated_run_brings_waits_and_timers_back_whole() -> None:
    q = names("a")
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1 hour"}}
    human = {"name": "h", "taskReferenceName": "h", "type": "HUMAN"}
    run = running(*fork("f", [simple("a", q["a"])], [wait], [human]))
    control.terminate(NS, run, **WHO)
    control.retry(NS, run, **WHO)
    assert {k: v for k, v in statuses(run).items() if k in "awh"} == {
        "a": "SCHEDULED",
        "w": "IN_PROGRESS",
        "h": "IN_PROGRESS",
    }
    assert list(Timer.objects.filter(workflow_id=run).values_list("task_id", flat=True)) == [task_of(run, "w").id]
    one(q["a"])
    assert control.complete_task(NS, run, "w", "COMPLETED", {}, **WHO) == task_of(run, "w").id
    control.complete_task(NS, run, "h", "COMPLETED", {"ok": True}, **WHO)
    drain()
    assert status(run) == "COMPLETED"


def test_retry_starts_a_failed_child_anew() -> None:
    q = names("inner")
    run = running(child("c", register(simple("inner", q["inner"]))))
    first = task_of(run, "c").sub_workflow_id
    fail(q["inner"])
    assert status(run) == "FAILED"
    control.retry(NS, run, **WHO)
    drain()
    second = task_of(run, "c").sub_workflow_id
    assert second not in (None, first)
    one(q["inner"])
    assert (status(run), status(first), status(second)) == ("COMPLETED", "FAILED", "COMPLETED")  # type: ignore[arg-type]


def nested(q: dict[str, str]) -> tuple[UUID, UUID, UUID]:
    """A run, its child and its grandchild, which failed; beside the child a branch was cancelled."""
    lowest = register(simple("ok", q["ok"]), simple("bad", q["bad"]))
    middle = register(child("low", lowest), simple("after", q["after"]))
    run = running(*fork("f", [child("mid", middle)], [simple("beside", q["beside"])]), simple("z", q["z"]))
    mid = task_of(run, "mid").sub_workflow_id
    assert mid is not None
    low = task_of(mid, "low").sub_workflow_id
    assert low is not None
    one(q["ok"])
    fail(q["bad"])
    assert [status(r) for r in (run, mid, low)] == ["FAILED"] * 3
    return run, mid, low


@pytest.mark.parametrize("descend", [True, False])
def test_a_retried_grandchild_revives_the_runs_above_it(descend: bool) -> None:
    q = names("ok", "bad", "after", "beside", "z")
    run, mid, low = nested(q)
    if descend:
        control.retry(NS, run, resume_subworkflow_tasks=True, **WHO)
    else:
        control.retry(NS, low, **WHO)
    drain()
    assert [status(r) for r in (run, mid, low)] == ["RUNNING"] * 3
    assert (task_of(run, "mid").sub_workflow_id, task_of(mid, "low").sub_workflow_id) == (mid, low)
    assert attempts(low, "ok") == 1
    for queue in ("bad", "after", "beside", "z"):
        one(q[queue])
    assert [status(r) for r in (run, mid, low)] == ["COMPLETED"] * 3
    assert attempts(run, "mid") == 1


def test_a_late_cascade_does_not_end_a_child_that_was_retried() -> None:
    q = names("ok", "bad", "after", "beside", "z")
    run, mid, low = nested(q)
    control.retry(NS, low, **WHO)
    control.terminate(NS, run, **WHO)
    drain()
    assert [status(r) for r in (run, mid, low)] == ["TERMINATED"] * 3
    late = OutboxEvent.objects.filter(topic="workflow.terminate").order_by("id")
    payloads = [(event.namespace, event.payload) for event in late]
    control.retry(NS, low, **WHO)
    from workflows.services import children

    for namespace, payload in payloads:
        children.terminate(namespace, payload)
    drain()
    assert [status(r) for r in (run, mid, low)] == ["RUNNING"] * 3


def test_a_run_ended_by_terminate_is_not_retried() -> None:
    q = names("a")
    end = {
        "name": "t",
        "taskReferenceName": "t",
        "type": "TERMINATE",
        "inputParameters": {"terminationStatus": "FAILED"},
    }
    run = running(simple("a", q["a"]), end)
    one(q["a"])
    with pytest.raises(IllegalState, match="TERMINATE task t"):
        control.retry(NS, run, **WHO)
    control.rerun(NS, run, task_id=task_of(run, "a").id, **WHO)
    one(q["a"])
    assert status(run) == "FAILED"


def test_a_permissive_failure_that_ended_the_run_is_retried_with_what_came_behind_it() -> None:
    q = names("p", "a")
    run = running(simple("p", q["p"], permissive=True), simple("a", q["a"]))
    fail(q["p"])
    one(q["a"])
    assert status(run) == "FAILED"
    control.retry(NS, run, **WHO)
    one(q["p"])
    one(q["a"])
    assert (status(run), attempts(run, "p"), attempts(run, "a")) == ("COMPLETED", 2, 1)


def dynamic(q: dict[str, str], *refs: str) -> list[dict[str, Any]]:
    """A fork that makes its branches at run time, and its join."""
    spec = {
        "name": "f", "taskReferenceName": "f", "type": "FORK_JOIN_DYNAMIC",
        "dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "inputs",
        "inputParameters": {
            "tasks": [simple(ref, q[ref]) for ref in refs], "inputs": {ref: {"n": ref} for ref in refs},
        },
    }  # fmt: skip
    return [spec, {"name": "j", "taskReferenceName": "j", "type": "JOIN"}]


def test_retry_and_rerun_of_branches_made_at_run_time() -> None:
    q = names("a", "b", "c", "z")
    run = running(*dynamic(q, "a", "b", "c"), simple("z", q["z"]))
    one(q["a"])
    fail(q["b"])
    assert [statuses(run)[ref] for ref in "jabc"] == ["CANCELED", "COMPLETED", "FAILED_WITH_TERMINAL_ERROR", "CANCELED"]
    control.retry(NS, run, **WHO)
    drain()
    assert (task_of(run, "j").state["left"], task_of(run, "b").input) == (2, {"n": "b"})
    one(q["b"])
    one(q["c"])
    one(q["z"])
    assert status(run) == "COMPLETED"
    control.rerun(NS, run, task_id=task_of(run, "b").id, task_input={"n": "again"}, **WHO)
    drain()
    assert [statuses(run)[ref] for ref in "jabc"] == ["IN_PROGRESS", "COMPLETED", "SCHEDULED", "COMPLETED"]
    assert (task_of(run, "b").input, "z" in statuses(run)) == ({"n": "again"}, False)
    one(q["b"])
    one(q["z"])
    assert (status(run), set(task_of(run, "j").output)) == ("COMPLETED", {"a", "b", "c"})


def test_a_dynamic_fork_that_a_branch_cut_short_is_made_anew() -> None:
    q = names("a", "b")
    tasks = dynamic(q, "a", "b")
    given = tasks[0]["inputParameters"]
    given["tasks"][0] = {"name": "a", "taskReferenceName": "a", "type": "WAIT"}
    given["inputs"]["a"] = {"duration": "${workflow.input.d}"}
    run = start(register(*tasks), {"d": "not a duration"})
    drain()
    assert (status(run), set(statuses(run))) == ("FAILED", {"f", "j", "a"})
    control.rerun(NS, run, task_id=task_of(run, "a").id, workflow_input={"d": "1 hour"}, **WHO)
    drain()
    assert [statuses(run)[ref] for ref in "ab"] == ["IN_PROGRESS", "SCHEDULED"]
    control.complete_task(NS, run, "a", "COMPLETED", {}, **WHO)
    one(q["b"])
    assert status(run) == "COMPLETED"


def test_branches_that_a_failing_neighbour_kept_from_starting_start_after_all() -> None:
    q = names("b", "c")
    wait = {
        "name": "w",
        "taskReferenceName": "w",
        "type": "WAIT",
        "inputParameters": {"duration": "${workflow.input.d}"},
    }
    run = start(register(*fork("f", [wait], [simple("b", q["b"])], [simple("c", q["c"])])), {"d": "soon"})
    drain()
    assert (status(run), set(statuses(run))) == ("FAILED", {"f", "f_join", "w"})
    control.retry(NS, run, **WHO)
    drain()
    assert (status(run), attempts(run, "w")) == ("FAILED", 2), "the mistake is still there, and nothing hangs"
    control.rerun(NS, run, task_id=task_of(run, "w").id, workflow_input={"d": "1 hour"}, **WHO)
    drain()
    assert [statuses(run)[ref] for ref in "wbc"] == ["IN_PROGRESS", "SCHEDULED", "SCHEDULED"]
    control.complete_task(NS, run, "w", "COMPLETED", {}, **WHO)
    one(q["b"])
    one(q["c"])
    assert status(run) == "COMPLETED"


def test_a_loop_whose_condition_failed_is_evaluated_again() -> None:
    q = names("a")
    run = running(loop(simple("a", q["a"]), condition="$.missing.field > 2"))
    one(q["a"])
    assert (status(run), statuses(run)["l"]) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR")
    control.retry(NS, run, **WHO)
    drain()
    assert (status(run), attempts(run, "a"), attempts(run, "l")) == ("FAILED", 1, 1)


def test_a_joinon_of_some_branches_keeps_its_books_over_a_retry() -> None:
    q = names("a", "b", "z")
    tasks = fork("f", [simple("a", q["a"])], [simple("b", q["b"])])
    tasks[1]["joinOn"] = ["a"]
    run = running(*tasks, simple("z", q["z"]))
    fail(q["b"])
    control.retry(NS, run, **WHO)
    drain()
    assert task_of(run, "f_join").state == {"left": 2, "pending": ["a"]}
    one(q["a"])
    one(q["z"])
    assert status(run) == "RUNNING"
    fail(q["b"])
    assert status(run) == "FAILED"
    control.retry(NS, run, **WHO)
    drain()
    one(q["b"])
    assert (status(run), attempts(run, "z"), attempts(run, "a")) == ("COMPLETED", 1, 2)


# Restart, rerun


def test_restart_wipes_the_tasks_and_keeps_id_and_history() -> None:
    q = names("a", "b")
    run = running(simple("a", q["a"]), simple("b", q["b"]))
    before = task_of(run, "a").id
    one(q["a"])
    fail(q["b"])
    seen = len(events(run))
    control.restart(NS, run, **WHO)
    drain()
    assert (status(run), statuses(run)) == ("RUNNING", {"a": "SCHEDULED"})
    assert task_of(run, "a").id != before
    assert len(events(run)) > seen
    one(q["a"])
    one(q["b"])
    assert status(run) == "COMPLETED"


def test_restart_runs_the_old_definition_unless_the_latest_is_asked_for() -> None:
    q = names("a", "b")
    name = register(simple("a", q["a"]))
    run = start(name)
    drain()
    one(q["a"])
    register(simple("b", q["b"]), name=name)
    control.restart(NS, run, **WHO)
    drain()
    assert statuses(run) == {"a": "SCHEDULED"}
    one(q["a"])
    control.restart(NS, run, use_latest_definitions=True, **WHO)
    drain()
    assert statuses(run) == {"b": "SCHEDULED"}


def test_a_restarted_child_is_not_absorbed_by_the_one_before() -> None:
    q = names("inner")
    run = running(child("c", register(simple("inner", q["inner"]))))
    one(q["inner"])
    assert status(run) == "COMPLETED"
    control.restart(NS, run, **WHO)
    drain()
    one(q["inner"])
    assert status(run) == "COMPLETED"


def test_a_completed_child_that_is_restarted_takes_its_parent_back() -> None:
    q = names("inner", "z")
    run = running(child("c", register(simple("inner", q["inner"]))), simple("z", q["z"]))
    inner = task_of(run, "c").sub_workflow_id
    assert inner is not None
    one(q["inner"])
    one(q["z"])
    assert status(run) == "COMPLETED"
    control.restart(NS, inner, **WHO)
    drain()
    assert statuses(run) == {"c": "IN_PROGRESS"}
    one(q["inner"])
    one(q["z"])
    assert status(run) == "COMPLETED"


def test_rerun_from_a_task_in_a_branch_leaves_the_other_branches_alone() -> None:
    q = names("a", "b", "c", "d", "z")
    run = running(
        *fork("f", [simple("a", q["a"]), simple("b", q["b"])], [simple("c", q["c"]), simple("d", q["d"])]),
        simple("z", q["z"]),
    )
    for ref in "abcdz":
        one(q[ref])
    assert status(run) == "COMPLETED"
    kept = {ref: task_of(run, ref).id for ref in "acd"}
    target = task_of(run, "b").id
    plan = control.preview_rerun(NS, run, target)
    assert (plan.runs_again, plan.reopened, plan.deleted) == (("b",), ("f_join",), ("z",))
    control.rerun(NS, run, task_id=target, task_input={"by": "hand"}, **WHO)
    drain()
    assert {ref: task_of(run, ref).id for ref in "acd"} == kept
    assert (task_of(run, "b").input, statuses(run)["f_join"]) == ({"by": "hand"}, "IN_PROGRESS")
    one(q["b"])
    assert statuses(run)["f_join"] == "COMPLETED"
    one(q["z"])
    assert status(run) == "COMPLETED"


def test_rerun_into_an_earlier_turn_of_a_loop() -> None:
    q = names("a", "b")
    run = running(loop(simple("a", q["a"]), simple("b", q["b"])))
    for _ in range(3):
        one(q["a"])
        one(q["b"])
    assert status(run) == "COMPLETED"
    control.rerun(NS, run, task_id=task_of(run, "b", "2").id, **WHO)
    drain()
    assert set(statuses(run)) == {"l", "a@1", "b@1", "a@2", "b@2"}
    assert set(task_of(run, "l").output) == {"1", "iteration"}
    one(q["b"])
    one(q["a"])
    one(q["b"])
    assert status(run) == "COMPLETED"
    assert set(task_of(run, "l").output) == {"1", "2", "3", "iteration"}


def test_rerun_of_a_container_takes_its_contents_back() -> None:
    q = names("a", "b", "c")
    run = running(simple("a", q["a"]), *fork("f", [simple("b", q["b"])], [simple("c", q["c"])]))
    for ref in "abc":
        one(q[ref])
    control.rerun(NS, run, task_id=task_of(run, "f").id, **WHO)
    drain()
    assert {k: v for k, v in statuses(run).items() if k in "abc"} == {
        "a": "COMPLETED",
        "b": "SCHEDULED",
        "c": "SCHEDULED",
    }
    one(q["b"])
    one(q["c"])
    assert status(run) == "COMPLETED"


def test_rerun_from_a_join_closes_it_again() -> None:
    q = names("a", "z")
    run = running(*fork("f", [simple("a", q["a"])], []), simple("z", q["z"]))
    one(q["a"])
    one(q["z"])
    control.rerun(NS, run, task_id=task_of(run, "f_join").id, **WHO)
    drain()
    assert statuses(run)["f_join"] == "COMPLETED"
    one(q["z"])
    assert status(run) == "COMPLETED"


@pytest.mark.invariant("INV-8")
def test_rerun_of_the_last_join_leaves_nothing_to_do_but_the_proof() -> None:
    q = names("a")
    run = running(*fork("f", [simple("a", q["a"])]))
    one(q["a"])
    control.rerun(NS, run, task_id=task_of(run, "f_join").id, **WHO)
    drain()
    assert (status(run), attempts(run, "a")) == ("COMPLETED", 1), "a run without a frontier is not one without tasks"


def test_rerun_without_a_task_starts_over_with_other_input() -> None:
    q = names("a")
    run = running(simple("a", q["a"], inputParameters={"x": "${workflow.input.x}"}))
    one(q["a"])
    control.rerun(NS, run, workflow_input={"x": 7}, correlation_id="again", **WHO)
    drain()
    assert (task_of(run, "a").input, Execution.objects.get(id=run).correlation_id) == ({"x": 7}, "again")


def test_rerun_of_a_task_of_a_grandchild_by_the_top_run() -> None:
    q = names("ok", "bad", "after", "beside", "z")
    run, mid, low = nested(q)
    assert control.rerun(NS, run, task_id=task_of(low, "ok").id, **WHO) == low
    drain()
    assert [status(r) for r in (run, mid, low)] == ["RUNNING"] * 3
    for queue in ("ok", "bad", "after", "beside", "z"):
        one(q[queue])
    assert [status(r) for r in (run, mid, low)] == ["COMPLETED"] * 3


def test_rerun_of_a_child_task_starts_a_fresh_child() -> None:
    q = names("inner")
    run = running(child("c", register(simple("inner", q["inner"]))))
    first = task_of(run, "c").sub_workflow_id
    one(q["inner"])
    control.rerun(NS, run, task_id=task_of(run, "c").id, task_input={"n": 1}, **WHO)
    drain()
    second = task_of(run, "c").sub_workflow_id
    assert second not in (None, first)
    assert Execution.objects.get(id=second).input == {"n": 1}
    one(q["inner"])
    assert status(run) == "COMPLETED"


@pytest.mark.parametrize(
    ("type_", "given", "queued", "timers"), [
        ("SIMPLE", {}, True, ["POLL"]), ("HTTP", {"uri": "http://x.example"}, True, ["POLL"]),
        ("JSON_JQ_TRANSFORM", {"queryExpression": "."}, True, ["POLL"]),
        ("INLINE", {"evaluatorType": "javascript", "expression": "1"}, True, ["POLL"]),
        ("WAIT", {"duration": "1h"}, False, ["TASK", "WAIT"]), ("WAIT", {}, False, ["TASK"]),
        ("HUMAN", {}, False, ["TASK"]), ("YIELD", {}, False, ["TASK"]),
        ("WAIT_FOR_WEBHOOK", {"webhook": "x"}, False, ["TASK"]),
    ],
)  # fmt: skip
def test_rerun_brings_every_kind_of_task_back_whole(
    type_: str, given: dict[str, Any], queued: bool, timers: list[str]
) -> None:
    name = unique("t")
    definitions.register_tasks(NS, [{"name": name, "pollTimeoutSeconds": 600, "timeoutSeconds": 600}])
    run = running({"name": name, "taskReferenceName": "t", "type": type_, "inputParameters": given})
    first = task_of(run, "t").id
    for _ in range(2):
        control.complete_task(NS, run, "t", "COMPLETED", {}, **WHO)
        drain()
        assert status(run) == "COMPLETED"
        assert not Timer.objects.filter(workflow_id=run).exists()
        control.rerun(NS, run, task_id=task_of(run, "t").id, **WHO)
        drain()
        made = task_of(run, "t")
        assert made.id != first
        assert made.status == ("SCHEDULED" if queued else "IN_PROGRESS")
        assert QueuedTask.objects.filter(id=made.id).exists() == queued
        kinds = Timer.objects.filter(workflow_id=run, task_id=made.id).order_by("kind")
        assert list(kinds.values_list("kind", flat=True)) == timers


def test_rerun_refuses_a_foreign_task_and_input_for_an_operator() -> None:
    q = names("a")
    run = running(simple("a", q["a"]), {"name": "n", "taskReferenceName": "n", "type": "NOOP"})
    one(q["a"])
    with pytest.raises(Invalid):
        control.rerun(NS, run, task_id=new_id(), **WHO)
    with pytest.raises(Invalid):
        control.rerun(NS, run, task_id=task_of(run, "n").id, task_input={"x": 1}, **WHO)
    assert status(run) == "COMPLETED"


# Tasks


def test_a_skipped_task_is_passed_over_when_its_turn_comes_and_not_before() -> None:
    q = names("a", "b", "c")
    run = running(*(simple(ref, q[ref]) for ref in "abc"), outputParameters={"b": "${b.output.x}"})
    control.skip_task(NS, run, "b", output={"x": 5}, **WHO)
    drain()
    assert statuses(run) == {"a": "SCHEDULED", "b": "SKIPPED"}
    one(q["a"])
    assert statuses(run) == {"a": "COMPLETED", "b": "SKIPPED", "c": "SCHEDULED"}
    assert not lease(q["b"])
    one(q["c"])
    assert (status(run), Execution.objects.get(id=run).output) == ("COMPLETED", {"b": 5})


def test_skip_inside_a_loop_means_the_present_turn() -> None:
    q = names("a", "b")
    run = running(loop(simple("a", q["a"]), simple("b", q["b"]), condition="$.l['iteration'] < 2"))
    control.skip_task(NS, run, "b", **WHO)
    one(q["a"])
    one(q["a"])
    one(q["b"])
    assert (status(run), statuses(run)["b@1"], statuses(run)["b@2"]) == ("COMPLETED", "SKIPPED", "COMPLETED")


def test_skips_that_make_no_sense_are_refused() -> None:
    q = names("a")
    noop = {"name": "n", "taskReferenceName": "n", "type": "NOOP"}
    run = running(simple("a", q["a"]), noop)
    with pytest.raises(IllegalState, match="started already"):
        control.skip_task(NS, run, "a", **WHO)
    with pytest.raises(NotFound):
        control.skip_task(NS, run, "nowhere", **WHO)
    with pytest.raises(Invalid):
        control.skip_task(NS, run, "n", **WHO)
    one(q["a"])
    with pytest.raises(IllegalState, match="COMPLETED"):
        control.skip_task(NS, run, "n", **WHO)


def test_a_cancelled_task_ends_the_run_unless_it_is_optional() -> None:
    q = names("a", "b")
    run = running(simple("a", q["a"], optional=True), simple("b", q["b"]))
    control.cancel_task(NS, run, "a", **WHO)
    drain()
    assert statuses(run) == {"a": "COMPLETED_WITH_ERRORS", "b": "SCHEDULED"}
    assert not QueuedTask.objects.filter(queue=q["a"]).exists()
    control.cancel_task(NS, run, "b", **WHO)
    drain()
    assert status(run) == "TERMINATED"


def test_a_cancelled_child_task_ends_its_child() -> None:
    q = names("inner")
    run = running(child("c", register(simple("inner", q["inner"])), optional=True))
    inner = task_of(run, "c").sub_workflow_id
    control.cancel_task(NS, run, "c", **WHO)
    drain()
    assert (status(run), status(inner)) == ("COMPLETED", "TERMINATED")  # type: ignore[arg-type]


def test_complete_task_merges_output_whoever_holds_the_lease() -> None:
    q = names("a")
    run = running(simple("a", q["a"]))
    held = lease(q["a"])
    assert control.complete_task(NS, run, "a", "IN_PROGRESS", {"x": 1, "y": 1}, **WHO) == held[0].id
    assert control.complete_task(NS, run, "a", "COMPLETED", {"y": 2}, **WHO) == held[0].id
    drain()
    assert (status(run), task_of(run, "a").output) == ("COMPLETED", {"x": 1, "y": 2})
    assert control.complete_task(NS, run, "a", "COMPLETED", {}, **WHO) is None
    assert not QueuedTask.objects.exists()
    with pytest.raises(Invalid):
        control.complete_task(NS, run, "a", "DONE", {}, **WHO)


def test_a_join_is_not_completed_by_hand() -> None:
    q = names("a")
    run = running(*fork("f", [simple("a", q["a"])]))
    with pytest.raises(IllegalState, match="is a JOIN"):
        control.complete_task(NS, run, "f_join", "COMPLETED", {}, **WHO)


# The rest


def test_nudge_frees_a_quarantined_run() -> None:
    from orchestrator.db.transactions import transaction

    q = names("a")
    run = start(register(simple("a", q["a"])))
    with transaction():
        DecideQueue.sql.record_failure(run, "boom", max_attempts=1)
    drain()
    assert statuses(run) == {}
    control.nudge(NS, run, **WHO)
    drain()
    assert statuses(run) == {"a": "SCHEDULED"}
    assert "workflow.nudged" in events(run)


def test_remove_leaves_no_row_behind() -> None:
    q = names("a")
    run = running(simple("a", q["a"]), timeoutSeconds=600)
    with pytest.raises(IllegalState):
        control.remove(NS, run, **WHO)
    one(q["a"])
    control.remove(NS, run, **WHO)
    drain()
    for table in (Task, HistoryEvent, TaskLog, Timer, DecideQueue, QueuedTask):
        assert not table.objects.filter(workflow_id=run).exists(), table
    assert not Execution.objects.filter(id=run).exists()
    assert ("workflow.remove", "done") in audit(run)


def test_terminate_remove_tells_parent_and_children_first() -> None:
    q = names("inner")
    middle = register(child("low", register(simple("inner", q["inner"]))))
    run = running(child("mid", middle))
    mid = task_of(run, "mid").sub_workflow_id
    assert mid is not None
    low = task_of(mid, "low").sub_workflow_id
    control.terminate_remove(NS, mid, **WHO)
    drain()
    assert not Execution.objects.filter(id=mid).exists()
    assert (status(run), status(low)) == ("TERMINATED", "TERMINATED")  # type: ignore[arg-type]


def test_variables_are_merged_and_seen_by_later_tasks() -> None:
    q = names("a", "b")
    run = running(
        simple("a", q["a"]),
        simple("b", q["b"], inputParameters={"v": "${workflow.variables.v}"}),
        variables={"v": 1, "w": 2},
    )
    control.update_variables(NS, run, {"v": 9}, **WHO)
    one(q["a"])
    assert (task_of(run, "b").input, Execution.objects.get(id=run).variables) == ({"v": 9}, {"v": 9, "w": 2})
    one(q["b"])
    with pytest.raises(IllegalState):
        control.update_variables(NS, run, {"v": 1}, **WHO)


def test_reset_callbacks_delivers_delayed_tasks_now() -> None:
    q = names("a")
    run = running(simple("a", q["a"], startDelay=3600))
    assert not lease(q["a"])
    assert control.reset_callbacks(NS, run, **WHO) == 1
    one(q["a"])
    with pytest.raises(IllegalState):
        control.reset_callbacks(NS, run, **WHO)


def test_bulk_reports_each_run() -> None:
    q = names("a")
    runs = [running(simple("a", q["a"])) for _ in range(2)]
    gone = new_id()
    control.terminate(NS, runs[1], **WHO)
    results = control.bulk(NS, "pause", [runs[0], runs[1], gone, runs[0]], **WHO)
    assert [(r.workflow_id, r.error.code if r.error else None) for r in results] == [
        (runs[0], None), (runs[1], "ILLEGAL_STATE"), (gone, "NOT_FOUND"),
    ]  # fmt: skip
    with pytest.raises(Invalid):
        control.bulk(NS, "explode", runs, **WHO)
