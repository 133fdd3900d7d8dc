"""The inbox through the services: what puts a task in, what takes it out, whose it is, and what its deadline does."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from dispatch.native.handlers import apply_reports
from dispatch.services import dispatching
from dispatch.services.dispatching import TaskReport
from orchestrator.access import Principal
from orchestrator.errors import Conflict, Forbidden, IllegalState, Invalid, NotFound
from orchestrator.models import AuditEntry
from tests import flows
from workflows.managers.human_task import Claimant, InboxFilter, StoredHumanTask
from workflows.models import HistoryEvent, HumanTask, Task, Timer
from workflows.services import control, definitions, human_tasks, timers
from workflows.services.sweeping import invariant_report

pytestmark = pytest.mark.usefixtures("committed")
ANN, BOB, BOSS = Claimant("ann"), Claimant("bob"), Claimant("boss", anyone=True)
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def task(ref: str = "h", **given: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": "HUMAN", "inputParameters": given}


def waiting(*tasks: dict[str, Any], input: dict[str, Any] | None = None, **fields: Any) -> UUID:
    run = flows.start(flows.register(*tasks, **fields), input)
    flows.drain()
    return run


def open_task(run: UUID) -> StoredHumanTask:
    found = human_tasks.get(flows.NAMESPACE, HumanTask.objects.get(workflow_id=run).id)
    assert found.workflow_id == run
    return found


def listed(**wanted: Any) -> list[str]:
    return [found.ref for found in human_tasks.page(flows.NAMESPACE, InboxFilter(**wanted))]


def hurry(run: UUID) -> None:
    flows.hurry(Timer.objects.get(workflow_id=run, kind="DEADLINE"))
    assert timers.fire_next_batch() == 1
    flows.drain()


def clean() -> dict[str, object]:
    return {name: rows for name, rows in invariant_report().items() if rows}


@pytest.mark.invariant("INV-11")
def test_a_task_is_in_the_inbox_from_its_start_to_its_end() -> None:
    run = waiting(task(assignee="ann", candidateGroups=["${workflow.input.team}"], data=5), input={"team": "finance"})
    found = open_task(run)
    assert (found.ref, found.assignee, found.candidate_users, found.candidate_groups) == ("h", "ann", [], ["finance"])
    assert (found.claimed_by, found.due_at) == (None, None)
    assert human_tasks.read_input(found)["data"] == 5
    human_tasks.complete(flows.NAMESPACE, found.id, {"ok": True}, ANN)
    flows.drain()
    assert flows.status(run) == "COMPLETED"
    ended = Task.objects.get(id=found.id)
    assert (ended.output, ended.worker_id) == ({"ok": True}, "ann")
    assert not HumanTask.objects.exists()
    with pytest.raises(IllegalState, match="has ended COMPLETED"):
        human_tasks.complete(flows.NAMESPACE, found.id, {}, ANN)
    with pytest.raises(NotFound):
        human_tasks.claim("another", found.id, ANN)
    assert clean() == {}


@pytest.mark.parametrize("way", ["report", "by ref", "cancel", "jump", "terminate", "time-out"])
def test_whatever_ends_a_task_takes_it_out_of_the_inbox(way: str) -> None:
    name = flows.unique("h")
    policy = {"timeoutSeconds": 600, "timeoutPolicy": "TIME_OUT_WF"} if way == "time-out" else {}
    definitions.register_tasks(flows.NAMESPACE, [{"name": name, "retryCount": 0, **policy}])
    run = waiting({**task(), "name": name}, flows.simple("after"))
    found = open_task(run)
    human_tasks.claim(flows.NAMESPACE, found.id, ANN)
    match way:
        case "report":
            dispatching.report([TaskReport(found.id, run, "COMPLETED", output={"a": 1}, worker_id="sdk")], strict=True)
        case "by ref":
            control.complete_task(flows.NAMESPACE, run, "h", "FAILED", actor="olga", reason="no")
        case "cancel":
            control.cancel_task(flows.NAMESPACE, run, "h", actor="olga")
        case "jump":
            control.jump(flows.NAMESPACE, run, "after", actor="olga")
        case "terminate":
            control.terminate(flows.NAMESPACE, run, actor="olga", reason="enough")
        case "time-out":
            flows.hurry(Timer.objects.get(workflow_id=run, kind="TASK"))
            timers.fire_next_batch()
    flows.drain()
    assert not HumanTask.objects.exists()
    assert clean() == {}


@pytest.mark.invariant("INV-11")
@pytest.mark.parametrize("action", ["retry", "rerun", "restart", "task retry"])
def test_what_brings_a_task_back_brings_its_inbox_row_and_deadline_back(action: str) -> None:
    name = flows.unique("h")
    retries = {"retryCount": 1, "retryDelaySeconds": 0} if action == "task retry" else {"retryCount": 0}
    definitions.register_tasks(flows.NAMESPACE, [{"name": name, **retries}])
    run = waiting({**task(assignee="ann", deadlineSeconds=600, escalateTo="bob"), "name": name})
    first = open_task(run)
    control.complete_task(flows.NAMESPACE, run, "h", "FAILED", actor="olga", reason="no")
    flows.drain()
    if action == "retry":
        control.retry(flows.NAMESPACE, run, actor="olga")
    elif action == "restart":
        control.restart(flows.NAMESPACE, run, actor="olga")
    elif action == "rerun":
        control.rerun(flows.NAMESPACE, run, actor="olga", task_id=first.id)
    flows.drain()
    again = open_task(run)
    assert (again.id != first.id, again.assignee, again.claimed_by) == (True, "ann", None)
    assert Timer.objects.get(workflow_id=run, kind="DEADLINE").task_id == again.id
    assert clean() == {}


def test_a_rerun_with_other_input_is_for_whom_that_says() -> None:
    run = waiting(task(assignee="ann", deadlineSeconds=600))
    control.terminate(flows.NAMESPACE, run, actor="olga", reason="wrong person")
    ended = Task.objects.get(workflow_id=run).id
    with pytest.raises(Invalid) as refused:
        control.rerun(flows.NAMESPACE, run, actor="olga", task_id=ended, task_input={"assignee": 5})
    assert refused.value.problems[0][0] == "taskInput"
    control.rerun(flows.NAMESPACE, run, actor="olga", task_id=ended, task_input={"assignee": "bob"})
    flows.drain()
    assert (open_task(run).assignee, open_task(run).due_at) == ("bob", None)
    assert not Timer.objects.filter(workflow_id=run).exists()


def test_a_task_that_says_nonsense_fails_with_what_was_expected() -> None:
    run = waiting(task(assignee="${workflow.input.who}"), input={"who": {"name": "ann"}})
    assert flows.status(run) == "FAILED"
    assert "assignee: expected a name" in (Task.objects.get(workflow_id=run).reason or "")
    assert not HumanTask.objects.exists()


def test_those_may_claim_whose_task_it_is() -> None:
    anyones = open_task(waiting(task())).id
    anns = open_task(waiting(task(assignee="ann"))).id
    offered = open_task(waiting(task(candidateUsers=["ann"], candidateGroups=["finance"]))).id
    for refused in (anns, offered):
        with pytest.raises(Forbidden, match="neither its assignee nor a candidate"):
            human_tasks.claim(flows.NAMESPACE, refused, BOB)
    assert human_tasks.claim(flows.NAMESPACE, anyones, BOB).claimed_by == "bob"
    assert human_tasks.claim(flows.NAMESPACE, anns, BOSS).claimed_by == "boss"
    assert human_tasks.claim(flows.NAMESPACE, offered, Claimant("carl", ("sales", "finance"))).claimed_by == "carl"


def test_a_claim_holds_until_it_is_given_up_or_taken_away() -> None:
    found = open_task(waiting(task()))
    held = human_tasks.claim(flows.NAMESPACE, found.id, ANN)
    assert human_tasks.claim(flows.NAMESPACE, found.id, ANN) == held, "whoever holds it may claim it again"
    for refused in (human_tasks.claim, human_tasks.release):
        with pytest.raises(Conflict, match="claimed by ann"):
            refused(flows.NAMESPACE, found.id, BOB)
    with pytest.raises(Conflict, match="claimed by ann"):
        human_tasks.complete(flows.NAMESPACE, found.id, {}, BOSS)
    assert human_tasks.release(flows.NAMESPACE, found.id, ANN).claimed_by is None
    with pytest.raises(Conflict, match="not claimed"):
        human_tasks.release(flows.NAMESPACE, found.id, ANN)
    human_tasks.claim(flows.NAMESPACE, found.id, ANN)
    given = human_tasks.reassign(flows.NAMESPACE, found.id, {"candidateUsers": ["bob"]}, BOSS)
    assert (given.claimed_by, given.assignee, given.candidate_users) == (None, None, ["bob"])
    with pytest.raises(Forbidden):
        human_tasks.complete(flows.NAMESPACE, found.id, {}, ANN)
    human_tasks.complete(flows.NAMESPACE, found.id, {}, BOB)
    said = [(e.actor, e.action, e.outcome) for e in AuditEntry.objects.order_by("id") if e.outcome == "done"]
    assert [one[:2] for one in said][-4:] == [
        ("ann", "workflow.release_task"), ("ann", "workflow.claim_task"), ("boss", "workflow.reassign_task"),
        ("bob", "workflow.complete_task"),
    ]  # fmt: skip
    assert AuditEntry.objects.filter(outcome="refused", actor="bob", action="workflow.claim_task").exists()


@pytest.mark.parametrize("given", [{}, {"assignee": ""}, {"assignee": 5}, {"candidateUsers": "ann"}, {"candidateUsers": []}])
def test_a_reassignment_to_nobody_is_refused(given: dict[str, Any]) -> None:
    found = open_task(waiting(task(assignee="ann")))
    with pytest.raises(Invalid):
        human_tasks.reassign(flows.NAMESPACE, found.id, given, BOSS)
    assert human_tasks.get(flows.NAMESPACE, found.id) == found


@pytest.mark.parametrize("way", ["inbox", "report", "by ref"])
def test_an_answer_that_does_not_fit_the_form_leaves_the_task_open(way: str) -> None:
    run = waiting(task(form=FORM))
    found = open_task(run)

    def answer(output: dict[str, Any]) -> None:
        if way == "inbox":
            human_tasks.complete(flows.NAMESPACE, found.id, output, ANN)
        elif way == "report":
            dispatching.report([TaskReport(found.id, run, "COMPLETED", output=output)], strict=False)
        else:
            control.complete_task(flows.NAMESPACE, run, "h", "COMPLETED", output, actor="ann")

    with pytest.raises(Invalid) as refused:
        answer({"ok": "maybe"})
    ((path, message),) = refused.value.problems
    assert path == ("outputData.ok" if way == "report" else "output.ok")
    assert "boolean" in message
    assert open_task(run) == found, "not even claimed"
    answer({"ok": True})
    flows.drain()
    assert flows.status(run) == "COMPLETED"


def test_a_form_does_not_stand_in_the_way_of_a_refusal() -> None:
    run = waiting(task(form=FORM))
    dispatching.report([TaskReport(open_task(run).id, run, "FAILED", reason="no")], strict=False)
    flows.drain()
    assert flows.status(run) == "FAILED"


def test_a_deadline_hands_the_task_on_and_says_so() -> None:
    run = waiting(task(assignee="ann", deadlineSeconds=600, escalateTo="group:managers"))
    hurry(run)
    found = open_task(run)
    assert (found.assignee, found.candidate_groups) == (None, ["managers"])
    assert found.escalated_at is not None
    event = HistoryEvent.objects.get(workflow_id=run, type="task.escalated")
    assert (event.ref, event.data["group"]) == ("h", "managers")
    with pytest.raises(Forbidden):
        human_tasks.claim(flows.NAMESPACE, found.id, ANN)
    human_tasks.complete(flows.NAMESPACE, found.id, {}, Claimant("mia", ("managers",)))
    flows.drain()
    assert flows.status(run) == "COMPLETED"
    assert clean() == {}


def test_a_deadline_takes_nothing_from_whoever_holds_the_task() -> None:
    run = waiting(task(candidateUsers=["ann"], deadlineSeconds=600, escalateTo="bob"))
    human_tasks.claim(flows.NAMESPACE, open_task(run).id, ANN)
    hurry(run)
    found = open_task(run)
    assert (found.claimed_by, found.assignee, found.candidate_users) == ("ann", "bob", [])
    assert HistoryEvent.objects.get(workflow_id=run, type="task.escalated").data["claimed_by"] == "ann"
    human_tasks.release(flows.NAMESPACE, found.id, ANN)
    with pytest.raises(Forbidden):
        human_tasks.claim(flows.NAMESPACE, found.id, ANN)
    human_tasks.complete(flows.NAMESPACE, found.id, {}, BOB)


def test_a_deadline_may_fail_the_task() -> None:
    run = waiting(task(assignee="ann", deadlineSeconds=600))
    hurry(run)
    failed = Task.objects.get(workflow_id=run)
    assert (failed.status, failed.cause, flows.status(run)) == ("FAILED", "DEADLINE", "FAILED")
    assert "deadlineSeconds=600" in (failed.reason or "")
    assert clean() == {}


def test_the_inbox_is_listed_by_who_where_and_state() -> None:
    waiting(task("anns", assignee="ann"))
    name = flows.register(task("offered", candidateUsers=["ann", "bob"], candidateGroups=["finance"]))
    flows.start(name)
    run = waiting(task("anyones"))
    human_tasks.claim(flows.NAMESPACE, open_task(run).id, ANN)
    assert listed() == ["anns", "offered", "anyones"]
    assert listed(person="ann") == ["anns", "offered", "anyones"]
    assert listed(person="bob") == ["offered"]
    assert listed(group="finance") == ["offered"]
    assert listed(claimed=True) == ["anyones"]
    assert listed(claimed=False) == ["anns", "offered"]
    assert listed(workflow_name=name) == ["offered"]
    first = human_tasks.page(flows.NAMESPACE, InboxFilter(), size=2)
    rest = human_tasks.page(flows.NAMESPACE, InboxFilter(), after=first[-1].id, size=2)
    assert [found.ref for found in (*first, *rest)] == listed()
    assert human_tasks.page("another", InboxFilter()) == []


def test_an_answer_that_does_not_fit_spoils_nothing_for_what_arrives_with_it() -> None:
    run, other = waiting(task(form=FORM)), waiting(task())
    who = Principal("demo", flows.NAMESPACE, frozenset({"work"}))
    reports = [TaskReport(open_task(one).id, one, "COMPLETED", output={"ok": 1}) for one in (run, other)]
    refused, applied = apply_reports([(who, report) for report in reports])
    assert isinstance(refused, Invalid)
    assert isinstance(applied, tuple) and applied[0].applied
    flows.drain()
    assert (flows.status(run), flows.status(other)) == ("RUNNING", "COMPLETED")
