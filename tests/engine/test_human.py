"""What the inputParameters of a HUMAN task may say, checked when it is registered and again when it is reached."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from workflows.engine.human import inbox, misfits
from workflows.engine.rows import TaskError
from workflows.engine.validation import validate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
AT = "tasks[0].inputParameters."


def registered(**given: Any) -> list[tuple[str, str]]:
    task = {"name": "h", "taskReferenceName": "h", "type": "HUMAN", "inputParameters": given}
    return [(p.path.removeprefix(AT), p.message) for p in validate({"name": "w", "version": 1, "tasks": [task]})]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"assignee": "ann", "anything": [1]},
        {"assignee": None, "form": None, "candidateUsers": None, "deadlineSeconds": None},
        {"candidateUsers": ["ann", "key:robot"], "candidateGroups": ["finance"], "form": FORM},
        {"deadlineSeconds": 60, "escalateTo": "bob"},
        {"deadlineSeconds": 0.5, "escalateTo": "group:managers", "onDeadline": "ESCALATE"},
        {"deadlineSeconds": 60, "onDeadline": "FAIL"},
        {"deadlineSeconds": 60},
        {"assignee": "${workflow.input.who}", "candidateGroups": "${workflow.input.groups}",
         "form": "${workflow.input.form}", "deadlineSeconds": "${workflow.input.seconds}"},
        {"form": {"enum": "${workflow.input.choices}"}},
    ],
)  # fmt: skip
def test_what_may_be_registered(given: dict[str, Any]) -> None:
    assert registered(**given) == []


@pytest.mark.parametrize(
    ("given", "path", "said"),
    [
        ({"assignee": 5}, "assignee", "expected a name, got 5"),
        ({"assignee": " "}, "assignee", "expected a name"),
        ({"assignee": "x" * 201}, "assignee", "200"),
        ({"candidateUsers": "ann"}, "candidateUsers", "expected a list of names, got 'ann'"),
        ({"candidateGroups": ["a", 5]}, "candidateGroups[1]", "expected a name, got 5"),
        ({"candidateGroups": ["a"] * 101}, "candidateGroups", "at most 100"),
        ({"form": {"type": "no such type"}}, "form", "expected a JSON Schema"),
        ({"form": {"$ref": "https://example.com/form"}}, "form", "expected a JSON Schema"),
        ({"form": [FORM]}, "form", "expected a JSON Schema, got list"),
        ({"deadlineSeconds": 0}, "deadlineSeconds", "expected a number of seconds"),
        ({"deadlineSeconds": True}, "deadlineSeconds", "expected a number of seconds"),
        ({"deadlineSeconds": 2**31}, "deadlineSeconds", "expected a number of seconds"),
        ({"deadlineSeconds": float("nan")}, "deadlineSeconds", "expected a number of seconds"),
        ({"deadlineSeconds": "soon"}, "deadlineSeconds", "expected a number of seconds"),
        ({"deadlineSeconds": 9, "onDeadline": "CRY"}, "onDeadline", "expected ESCALATE or FAIL, got 'CRY'"),
        ({"deadlineSeconds": 9, "onDeadline": "ESCALATE"}, "escalateTo", "ESCALATE needs an escalateTo"),
        ({"deadlineSeconds": 9, "escalateTo": "group:"}, "escalateTo", "expected a name"),
        ({"deadlineSeconds": 9, "escalateTo": "bob", "onDeadline": "FAIL"}, "escalateTo", "onDeadline is FAIL"),
        ({"escalateTo": "bob"}, "escalateTo", "deadlineSeconds"),
        ({"onDeadline": "FAIL"}, "onDeadline", "deadlineSeconds"),
    ],
)
def test_what_may_not(given: dict[str, Any], path: str, said: str) -> None:
    ((found, message),) = registered(**given)
    assert found == path
    assert said in message


def test_what_is_reached_is_checked_without_its_expressions() -> None:
    made = inbox({"assignee": "ann", "candidateGroups": ["a", "b", "a"], "deadlineSeconds": 60}, "w", NOW)
    assert (made.workflow_name, made.assignee, made.users, made.groups) == ("w", "ann", (), ("a", "b"))
    assert made.due == NOW + timedelta(seconds=60)
    assert inbox({"assignee": None, "escalateTo": "bob"}, "w", NOW).due is None, "what resolved to nothing says nothing"
    with pytest.raises(TaskError, match="deadlineSeconds: expected a number of seconds"):
        inbox({"deadlineSeconds": "${later}"}, "w", NOW)
    with pytest.raises(TaskError, match="form: expected a JSON Schema"):
        inbox({"form": {"type": 5}}, "w", NOW)


def test_an_answer_fits_the_form_or_is_told_where_it_does_not() -> None:
    given = {"form": FORM}
    assert misfits(given, {"ok": True}, "output") == []
    ((path, message),) = misfits(given, {"ok": "yes"}, "output")
    assert path == "output.ok" and "boolean" in message
    ((path, message),) = misfits(given, None, "output")
    assert path == "output" and "ok" in message
    assert misfits({}, {"anything": 1}, "output") == []
