"""/api/workflow as Conductor's clients know it: statuses, bare ids, what is empty, and which value is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.api.client import UNKNOWN, Caller, demo_api  # noqa: F401  (a fixture)
from tests.flows import register, simple, unique


@pytest.fixture
def name(api: Caller) -> str:
    """A definition with one task, whose queue has its name."""
    found = unique("wire")
    definition = {
        "name": found,
        "version": 1,
        "tasks": [simple("one", found)],
        "outputParameters": {"o": "${one.output.x}"},
    }
    api.empty("post", "metadata/workflow", definition)
    return found


def test_a_run_as_json(api: Caller, name: str) -> None:
    before = int(time.time() * 1000)
    body = {"name": name, "version": 1, "input": {"a": None}, "correlationId": "c", "priority": 5, "unknown": 1}
    run = api.json("get", "workflow/" + api.text("post", "workflow", body))
    assert (run["status"], run["input"], run["output"], run["priority"]) == ("RUNNING", {"a": None}, {}, 5)
    assert before - 5000 < run["createTime"] < before + 60_000
    assert run["endTime"] == 0
    assert not {"idempotencyKey", "reasonForIncompletion", "parentWorkflowId"} & run.keys()
    assert [task["referenceTaskName"] for task in run["tasks"]] == ["one"]


@pytest.mark.parametrize(
    ("word", "tasks"), [("true", 1), ("True", 1), ("1", 1), ("", 1), ("None", 1), ("false", 0), ("False", 0)]
)
def test_words_of_a_flag(api: Caller, name: str, word: str, tasks: int) -> None:
    run = api.text("post", f"workflow/{name}", {})
    assert len(api.json("get", f"workflow/{run}?includeTasks={word}")["tasks"]) == tasks


def test_a_word_that_is_no_flag_is_named(api: Caller, name: str) -> None:
    run = api.text("post", f"workflow/{name}", {})
    found = api.refused("get", f"workflow/{run}?includeTasks=maybe")
    assert [problem["path"] for problem in found["validationErrors"]] == ["includeTasks"]


def test_the_life_of_a_run(api: Caller, name: str) -> None:
    run = api.text("post", f"workflow/{name}?correlationId=c&priority=3", {"a": 1})
    assert api.json("get", f"workflow/running/{name}") == [run]
    api.empty("put", f"workflow/{run}/pause")
    assert api.json("get", f"workflow/{run}/status") == {"workflowId": run, "status": "PAUSED", "correlationId": "c"}
    api.empty("put", f"workflow/{run}/resume")
    api.refused("put", f"workflow/{run}/resume", status=409)
    api.refused("post", f"workflow/{run}/restart", status=409)
    api.empty("delete", f"workflow/{run}?reason=enough")
    ended = api.json("get", f"workflow/{run}")
    assert (ended["status"], ended["reasonForIncompletion"]) == ("TERMINATED", "enough")
    assert ended["endTime"] >= ended["createTime"]
    api.empty("post", f"workflow/{run}/retry", status=204)
    api.empty("delete", f"workflow/{run}")
    api.empty("post", f"workflow/{run}/restart", status=204)
    api.empty("delete", f"workflow/{run}")
    assert api.text("post", f"workflow/{run}/rerun", {}) == run
    api.empty("delete", f"workflow/{run}")
    api.empty("delete", f"workflow/{run}/remove")
    api.refused("get", f"workflow/{run}", status=404)


def test_many_at_once_answer_one_by_one(api: Caller, name: str) -> None:
    run = api.text("post", f"workflow/{name}", {})
    found = api.json("put", "workflow/bulk/pause", [run, UNKNOWN, "no-id"])
    assert found["bulkSuccessfulResults"] == [run]
    assert found["bulkErrorResults"].keys() == {UNKNOWN, "no-id"}
    api.refused("put", "workflow/bulk/pause", ["x"] * 1001)


def test_an_idempotency_key(api: Caller, name: str) -> None:
    body = {"name": name, "idempotencyKey": unique("key"), "idempotencyStrategy": "RETURN_EXISTING"}
    run = api.text("post", "workflow", body)
    assert api.text("post", "workflow", body) == run
    api.refused("post", "workflow", {**body, "idempotencyStrategy": "FAIL"}, status=409)
    api.refused("post", "workflow", {**body, "input": {"other": 1}}, status=422)
    assert api.json("get", f"workflow/running/{name}") == [run]


def test_lists_by_correlation(api: Caller, name: str) -> None:
    run = api.text("post", f"workflow/{name}?correlationId=c", {})
    assert [found["workflowId"] for found in api.json("get", f"workflow/{name}/correlated/c")] == [run]
    assert api.json("post", f"workflow/{name}/correlated", ["c", "d"]).keys() == {"c"}
    api.empty("delete", f"workflow/{run}")
    assert api.json("get", f"workflow/{name}/correlated/c") == []
    assert len(api.json("get", f"workflow/{name}/correlated/c?includeClosed=True&includeTasks=true")[0]["tasks"]) == 1


@pytest.mark.parametrize(
    ("field", "value"), [
        ("name", 5), ("version", "1"), ("version", 2**63), ("input", []), ("correlationId", 1), ("priority", True),
        ("priority", 100), ("taskToDomain", "x"), ("taskToDomain", {"*": 5}), ("workflowDef", []),
        ("idempotencyStrategy", "MAYBE"),
        ("workflowDef", {"name": "inline", "tasks": []}),
    ],
)  # fmt: skip
def test_a_start_of_the_wrong_type_is_named(api: Caller, name: str, field: str, value: Any) -> None:
    found = api.refused("post", "workflow", {"name": name, field: value})
    assert all(problem["path"].startswith(field) for problem in found["validationErrors"])
    assert api.json("get", "workflow/search")["totalHits"] == 0


@pytest.mark.parametrize(
    "mocks", [5, [1], {"one": 5}, {"one": [1]}, {"one": [{"output": 5}]}, {"one": [{"status": "NO"}]}]
)
def test_mocks_of_the_wrong_type_are_named(api: Caller, name: str, mocks: Any) -> None:
    found = api.refused("post", "workflow/test", {"name": name, "taskRefToMockOutput": mocks})
    assert found["validationErrors"][0]["path"].startswith("taskRefToMockOutput")


@pytest.mark.parametrize(("field", "value"), [("timeoutSeconds", 2**31), ("version", 2**31), ("version", 0)])
def test_a_definition_that_could_never_run_is_refused(api: Caller, field: str, value: int) -> None:
    found = api.refused(
        "post", "metadata/workflow", {"name": "big", "version": 1, "tasks": [simple("one")], field: value}
    )
    assert [problem["path"] for problem in found["validationErrors"]] == [field]
    task = {"name": "big", "retryDelaySeconds": 2**31}
    assert api.refused("post", "metadata/taskdefs", [task])["validationErrors"][0]["path"] == "[0].retryDelaySeconds"


def test_previews_say_what_would_run_again_and_change_nothing(api: Caller) -> None:
    two = unique("two")
    api.empty(
        "post", "metadata/workflow", {"name": two, "version": 1, "tasks": [simple("one", two), simple("other", two)]}
    )
    run = api.text("post", f"workflow/{two}", {})
    api.refused("get", f"workflow/{run}/preview/retry", status=409)
    for ref in ("one", "other"):
        api.text("post", f"tasks/{run}/{ref}/COMPLETED", {})
    _, second = api.json("get", f"workflow/{run}")["tasks"]
    found = api.json("get", f"workflow/{run}/preview/rerun?reRunFromTaskId={second['taskId']}")
    assert found == {
        "workflowId": run, "runsAgain": ["other"], "reopened": [], "deleted": [], "kept": ["one"], "revived": [],
    }  # fmt: skip
    assert api.json("get", f"workflow/{run}/preview/restart")["deleted"] == ["other"]
    assert api.json("get", f"workflow/{run}/status")["status"] == "COMPLETED"
    api.refused("get", f"workflow/{run}/preview/rerun")
    api.refused("get", f"workflow/{run}/preview/rerun?reRunFromTaskId=nonsense")
    api.refused("get", f"workflow/{run}/preview/rerun?reRunFromTaskId={UNKNOWN}")
    api.refused("get", f"workflow/{run}/preview/explode", status=404)
    api.refused("get", f"workflow/{UNKNOWN}/preview/restart", status=404)


def test_a_task_is_cancelled_by_its_reference(api: Caller, name: str) -> None:
    run = api.text("post", f"workflow/{name}", {})
    api.refused("put", f"workflow/{run}/canceltask/nobody", status=409)
    api.empty("put", f"workflow/{run}/canceltask/one?reason=enough")
    found = api.json("get", f"workflow/{run}")
    assert (found["status"], found["tasks"][0]["status"]) == ("TERMINATED", "CANCELED")
    assert found["tasks"][0]["reasonForIncompletion"] == "enough"


def test_an_input_over_the_limit_is_answered_with_413_and_starts_nothing(api: Caller, settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "WORKFLOW_PAYLOAD_MAX_BYTES": 100}
    name = register(simple("a"))
    (problem,) = api.refused("post", f"workflow/{name}", {"k": "x" * 100}, status=413)["validationErrors"]
    assert problem == {
        "path": "input",
        "message": "The workflow input of 108 bytes is over the limit of 100 bytes",
    }
    assert api.json("get", f"workflow/running/{name}") == []
    api.text("post", f"workflow/{name}", {"k": "x" * 92})
