"""The difference of two versions of a definition: by the API, by command, and as a function."""

from __future__ import annotations

from io import StringIO
from typing import Any

from django.core.management import call_command

from tests.api.client import Caller, demo_api  # noqa: F401  (a fixture)
from tests.flows import fork, register, simple, unique
from workflows.services.comparing import compare


def one(*tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "w", "tasks": list(tasks), **fields}


def test_tasks_are_known_by_their_refs() -> None:
    old = one(simple("a"), simple("b", retryCount=1), simple("c"), timeoutSeconds=5)
    new = one(simple("new"), simple("a"), simple("b", retryCount=2, inputParameters={"x": 1}), description="d")
    assert compare(old, new) == {
        "fields": [{"path": "timeoutSeconds", "from": 5}, {"path": "description", "to": "d"}],
        "added": [{"ref": "new", "in": "tasks"}],
        "removed": [{"ref": "c", "in": "tasks"}],
        "moved": [],
        "changed": [{"ref": "b", "fields": [
            {"path": "retryCount", "from": 1, "to": 2}, {"path": "inputParameters", "to": {"x": 1}},
        ]}],
    }  # fmt: skip


def test_a_task_that_changes_its_block_or_its_order_has_moved() -> None:
    into = compare(one(simple("a"), *fork("f", [simple("b")])), one(*fork("f", [simple("a"), simple("b")])))
    assert into["moved"] == [{"ref": "a", "from": "tasks, first", "to": "f.forkTasks[0], first"}]
    turned = compare(one(simple("a"), simple("b")), one(simple("b"), simple("a")))
    assert {move["ref"] for move in turned["moved"]} == {"a", "b"}


def test_true_is_not_one() -> None:
    assert compare(one(simple("a", x=1)), one(simple("a", x=True)))["changed"]


def test_the_difference_of_registered_versions(api: Caller) -> None:
    name = register(simple("a"), name=unique("versions"))
    register(simple("a"), simple("b"), name=name, version=2)
    path = f"metadata/workflow/{name}/diff"
    answer = api.json("get", f"{path}?from=1&to=2")
    assert answer == {
        "name": name, "from": 1, "to": 2, "fields": [], "added": [{"ref": "b", "in": "tasks"}],
        "removed": [], "moved": [], "changed": [],
    }  # fmt: skip
    out = StringIO()
    call_command("diff_definition", name, "1", "2", stdout=out)
    assert out.getvalue() == "+ b  in tasks\n"
    out = StringIO()
    call_command("diff_definition", name, "2", "2", stdout=out)
    assert out.getvalue() == "no difference\n"
    assert api.json("get", f"{path}?from=1&to=9", status=404)["status"] == 404
    assert api.json("get", f"{path}?from=1", status=400)["validationErrors"][0]["path"] == "to"
