"""What the inputParameters of a HUMAN task say: whose it is, which answer fits, and what its deadline does.

assignee         the name of a user, or `key:NAME` of an API key
candidateUsers   a list of such names: any of them may claim it
candidateGroups  a list of groups, whose members may
form             a JSON Schema (2020-12): an answer that does not fit is refused, and the task stays open
deadlineSeconds  counted from when the task is reached, for each attempt anew
escalateTo       a name, or `group:NAME`: whose the task is when the deadline passes
onDeadline       ESCALATE (meant where escalateTo stands) or FAIL (meant otherwise)

Without an assignee and candidates it is open to all who may work. Everything else is data for the person.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from workflows.engine.commands import Inbox
from workflows.engine.problems import MOST
from workflows.engine.rows import TaskError
from workflows.engine.schemas import Schema

GROUP = "group:"
_MOST_NAMES = 100
_MOST_CHARACTERS = 200
Problems = Iterator[tuple[str, str]]


def problems(given: dict[str, Any], *, resolved: bool = False) -> Problems:
    """(path, message) of what is wrong; expressions are let pass until they are `resolved`, null says nothing."""
    said = {name: value for name, value in given.items() if value is not None and (resolved or not _open(value))}
    yield from check_names(said)
    if "escalateTo" in said:
        target = said["escalateTo"]
        yield from _name(target.removeprefix(GROUP) if isinstance(target, str) else target, "escalateTo")
    if "form" in said:
        yield from _form(said["form"])
    seconds = said.get("deadlineSeconds", 1)
    if type(seconds) not in (int, float) or not 0 < seconds <= MOST:
        yield "deadlineSeconds", f"expected a number of seconds up to {MOST}, got {seconds!r:.40}"
    if said.get("onDeadline", "FAIL") not in ("ESCALATE", "FAIL"):
        yield "onDeadline", f"expected ESCALATE or FAIL, got {said['onDeadline']!r:.40}"
    if said.get("onDeadline") == "ESCALATE" and given.get("escalateTo") is None:
        yield "escalateTo", "ESCALATE needs an escalateTo"
    if resolved:
        return  # what resolved to nothing leaves the rest without effect, as its author wished
    if said.get("onDeadline") == "FAIL" and "escalateTo" in given:
        yield "escalateTo", "nobody gets the task where onDeadline is FAIL"
    for name in ("escalateTo", "onDeadline"):
        if name in said and "deadlineSeconds" not in given:
            yield name, "has no effect without deadlineSeconds"


def check_names(given: dict[str, Any]) -> Problems:
    """What is wrong with the names of an assignment."""
    if given.get("assignee") is not None:
        yield from _name(given["assignee"], "assignee")
    for field in ("candidateUsers", "candidateGroups"):
        names = given.get(field)
        if names is None:
            continue
        if not isinstance(names, list):
            yield field, f"expected a list of names, got {names!r:.40}"
        elif len(names) > _MOST_NAMES:
            yield field, f"expected at most {_MOST_NAMES} names, got {len(names)}"
        else:
            for index, name in enumerate(names):
                yield from _name(name, f"{field}[{index}]")


def inbox(given: dict[str, Any], workflow_name: str, now: datetime) -> Inbox:
    """The inbox row of a task with this input; raises TaskError."""
    found = [f"{path}: {message}" for path, message in problems(given, resolved=True)]
    if found:
        raise TaskError("; ".join(found))
    seconds = given.get("deadlineSeconds")
    return Inbox(
        workflow_name,
        given.get("assignee"),
        tuple(dict.fromkeys(given.get("candidateUsers") or ())),
        tuple(dict.fromkeys(given.get("candidateGroups") or ())),
        None if seconds is None else now + timedelta(seconds=seconds),
    )


def escalation(given: dict[str, Any]) -> tuple[str | None, str | None] | None:
    """(user, group) that gets the task when its deadline passes; None for a task that fails then."""
    target = given.get("escalateTo")
    if target is None or given.get("onDeadline") == "FAIL":
        return None
    return (None, target.removeprefix(GROUP)) if target.startswith(GROUP) else (target, None)


def misfits(given: Any, answer: Any, what: str) -> list[tuple[str, str]]:
    """(path, message) of where an answer does not fit the form in the task's input."""
    form = given.get("form") if isinstance(given, dict) else None
    if not form:
        return []
    found = Schema(form).violations({} if answer is None else answer)
    return [(f"{what}.{path}" if path else what, said) for path, said in found]


def _name(name: Any, path: str) -> Problems:
    if not isinstance(name, str) or not name.strip():
        yield path, f"expected a name, got {name!r:.40}"
    elif len(name) > _MOST_CHARACTERS:
        yield path, f"expected a name of at most {_MOST_CHARACTERS} characters, got {len(name)}"


def _form(form: Any) -> Problems:
    if not isinstance(form, dict):
        yield "form", f"expected a JSON Schema, got {type(form).__name__}"
        return
    try:
        Schema(form)
    except ValueError as error:
        yield "form", f"expected a JSON Schema: {error}"


def _open(value: Any) -> bool:
    """Whether a value has an expression anywhere, so that only its run can tell what it is."""
    if isinstance(value, dict):
        return any(map(_open, value.values()))
    if isinstance(value, list):
        return any(map(_open, value))
    return isinstance(value, str) and "${" in value
