"""The admin: everything can be read, nothing of the engine edited, and every button is a service."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from orchestrator.db.ids import new_id
from orchestrator.db.models import EngineModel
from orchestrator.db.transactions import transaction
from orchestrator.models import AuditEntry
from outbox.managers import NewOutboxEvent
from outbox.models import OutboxEvent
from outbox.services import relay
from tests import flows
from workflows.models import DecideQueue, Execution, Task, Timer

pytestmark = pytest.mark.usefixtures("committed")

ENGINE_ADMINS = [model for model in admin.site._registry if issubclass(model, EngineModel)]


def a_run() -> UUID:
    """A run whose first task waits for a worker."""
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue), flows.simple("b", queue)), {"big": 2**60 + 1})
    flows.drain()
    return run


def change_url(run: UUID) -> str:
    return reverse("admin:workflows_execution_change", args=[run])


def press(client: Client, run: UUID, name: str, **data: str) -> str:
    """Press a button and return what the page says."""
    response = client.post(reverse("admin:workflows_execution_action", args=[run, name]), data, follow=True)
    assert response.status_code == 200
    return " ".join(str(message) for message in response.context["messages"])


def audit(run: UUID) -> list[tuple[str, str, str]]:
    entries = AuditEntry.objects.filter(target=str(run)).order_by("id")
    return [(e.action, e.actor, e.outcome) for e in entries]


def test_every_table_of_the_design_is_there() -> None:
    names = {model.__name__ for model in ENGINE_ADMINS}
    assert names >= {
        "WorkflowDefinition", "TaskDefinition", "Execution", "Task", "QueuedTask", "Timer", "DecideQueue",
        "OutboxEvent", "AuditEntry",
    }  # fmt: skip


@pytest.mark.parametrize("model", ENGINE_ADMINS, ids=lambda m: m.__name__)
def test_rows_are_read_and_never_edited(model: Any, operator: Client) -> None:
    run = a_run()
    press(operator, run, "pause")
    name = f"{model._meta.app_label}_{model._meta.model_name}"
    listed = operator.get(reverse(f"admin:{name}_changelist"))
    assert listed.status_code == 200
    assert operator.get(reverse(f"admin:{name}_add")).status_code == 403
    assert operator.get(reverse(f"admin:{name}_changelist"), {"q": "nothing of that name"}).status_code == 200
    assert operator.get(reverse(f"admin:{name}_changelist"), {"q": str(run)}).status_code == 200
    row = model.objects.first()
    if row is None:
        return
    before = model.objects.filter(pk=row.pk).values().get()
    page = reverse(f"admin:{name}_change", args=[row.pk])
    assert operator.get(page).status_code == 200
    assert operator.post(page, {"status": "COMPLETED", "name": "hacked", "namespace": "x"}).status_code == 403
    assert operator.post(reverse(f"admin:{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    operator.post(reverse(f"admin:{name}_changelist"), {"action": "delete_selected", "_selected_action": [str(row.pk)]})
    assert model.objects.filter(pk=row.pk).values().get() == before


def test_no_engine_table_is_left_out_of_the_rule() -> None:
    for model in apps.get_models():
        registered = admin.site._registry.get(model)
        if registered is not None and issubclass(model, EngineModel):
            assert registered.has_add_permission(None) is False
            assert registered.has_change_permission(None) is False
            assert registered.has_delete_permission(None) is False


def test_a_list_reads_no_payload_and_counts_within_a_bound(operator: Client) -> None:
    a_run()
    with CaptureQueriesContext(connection) as queries:
        operator.get(reverse("admin:workflows_execution_changelist"), {"status": "RUNNING"})
    ours = [q["sql"] for q in queries if "workflows_execution" in q["sql"]]
    assert ours
    assert not [q for q in ours if '"workflows_execution"."input"' in q]
    assert not [q for q in ours if "COUNT(" in q and "LIMIT" not in q]


def test_json_is_shown_with_every_digit(operator: Client) -> None:
    run = a_run()
    page = operator.get(change_url(run)).content.decode()
    assert str(2**60 + 1) in page
    assert "&quot;big&quot;: " in page


def test_a_list_is_searched_by_id_name_and_correlation_id(operator: Client) -> None:
    name = flows.register(flows.simple("a", flows.unique("q")))
    run = flows.start(name, correlation_id="order-77")
    a_run()
    for term in (str(run), name, "order-77"):
        found = operator.get(reverse("admin:workflows_execution_changelist"), {"q": term}).context["cl"].result_list
        assert [row.id for row in found] == [run], term


def test_pause_and_resume(operator: Client) -> None:
    run = a_run()
    assert press(operator, run, "pause") == "Paused."
    assert flows.status(run) == "PAUSED"
    assert press(operator, run, "resume") == "Resumed."
    assert flows.status(run) == "RUNNING"
    assert audit(run) == [("workflow.pause", "olga", "done"), ("workflow.resume", "olga", "done")]


def test_resume_is_refused_with_the_reason(operator: Client) -> None:
    run = a_run()
    assert "is RUNNING" in press(operator, run, "resume")
    assert flows.status(run) == "RUNNING"
    assert audit(run) == [("workflow.resume", "olga", "refused")]


def test_terminate_needs_a_reason_and_keeps_it(operator: Client) -> None:
    run = a_run()
    assert "needs a reason" in press(operator, run, "terminate", reason="  ")
    assert flows.status(run) == "RUNNING"
    press(operator, run, "terminate", reason="wrong customer")
    assert flows.status(run) == "TERMINATED"
    assert Execution.objects.get(id=run).reason == "wrong customer"
    assert ("workflow.terminate", "olga", "done") in audit(run)


def test_retry_and_its_refusal(operator: Client) -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue, retryCount=0)))
    flows.drain()
    assert "is RUNNING" in press(operator, run, "retry")
    flows.complete(flows.lease(queue), status="FAILED_WITH_TERMINAL_ERROR")
    flows.drain()
    assert flows.status(run) == "FAILED"
    assert press(operator, run, "retry") == "Retried."
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"


def test_restart_and_its_refusal(operator: Client) -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue)))
    flows.drain()
    assert "is RUNNING" in press(operator, run, "restart")
    flows.finish([queue])
    assert press(operator, run, "restart") == "Restarted."
    assert flows.status(run) == "RUNNING"
    assert "is RUNNING" in press(operator, run, "restart")


def test_skip_task_and_its_refusals(operator: Client) -> None:
    run = a_run()
    assert "needs the task's reference name" in press(operator, run, "skip_task")
    assert "has no task" in press(operator, run, "skip_task", ref="nonsense")
    assert "has started" in press(operator, run, "skip_task", ref="a")
    assert press(operator, run, "skip_task", ref="b") == "Will skip b."
    assert Task.objects.get(workflow_id=run, ref="b").status == "SKIPPED"


def test_nudge(operator: Client) -> None:
    run = a_run()
    assert press(operator, run, "nudge") == "Nudged."
    assert audit(run) == [("workflow.nudge", "olga", "done")]


def test_buttons_are_enabled_only_where_they_apply(operator: Client) -> None:
    run = a_run()
    context = operator.get(change_url(run)).context
    assert {action.name for action, enabled in context["buttons"] if enabled} == {"pause", "nudge", "terminate"}
    assert context["skippable"] == ["b"]


def test_selected_runs_are_acted_on_one_by_one(operator: Client) -> None:
    runs = [a_run(), a_run()]
    press(operator, runs[0], "pause")
    response = operator.post(
        reverse("admin:workflows_execution_changelist"),
        {"action": "pause_selected", "_selected_action": [str(run) for run in runs]},
        follow=True,
    )
    assert {flows.status(run) for run in runs} == {"PAUSED"}
    assert response.status_code == 200
    operator.post(
        reverse("admin:workflows_execution_changelist"),
        {"action": "terminate_selected", "_selected_action": [str(runs[0])], "reason": "swept"},
    )
    assert Execution.objects.get(id=runs[0]).reason == "swept"


def test_a_missing_run_and_an_unknown_action_are_said(operator: Client) -> None:
    assert "There is no run" in press(operator, new_id(), "pause")
    assert "There is no action" in press(operator, a_run(), "explode")


def test_buttons_refuse_get_anonymous_viewers_and_missing_tokens(
    viewer: Client, operator: Client, admin_user: Any
) -> None:
    run = a_run()
    url = reverse("admin:workflows_execution_action", args=[run, "pause"])
    assert operator.get(url).status_code == 405
    assert Client().post(url).headers["Location"].startswith(reverse("admin:login"))
    assert viewer.get(change_url(run)).status_code == 200
    assert viewer.post(url).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    assert strict.post(url).status_code == 403
    listing = reverse("admin:workflows_execution_changelist")
    viewer.post(listing, {"action": "pause_selected", "_selected_action": [str(run)]})
    assert flows.status(run) == "RUNNING"
    assert audit(run) == []


def a_dead_letter() -> UUID:
    """An event whose only attempt failed."""
    with transaction():
        OutboxEvent.sql.publish([NewOutboxEvent("default", "nobody.listens", {"x": 1}, id=(event := new_id()))])
        claimed = next(e for e in OutboxEvent.sql.claim(batch=1000, lease_seconds=60) if e.id == event)
        OutboxEvent.sql.fail(claimed, "RuntimeError: no", delay_seconds=0, max_attempts=1)
    return event


def test_a_dead_letter_is_replayed_and_audited(operator: Client) -> None:
    event = a_dead_letter()
    listing = reverse("admin:outbox_outboxevent_changelist")
    assert [e.id for e in operator.get(listing, {"state": "dead"}).context["cl"].result_list] == [event]
    page = operator.get(reverse("admin:outbox_outboxevent_change", args=[event])).content.decode()
    assert 'id="action-replay"' in page
    operator.post(reverse("admin:outbox_outboxevent_replay", args=[event]))
    assert OutboxEvent.objects.get(id=event).dead_at is None
    assert audit(event) == [("outbox.replay", "olga", "done")]
    again = operator.post(reverse("admin:outbox_outboxevent_replay", args=[event]), follow=True)
    assert "only a dead letter" in str(list(again.context["messages"])[-1])
    assert relay.deliver_next_batch() == 1


def test_selected_dead_letters_are_replayed(operator: Client, viewer: Client) -> None:
    event = a_dead_letter()
    form = {"action": "replay_selected", "_selected_action": [str(event)]}
    viewer.post(reverse("admin:outbox_outboxevent_changelist"), form)
    assert OutboxEvent.objects.get(id=event).dead_at is not None
    assert viewer.post(reverse("admin:outbox_outboxevent_replay", args=[event])).status_code == 403
    operator.post(reverse("admin:outbox_outboxevent_changelist"), form)
    assert OutboxEvent.objects.get(id=event).dead_at is None


def test_runs_and_timers_put_aside_are_released_from_their_lists(operator: Client, viewer: Client) -> None:
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1h"}}
    run = flows.start(flows.register(wait))
    flows.drain()
    timer = Timer.objects.get(workflow_id=run)
    with transaction():
        DecideQueue.sql.enqueue([run])
        DecideQueue.sql.record_failure(run, "rotten", max_attempts=1)
        Timer.sql.record_failure(timer.id, "stopped clock", max_attempts=1)
    for model, pk, row in (("decidequeue", run, DecideQueue), ("timer", timer.id, Timer)):
        url = reverse(f"admin:workflows_{model}_changelist")
        body = {"action": "release_selected", "_selected_action": str(pk)}
        viewer.post(url, body)
        assert row.objects.get(pk=pk).quarantined
        said = operator.post(url, body, follow=True)
        assert "Released: 1." in [str(message) for message in said.context["messages"]]
        assert not row.objects.get(pk=pk).quarantined
