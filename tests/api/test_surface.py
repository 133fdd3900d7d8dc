"""Paths that SDKs know beside the everyday ones: tags, families, states, old queues, administration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.models import AuditEntry
from orchestrator.services import keys, tagging
from orchestrator.services.keys import KeyRequest
from tests import flows
from tests.api.client import UNKNOWN, Caller, calls, demo_api, filled  # noqa: F401  (a fixture)
from tests.flows import child, register, simple, unique

WAIT = {"name": "pause", "taskReferenceName": "pause", "type": "WAIT"}


def one(name: str) -> dict[str, Any]:
    return simple("one", name)


def started(api: Caller, *tasks: dict[str, Any], **body: Any) -> str:
    return api.text("post", "workflow", {"name": register(*tasks), **body})


@pytest.mark.parametrize("path", ["metadata/workflow/{}/tags", "metadata/tags/workflow/{}", "metadata/task/{}/tags"])
def test_tags(api: Caller, path: str) -> None:
    name = register(simple("a"))
    api.empty("post", "metadata/taskdefs", [{"name": name}])
    path = path.format(name)
    team, tier = {"key": "team", "value": "red"}, {"key": "tier", "value": "1"}
    api.empty("post", path, {**team, "type": "METADATA"})
    api.empty("post", path, [team, tier])
    assert api.json("get", path) == [{"type": "METADATA", **team}, {"type": "METADATA", **tier}]
    api.empty("delete", path, team)
    api.empty("delete", path, team)
    assert api.json("get", path) == [{"type": "METADATA", **tier}]
    api.empty("put", path, [team])
    assert [tag["value"] for tag in api.json("get", path)] == ["red"]
    (listed,) = api.json("get", "metadata/tags")
    assert (listed["objectName"], listed["key"]) == (name, "team")
    for bad in ({}, {"key": "k"}, [{"key": "", "value": "v"}], [1], {"key": "k", "value": "v" * 501}):
        api.refused("post", path, bad)
    assert AuditEntry.objects.filter(target=name, action__startswith="tag.").count() == 5


def test_tags_of_what_is_not_there(api: Caller) -> None:
    for path in ("metadata/workflow/none/tags", "metadata/task/none/tags", "scheduler/schedules/none/tags"):
        api.refused("get", path, status=404)
        api.refused("put", path, [{"key": "k", "value": "v"}], status=404)


_FIRES = {"startWorkflowRequest": {"name": "any"}, "cronExpression": "0 0 3 * * *"}
_TAGGED: dict[str, tuple[str, str, Callable[[str], Any], str, str]] = {
    "workflow": (
        "post", "metadata/workflow", lambda name: {"name": name, "tasks": [simple("a")]},
        "metadata/workflow/{}/1", "metadata/workflow/{}/tags",
    ),
    "task": (
        "post", "metadata/taskdefs", lambda name: [{"name": name}], "metadata/taskdefs/{}", "metadata/task/{}/tags",
    ),
    "schedule": (
        "post", "scheduler/schedules", lambda name: {"name": name, **_FIRES}, "scheduler/schedules/{}",
        "scheduler/schedules/{}/tags",
    ),
    "secret": ("put", "secrets/{}", lambda _: "value", "secrets/{}", "secrets/{}/tags"),
}  # fmt: skip
"""Kind -> how and where an object is made, of what, where it is deleted, and where its tags are."""


@pytest.mark.parametrize("kind", tagging.KINDS)
def test_an_object_takes_its_tags_with_it(api: Caller, kind: str) -> None:
    method, made_at, body, deleted_at, tags = _TAGGED[kind]
    name = unique("tagged")
    assert api(method, made_at.format(name), body(name)).status_code < 300
    api.empty("put", tags.format(name), [{"key": "team", "value": "red"}])
    assert len(api.json("get", tags.format(name))) == 1
    api.empty("delete", deleted_at.format(name))
    assert api(method, made_at.format(name), body(name)).status_code < 300
    assert api.json("get", tags.format(name)) == []


def test_the_tags_of_a_workflow_stay_while_a_version_of_it_does(api: Caller) -> None:
    name = register(simple("a"))
    api.empty("post", "metadata/workflow", {"name": name, "version": 2, "tasks": [simple("a")]})
    api.empty("put", f"metadata/workflow/{name}/tags", [{"key": "team", "value": "red"}])
    api.empty("delete", f"metadata/workflow/{name}/2")
    assert len(api.json("get", f"metadata/workflow/{name}/tags")) == 1


def test_schedules_are_tagged_and_paused_together(api: Caller) -> None:
    request = {"startWorkflowRequest": {"name": register(simple("a"))}, "cronExpression": "0 0 3 * * *"}
    for name in ("hers", "mine"):
        api("post", "scheduler/schedules", {"name": name, **request})
    api.empty("put", "scheduler/schedules/mine/tags", [{"key": "team", "value": "red"}])
    assert len(api.json("get", "scheduler/schedules/mine/tags")) == 1
    api.empty("put", "scheduler/schedules/hers/pause?reason=holiday")
    api.empty("get", "scheduler/admin/pause")
    assert all(found["paused"] for found in api.json("get", "scheduler/schedules"))
    api.empty("get", "scheduler/admin/requeue")
    api.empty("get", "scheduler/admin/resume")
    paused = {found["name"]: found["paused"] for found in api.json("get", "scheduler/schedules")}
    assert paused == {"hers": True, "mine": False}


@pytest.mark.parametrize("path", ["scheduler/admin/pause", "scheduler/admin/resume", "scheduler/schedules/x/pause"])
def test_a_page_cannot_make_a_browser_act_by_get(api: Caller, path: str) -> None:
    response = api.client.get(f"/api/{path}", headers={"Sec-Fetch-Site": "cross-site"})
    assert response.status_code == 403


def test_runs_by_correlation_over_many_names(api: Caller) -> None:
    names = [register(simple("a")), register(simple("a"))]
    runs = [api.text("post", "workflow", {"name": name, "correlationId": "c"}) for name in names]
    found = api.json("post", "workflow/correlated/batch", {"workflowNames": names, "correlationIds": ["c", "d"]})
    assert {key: [run["workflowId"] for run in value] for key, value in found.items()} == {"c": runs}
    api.refused("post", "workflow/correlated/batch", {"workflowNames": names})


def test_a_family_is_listed_from_its_top(api: Caller) -> None:
    below = register(WAIT)
    run = started(api, child("sub", below))
    flows.drain()
    whole = api.json("get", f"workflow/family/{run}")
    assert [found["workflowName"] for found in whole][1:] == [below]
    assert whole[1]["parentWorkflowId"] == run and whole[1]["tasks"]
    summaries = api.json("get", f"workflow/family/{run}?summaryOnly=true")
    assert [found["workflowId"] for found in summaries] == [found["workflowId"] for found in whole]
    api.refused("get", f"workflow/family/{UNKNOWN}", status=404)


def test_a_state_is_updated_and_waited_for(api: Caller) -> None:
    run = started(api, WAIT, simple("after", inputParameters={"v": "${workflow.variables.v}"}))
    body = {
        "variables": {"v": 7},
        "taskReferenceName": "pause",
        "taskResult": {"status": "COMPLETED", "outputData": {"o": 1}},
    }
    found = api.json("post", f"workflow/{run}/state?waitForSeconds=0", body)
    tasks = {task["referenceTaskName"]: task for task in found["tasks"]}
    assert tasks["pause"]["outputData"] == {"o": 1} and tasks["after"]["inputData"] == {"v": 7}
    api.refused("post", f"workflow/{run}/state?waitForSeconds=0", {"taskReferenceName": "none", "taskResult": {}}, 404)
    api.refused("post", f"workflow/{run}/state", {"taskResult": {}})
    api.refused("post", f"workflow/{run}/state", {"taskResult": 5, "taskReferenceName": "pause"})
    api.refused("post", f"workflow/{run}/state", {"variables": 5})


def test_a_run_as_it_was(api: Caller) -> None:
    queue = unique("q")
    run = started(api, one(queue), simple("two"))
    task = api.json("get", f"tasks/poll/{queue}?workerid=w")
    api.text("post", "tasks", {"taskId": task["taskId"], "workflowInstanceId": run, "status": "COMPLETED"})
    api.empty("put", f"workflow/{run}/pause")
    events = api.json("get", f"workflow/{run}/history")
    seen = []
    for seq in range(len(events) + 1):
        state = api.json("get", f"workflow/{run}/state?seq={seq}")
        assert state["seq"] == seq
        seen.append((state["status"], [(t["referenceTaskName"], t["status"]) for t in state["tasks"]]))
    assert seen[0] == ("RUNNING", [])
    assert ("RUNNING", [("one", "SCHEDULED")]) in seen
    assert ("RUNNING", [("one", "COMPLETED")]) in seen
    assert seen[-1] == ("PAUSED", [("one", "COMPLETED"), ("two", "SCHEDULED")])
    now = api.json("get", f"workflow/{run}")
    assert [(t["referenceTaskName"], t["status"]) for t in now["tasks"]] == seen[-1][1]


def test_searches_for_whole_runs_and_by_tasks(api: Caller) -> None:
    queue = unique("q")
    run = started(api, one(queue), simple("two"), correlationId="c")
    (whole,) = api.json("get", f"workflow/search-v2?query=workflowId%3D{run}")["results"]
    assert whole["correlationId"] == "c" and whole["startTime"] > 10**12
    (summary,) = api.json("get", f"workflow/search-by-tasks?query=taskType%3D{queue}")["results"]
    assert summary["workflowId"] == run and isinstance(summary["startTime"], str)
    (again,) = api.json("get", f"workflow/search-by-tasks-v2?query=taskType%3D{queue}")["results"]
    assert again["workflowId"] == run
    (task,) = api.json("get", f"tasks/search-v2?query=taskType%3D{queue}")["results"]
    assert task["referenceTaskName"] == "one" and task["inputData"] == {}
    found = api.json("post", "workflow/bulk/search?includeTasks=False", [run, UNKNOWN])
    assert [hit["workflowId"] for hit in found["bulkSuccessfulResults"]] == [run]
    assert found["bulkErrorResults"].keys() == {UNKNOWN}


def test_a_start_of_a_version_by_path(api: Caller) -> None:
    name = register(simple("a"))
    run = api.text("post", f"workflow/start/{name}/0?correlationId=c", {"x": 1})
    assert api.json("get", f"workflow/{run}")["input"] == {"x": 1}
    api.refused("post", f"workflow/start/{name}/7", {}, status=404)


@pytest.mark.parametrize(
    ("method", "path"),
    [("delete", "workflow/{}/terminate-remove?reason=x"), ("delete", "workflow/bulk/terminate-remove")],
)
def test_terminate_and_remove(api: Caller, method: str, path: str) -> None:
    run = started(api, simple("a"))
    response = api(method, path.format(run), [run])
    assert response.status_code == 200
    api.refused("get", f"workflow/{run}", status=404)


@pytest.mark.parametrize(("method", "path"), [("delete", "workflow/bulk/remove"), ("post", "workflow/bulk/delete")])
def test_removal_of_many(api: Caller, method: str, path: str) -> None:
    ended, going = started(api, simple("a")), started(api, simple("a"))
    api.empty("delete", f"workflow/{ended}")
    found = api.json(method, path, [ended, going])
    assert found["bulkSuccessfulResults"] == [ended] and found["bulkErrorResults"].keys() == {going}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED"])
@pytest.mark.parametrize("by_id", [True, False])
def test_old_queues_end_tasks(api: Caller, status: str, by_id: bool) -> None:
    run = started(api, WAIT)
    (task,) = api.json("get", f"workflow/{run}")["tasks"]
    middle = f"task/{task['taskId']}" if by_id else "pause"
    api.empty("post", f"queue/update/{run}/{middle}/{status}", {"o": 1})
    found = api.json("get", f"workflow/{run}")
    assert (found["status"], found["tasks"][0]["outputData"]) == (status, {"o": 1})
    assert api.json("get", "queue/size").keys() == api.json("get", "queue/").keys() == {"COMPLETED", "FAILED"}
    api.refused("post", f"queue/update/{run}/pause/{status}", {}, status=404)
    api.refused("post", f"queue/update/{UNKNOWN}/task/{task['taskId']}/{status}", {}, status=404)


def test_administration(api: Caller) -> None:
    queue = unique("q")
    run = started(api, one(queue))
    assert api.text("post", f"admin/sweep/requeue/{run}") == f"true.{run}"
    assert api.text("post", f"admin/consistency/verifyAndRepair/{run}") == "false"
    (task,) = api.json("get", f"admin/task/{queue}?start=0&count=10")
    assert (task["workflowInstanceId"], task["status"]) == (run, "SCHEDULED")
    config = api.json("get", "admin/config")
    assert config["LEASE_SECONDS"] == 60 and not [v for v in config.values() if isinstance(v, str)]
    for path in (f"admin/sweep/requeue/{UNKNOWN}", f"admin/consistency/verifyAndRepair/{UNKNOWN}"):
        api.refused("post", path, status=404)


def test_who_may_only_look_may_look_everywhere_and_change_nothing(api: Caller) -> None:
    run = started(api, simple("a"))
    key, secret = keys.create(KeyRequest(flows.NAMESPACE, "looker", ("view",)), actor="ann")
    headers = {"X-Authorization": f"{key.id}.{secret}"}

    def asked(method: str, path: str) -> int:
        return api.client.generic(
            method.upper(), f"/api/{path}", b"{}", "application/json", headers=headers
        ).status_code

    for path in (
        f"workflow/{run}", f"workflow/{run}/state", "metadata/workflow", "metadata/taskdefs", "scheduler/schedules",
        "workflow/search", "metadata/tags",
    ):  # fmt: skip
        assert asked("get", path) == 200, path
    others = {"token", "workflow/bulk/search", "workflow/correlated/batch", "workflow/<str:name>/correlated"}
    others.add("webhook/<str:webhook_id>")  # who delivers has no key
    for method, pattern in calls("post", "put", "delete"):
        if pattern not in others:
            assert asked(method, filled(pattern, workflow_id=run)) == 403, (method, pattern)


def test_definitions_are_listed_in_every_way(api: Caller) -> None:
    name = unique("listed")
    definition = {"name": name, "version": 1, "tasks": [simple("a")]}
    api.empty("post", "metadata/workflow/validate", definition)
    api.refused("post", "metadata/workflow/validate", {**definition, "tasks": []})
    done = api.json("put", "metadata/workflow", [definition, {**definition, "version": 3}, {"name": "bad"}])
    assert done["bulkSuccessfulResults"] == [name, name] and done["bulkErrorResults"].keys() == {"bad"}
    assert api.json("get", "metadata/workflow/names") == [name]
    assert [found["version"] for found in api.json("get", f"metadata/workflow/{name}/versions")] == [1, 3]
    assert [found["version"] for found in api.json("get", "metadata/workflow/latest-versions")] == [3]
    assert [found["version"] for found in api.json("get", "metadata/workflow/names-and-versions")[name]] == [1, 3]
    api.empty("delete", f"metadata/workflow/{name}/3")
    api.refused("delete", f"metadata/workflow/{name}/3", status=404)
    assert api.json("get", f"metadata/workflow/{name}")["version"] == 1


def test_a_task_definition_from_first_to_last(api: Caller) -> None:
    name = unique("task")
    api.empty("post", "metadata/taskdefs", [{"name": name, "retryCount": 1}])
    api.empty("put", "metadata/taskdefs", {"name": name, "retryCount": 7})
    found = api.json("get", f"metadata/taskdefs/{name}")
    assert (found["retryCount"], found["retryLogic"], found["timeoutPolicy"]) == (7, "FIXED", "TIME_OUT_WF")
    assert [listed["name"] for listed in api.json("get", "metadata/taskdefs")] == [name]
    api.empty("delete", f"metadata/taskdefs/{name}")
    api.refused("delete", f"metadata/taskdefs/{name}", status=404)


def test_schedules_are_found_paused_and_forgotten(api: Caller) -> None:
    name = register(simple("a"))
    for schedule in ("early", "late"):
        body = {"name": schedule, "startWorkflowRequest": {"name": name}, "cronExpression": "0 0 3 * * *"}
        assert api.json("post", "scheduler/schedules", body)["name"] == schedule
    assert api.json("get", "scheduler/schedules/early")["startWorkflowRequest"] == {"name": name}
    assert [found["name"] for found in api.json("get", "scheduler/schedules/search?freeText=ear")["results"]] == ["early"]
    done = api.json("put", "scheduler/bulk/pause?reason=x", ["early", "none"])
    assert done["bulkSuccessfulResults"] == ["early"] and done["bulkErrorResults"].keys() == {"none"}
    assert api.json("get", "scheduler/schedules/search?paused=true")["totalHits"] == 1
    assert api.json("put", "scheduler/bulk/resume", ["early"])["bulkSuccessfulResults"] == ["early"]
    assert len(api.json("get", "scheduler/nextFewSchedules?cronExpression=0+0+3+*+*+*&limit=2")) == 2
    api.refused("get", "scheduler/nextFewSchedules?cronExpression=nonsense")
    assert api.json("get", f"scheduler/search/executions?query=workflowName={name}") == {"totalHits": 0, "results": []}
    api.empty("delete", "scheduler/schedules/late")
    api.refused("get", "scheduler/schedules/late", status=404)


def test_a_schedule_is_backfilled(api: Caller) -> None:
    body = {"name": "daily", "startWorkflowRequest": {"name": register(simple("a"))}, "cronExpression": "0 0 3 * * *"}
    api.json("post", "scheduler/schedules", body)
    interval = {"from": "2026-03-01T03:00:00+00:00", "to": 1772506800000}
    path = "scheduler/schedules/daily/backfill"
    planned = api.json("post", path, {**interval, "dryRun": True})
    times = [1772334000000 + day * 86_400_000 for day in range(3)]
    assert planned == {
        "scheduleName": "daily", "started": 0, "moments": [{"scheduledTime": at, "started": False} for at in times],
    }  # fmt: skip
    done = api.json("post", path, interval)
    assert [moment["started"] for moment in done["moments"]] == [True] * 3 == [True] * done["started"]
    assert api.json("post", path, interval)["started"] == 0
    shown = api.json("get", "scheduler/search/executions?query=state=BACKFILLED")["results"]
    assert {run["scheduledTime"]: run["workflowId"] for run in shown} == {
        moment["scheduledTime"]: moment["workflowId"] for moment in done["moments"]
    }
    api.refused("post", "scheduler/schedules/none/backfill", interval, status=404)


@pytest.mark.parametrize(
    ("fields", "path"), [
        ({"from": None}, "from"), ({"from": "yesterday"}, "from"), ({"to": "2026-03-02T03:00:00"}, "to"), ({"to": True}, "to"),
        ({"from": 2**53}, "from"), ({"from": "0001-01-01T00:00:00+14:00"}, "from"), ({"from": [1]}, "from"),
        ({"to": "2099-01-01T00:00:00Z"}, "to"), ({"from": "2026-03-03T00:00:00Z"}, "from"), ({"dryRun": "no"}, "dryRun"),
        ({"dryRun": 1}, "dryRun"), ({"from": 0}, "to"),
    ],
)  # fmt: skip
def test_an_interval_that_is_none_is_refused(api: Caller, fields: dict[str, Any], path: str) -> None:
    body = {"name": "daily", "startWorkflowRequest": {"name": register(simple("a"))}, "cronExpression": "0 0 3 * * *"}
    api.json("post", "scheduler/schedules", body)
    interval = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
    found = api.refused("post", "scheduler/schedules/daily/backfill", {**interval, **fields})
    assert [problem["path"] for problem in found["validationErrors"]] == [path], found
    assert api.json("get", "workflow/search")["totalHits"] == 0


def test_a_task_is_kept_alive_and_searched(api: Caller) -> None:
    queue = unique("q")
    run = started(api, one(queue))
    task = api.json("get", f"tasks/poll/{queue}?workerid=w")
    api.empty("post", f"tasks/{task['taskId']}/heartbeat", {"leaseToken": task["leaseToken"]})
    api.refused("post", f"tasks/{task['taskId']}/heartbeat", {"leaseToken": UNKNOWN}, status=409)
    (found,) = api.json("get", f"tasks/search?query=taskType={queue}")["results"]
    assert (found["taskId"], found["workflowId"], found["status"]) == (task["taskId"], run, "IN_PROGRESS")
    assert api.json("get", "tasks/queue/all")[queue] == 0
    assert api.json("get", "tasks/queue/all/verbose")[queue] == {"a": {"size": 0, "uacked": 1}}
    (polled,) = [p for p in api.json("get", "tasks/queue/polldata/all") if p["queueName"] == queue]
    assert polled["workerId"] == "w" and api.json("get", f"tasks/queue/polldata?taskType={queue}") == [polled]
    assert api.json("get", f"workflow/{run}/tasks?status=IN_PROGRESS")["totalHits"] == 1
    assert api.json("get", f"workflow/{run}/explain")["status"] == "RUNNING"
    assert api.json("post", f"workflow/{run}/variables", {"v": 1})["variables"] == {"v": 1}
    batch = {"taskId": task["taskId"], "workflowInstanceId": run, "status": "COMPLETED"}
    assert api.json("post", "tasks/batch", [batch])[0]["applied"] is True
    run = started(api, one(queue))
    found = api.json("post", f"tasks/{run}/one/COMPLETED/sync", {"o": 1})
    assert (found["status"], found["output"]) == ("COMPLETED", {"o": 1})
    api.refused("post", f"tasks/{run}/one/COMPLETED/sync", {}, status=404)


@pytest.mark.parametrize("action", ["retry", "restart"])
def test_many_ended_runs_go_on(api: Caller, action: str) -> None:
    runs = [started(api, simple("a")) for _ in range(2)]
    api.json("post", "workflow/bulk/terminate?reason=x", runs)
    assert api.json("post", f"workflow/bulk/{action}", runs)["bulkSuccessfulResults"] == runs
    assert api.json("put", "workflow/bulk/pause", runs)["bulkSuccessfulResults"] == runs
    assert api.json("put", "workflow/bulk/resume", runs)["bulkSuccessfulResults"] == runs


def test_a_jump_skips_what_stands_between(api: Caller) -> None:
    queue = unique("q")
    run = started(api, one(queue), child("sub", register(simple("a"))), WAIT, simple("last"), simple("after"))
    api.empty("post", f"workflow/{run}/jump/last", {})
    flows.drain()
    found = {t["referenceTaskName"]: t["status"] for t in api.json("get", f"workflow/{run}")["tasks"]}
    assert found == {"one": "SKIPPED", "sub": "SKIPPED", "pause": "SKIPPED", "last": "SCHEDULED"}
    assert api("get", f"tasks/poll/{queue}?workerid=w").status_code == 204
    api.refused("post", f"workflow/{run}/jump/last", {}, status=409)
    api.refused("post", f"workflow/{run}/jump/none", {}, status=404)
    api.refused("post", f"workflow/{run}/jump/after", {"x": 1})
    api.text("post", f"tasks/{run}/last/COMPLETED", {"o": 1})
    api.text("post", f"tasks/{run}/after/COMPLETED", {"o": 2})
    assert api.json("get", f"workflow/{run}")["output"] == {"o": 2}
    api.refused("post", f"workflow/{run}/jump/after", {}, status=409)


def test_a_jump_out_of_an_open_child_ends_the_child(api: Caller) -> None:
    run = started(api, child("sub", register(simple("a"))), simple("last"))
    flows.drain()
    api.empty("post", f"workflow/{run}/jump/%7BtaskReferenceName%7D?taskReferenceName=last", {})
    flows.drain()
    parent, below = api.json("get", f"workflow/family/{run}")
    assert {t["referenceTaskName"]: t["status"] for t in parent["tasks"]} == {"sub": "SKIPPED", "last": "SCHEDULED"}
    assert below["status"] == "TERMINATED"


def test_a_jump_does_not_guess_what_to_skip_inside(api: Caller) -> None:
    run = started(api, simple("a"), *flows.fork("both", [simple("left")], [simple("right")]), simple("last"))
    found = api.refused("post", f"workflow/{run}/jump/last", {})
    assert "both, a FORK_JOIN" in found["message"]
    assert "inside" in api.refused("post", f"workflow/{run}/jump/left", {})["message"]
    assert {t["status"] for t in api.json("get", f"workflow/{run}")["tasks"]} == {"SCHEDULED"}, "nothing has changed"
