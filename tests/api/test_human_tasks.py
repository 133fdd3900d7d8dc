"""The inbox over HTTP: who sees, claims, answers and hands on what, and how a refusal is told."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from orchestrator.models import AuditEntry
from orchestrator.services import keys
from orchestrator.services.keys import KeyRequest
from tests import flows
from tests.api.client import UNKNOWN, Caller, demo_api  # noqa: F401  (a fixture)

FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
ACTIONS = ("claim", "release", "complete", "reassign")


def human(**given: Any) -> dict[str, Any]:
    return {"name": "h", "taskReferenceName": "h", "type": "HUMAN", "inputParameters": given}


def waiting(api: Caller, **given: Any) -> dict[str, Any]:
    """The task of a run that waits for a person, as the inbox lists it."""
    run = api.text("post", "workflow", {"name": flows.register(human(**given))})
    (found,) = [one for one in api.json("get", "human/tasks?size=499")["results"] if one["workflowId"] == run]
    return dict(found)


def key(name: str, *permissions: str, queues: tuple[str, ...] = ()) -> Caller:
    """Somebody with an API key."""
    made, secret = keys.create(KeyRequest(flows.NAMESPACE, name, permissions, queues), actor="olga")
    return Caller(Client(headers={"X-Authorization": f"{made.id}.{secret}"}, raise_request_exception=False))


def member(name: str, group: str) -> Caller:
    """Somebody who has logged in, and works in a group."""
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["change_queuedtask", "view_execution"]))
    user.groups.add(Group.objects.create(name=group))
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return Caller(client)


def test_a_task_is_claimed_and_answered_by_the_key_it_is_assigned_to(api: Caller) -> None:
    clerk = key("clerk", "work", "view")
    found = waiting(api, assignee="key:clerk", form=FORM, amount=5)
    path = f"human/tasks/{found['taskId']}"
    assert (found["state"], found["assignee"], found["taskReferenceName"]) == ("OPEN", "key:clerk", "h")
    assert "form" not in found
    whole = clerk.json("get", path)
    assert (whole["form"], whole["inputData"]["amount"]) == (FORM, 5)
    assert clerk.json("post", f"{path}/claim")["claimedBy"] == "key:clerk"
    refused = clerk.refused("post", f"{path}/complete", {"ok": "maybe"})
    assert refused["validationErrors"][0]["path"] == "output.ok"
    assert clerk.json("get", path)["state"] == "CLAIMED"
    assert clerk.json("post", f"{path}/complete", {"ok": True})["status"] == "COMPLETED"
    run = api.json("get", f"workflow/{found['workflowId']}")
    assert (run["status"], run["tasks"][0]["outputData"]) == ("COMPLETED", {"ok": True})
    for action in ("claim", "release", "complete"):
        assert "has ended COMPLETED" in clerk.refused("post", f"{path}/{action}", status=409)["message"]
    audit = AuditEntry.objects.filter(target=found["workflowId"], actor="key:clerk").order_by("id")
    assert [(entry.action, entry.outcome) for entry in audit][:3] == [
        ("workflow.claim_task", "done"), ("workflow.complete_task", "refused"), ("workflow.complete_task", "done"),
    ]  # fmt: skip


def test_a_task_of_a_group_is_for_its_members(api: Caller) -> None:
    mia, max_ = member("mia", "finance"), member("max", "sales")
    found = waiting(api, candidateGroups=["finance"])
    path = f"human/tasks/{found['taskId']}"
    max_.refused("post", f"{path}/claim", status=403)
    assert mia.json("post", f"{path}/claim")["claimedBy"] == "mia"
    assert "claimed by mia" in api.refused("post", f"{path}/claim", status=409)["message"]
    assert "claimed by mia" in api.refused("post", f"{path}/complete", {}, status=409)["message"]
    assert mia.json("post", f"{path}/release")["state"] == "OPEN"
    api.json("post", f"{path}/complete", {})


def test_a_task_is_handed_on_by_an_operator_alone(api: Caller) -> None:
    clerk, found = key("clerk", "work", "view"), waiting(api)
    path = f"human/tasks/{found['taskId']}"
    clerk.json("post", f"{path}/claim")
    clerk.refused("post", f"{path}/reassign", {"assignee": "bob"}, status=403)
    api.refused("post", f"{path}/reassign", {})
    refused = api.refused("post", f"{path}/reassign", {"candidateUsers": [1]})
    assert refused["validationErrors"][0]["path"] == "candidateUsers[0]"
    given = api.json("post", f"{path}/reassign", {"candidateGroups": ["finance"]})
    assert (given["state"], given["candidateGroups"]) == ("OPEN", ["finance"])
    clerk.refused("post", f"{path}/complete", {}, status=403)


def test_a_key_for_some_queues_works_on_the_tasks_of_those_names(api: Caller) -> None:
    found = waiting(api)
    key("elsewhere", "work", queues=("x_*",)).refused("post", f"human/tasks/{found['taskId']}/claim", status=403)
    key("here", "work", queues=("h",)).json("post", f"human/tasks/{found['taskId']}/claim")


def test_the_inbox_is_filtered_and_paged(api: Caller) -> None:
    mine = waiting(api, assignee="demo")
    offered = waiting(api, candidateGroups=["finance"])
    api.json("post", f"human/tasks/{waiting(api)['taskId']}/claim")

    def ids(query: str) -> list[str]:
        return [one["taskId"] for one in api.json("get", f"human/tasks?{query}")["results"]]

    every = ids("")
    assert len(every) == 3
    assert ids("group=finance") == ids(f"workflowName={offered['workflowName']}") == [offered["taskId"]]
    assert ids("state=OPEN") == [mine["taskId"], offered["taskId"]]
    assert ids("state=CLAIMED&assignee=demo") == every[2:]
    assert ids("assignee=demo") == [every[0], every[2]]
    first = api.json("get", "human/tasks?size=2")
    rest = api.json("get", f"human/tasks?size=2&cursor={first['nextCursor']}")
    assert [one["taskId"] for one in (*first["results"], *rest["results"])] == every
    assert "nextCursor" not in rest
    for bad in ("state=DONE", "cursor=x", "size=0", "size=500"):
        api.refused("get", f"human/tasks?{bad}")


@pytest.mark.parametrize("shown", [UNKNOWN, "x"])
def test_what_is_no_human_task_is_not_found(api: Caller, shown: str) -> None:
    api.refused("get", f"human/tasks/{shown}", status=404)
    for action in ACTIONS:
        api.refused("post", f"human/tasks/{shown}/{action}", {}, status=404)


def test_a_worker_may_report_a_human_task_and_must_fit_its_form(api: Caller) -> None:
    found = waiting(api, form=FORM)
    result = {"taskId": found["taskId"], "workflowInstanceId": found["workflowId"], "status": "COMPLETED"}
    refused = api.refused("post", "tasks", {**result, "outputData": {}})
    assert refused["validationErrors"][0]["path"] == "outputData"
    by_ref = f"tasks/{found['workflowId']}/h/COMPLETED"
    assert api.refused("post", by_ref, {"ok": 1})["validationErrors"][0]["path"] == "output.ok"
    assert api.text("post", "tasks", {**result, "outputData": {"ok": True}}) == found["taskId"]
    assert api.json("get", "human/tasks")["results"] == []


def test_a_human_task_that_says_nonsense_is_not_registered(api: Caller) -> None:
    tasks = [human(form={"type": "no such type"}, escalateTo="bob")]
    refused = api.refused("post", "metadata/workflow", {"name": "w", "version": 1, "tasks": tasks})
    paths = {problem["path"] for problem in refused["validationErrors"]}
    assert paths == {"tasks[0].inputParameters.form", "tasks[0].inputParameters.escalateTo"}
