"""What an event handler may say: checked when it is registered, filled in when its event comes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from orchestrator.db import json
from orchestrator.scripts import ScriptError, check_script
from workflows.engine.expressions import ExpressionError, compile_template, expressions, resolve
from workflows.engine.problems import Problem

_TASK: dict[str, type] = {"workflowId": str, "taskId": str, "taskRefName": str, "output": dict, "reasonForIncompletion": str}
_START: dict[str, type] = {"name": str, "version": int, "correlationId": str, "input": dict, "taskToDomain": dict}
ACTIONS: dict[str, tuple[dict[str, type], tuple[str, ...]]] = {
    "start_workflow": (_START, ("name",)),
    "complete_task": (_TASK, ()),
    "fail_task": (_TASK, ()),
    "terminate_workflow": ({"workflowId": str, "terminationReason": str}, ("workflowId",)),
    "update_workflow_variables": ({"workflowId": str, "variables": dict}, ("workflowId", "variables")),
}
"""Action -> the fields of its body, and those it must have; the body stands under the action's own name."""
_KINDS = {str: "a text", int: "a whole number", dict: "an object"}
_PATHS = ("publish", "executions")
"""Words that stand where a handler's name would in the paths of the API."""
_FIELDS = {
    "name", "event", "condition", "evaluatorType", "actions", "active", "description", "ownerEmail", "orgId", "tags",
    "createdBy", "createTime", "updatedBy", "updateTime", "ownerApp",
}  # fmt: skip
_EVALUATORS = ("javascript", "graaljs")


def validate(handler: Any) -> list[Problem]:
    """The problems of a handler, each with its path."""
    if not isinstance(handler, dict):
        return [Problem("", f"expected an object, got {type(handler).__name__}")]
    problems = [Problem(name, "is not a field of an event handler") for name in sorted(set(handler) - _FIELDS)]
    problems += [
        Problem(name, f"expected a text, got {handler.get(name)!r:.40}")
        for name in ("name", "event")
        if not isinstance(handler.get(name), str) or not handler[name].strip()
    ]
    if isinstance(handler.get("event"), str) and ":" not in handler["event"]:
        problems.append(
            Problem("event", f"expected provider:name, such as conductor:workflow:sink, got {handler['event']!r}")
        )
    if handler.get("name") in _PATHS:
        problems.append(Problem("name", f"expected another name than {' and '.join(_PATHS)}, which are paths of the API"))
    problems += _condition(handler.get("condition"))
    if handler.get("evaluatorType") not in (None, "", *_EVALUATORS):
        problems.append(
            Problem("evaluatorType", f"expected one of {', '.join(_EVALUATORS)}, got {handler['evaluatorType']!r}")
        )
    if handler.get("active") not in (None, True, False):
        problems.append(Problem("active", f"expected true or false, got {handler['active']!r:.40}"))
    actions = handler.get("actions")
    if not isinstance(actions, list) or not actions:
        return [*problems, Problem("actions", "expected at least one action")]
    for position, action in enumerate(actions):
        problems += _action(action, f"actions[{position}]")
    return problems


def _condition(condition: Any) -> list[Problem]:
    if condition is None:
        return []
    if not isinstance(condition, str):
        return [Problem("condition", f"expected a text, got {type(condition).__name__}")]
    try:
        check_script(condition)
    except ScriptError as error:
        return [Problem("condition", f"expected JavaScript, got {condition!r:.60}: {error}")]
    return []


def _action(action: Any, path: str) -> list[Problem]:
    if not isinstance(action, dict):
        return [Problem(path, f"expected an object, got {type(action).__name__}")]
    kind = action.get("action")
    if not isinstance(kind, str) or kind not in ACTIONS:
        return [Problem(f"{path}.action", f"expected one of {', '.join(ACTIONS)}, got {kind!r:.40}")]
    body, path = action.get(kind), f"{path}.{kind}"
    if not isinstance(body, dict):
        return [Problem(path, f"expected an object, got {type(body).__name__}")]
    try:
        list(expressions(compile_template(body)))
    except ExpressionError as error:
        return [Problem(path, f"{error} (at character {error.position})")]
    return [Problem(f"{path}.{name}" if name else path, said) for name, said in _problems(kind, body)]


def _problems(kind: str, body: dict[str, Any], *, filled: bool = False) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) of an action's body, before or after its expressions are filled in."""
    fields, needed = ACTIONS[kind]
    for name, value in body.items():
        if value in (None, "", {}, []):
            continue
        if name not in fields:
            yield name, f"is not a field of {kind}"
        elif not (isinstance(value, fields[name]) and not isinstance(value, bool)) and (filled or not _is_open(value)):
            yield name, f"expected {_KINDS[fields[name]]}, got {value!r:.60}"
    for name in needed:
        if body.get(name) in ((None, "") if fields[name] is dict else (None, "", {}, [])):
            yield name, "is missing"
    domains = body.get("taskToDomain")
    if isinstance(domains, dict) and not all(isinstance(domain, str) for domain in domains.values()):
        yield "taskToDomain", "expected a text for each task"
    named = body.get("taskId") or (body.get("workflowId") and body.get("taskRefName"))
    if kind in ("complete_task", "fail_task") and not named:
        yield "", "expected a taskId, or a workflowId and a taskRefName"


def _is_open(value: Any) -> bool:
    """Whether a value is known only when its expressions are filled in."""
    return isinstance(value, str) and "${" in value


class _PayloadScope:
    """The fields of the payload are the roots."""

    null_text = ""

    def __init__(self, payload: dict[str, Any]) -> None:
        self.payload = payload

    def root(self, name: str) -> Any:
        return self.payload.get(name)

    def field(self, name: str, field: str) -> Any:
        found = self.payload.get(name)
        return found.get(field) if isinstance(found, dict) else None


def fill_in(action: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """The body of an action with its expressions resolved against the payload; raises ValueError when it cannot be done."""
    kind = action["action"]
    scope = _PayloadScope(expand(payload) if action.get("expandInlineJSON") else payload)
    filled: dict[str, Any] = resolve(compile_template(action[kind]), scope)
    fields = ACTIONS[kind][0]
    body = {name: _as(fields.get(name), value) for name, value in filled.items()}
    wrong = [f"{kind}.{name}: {said}" if name else f"{kind}: {said}" for name, said in _problems(kind, body, filled=True)]
    if wrong:
        raise ValueError("; ".join(wrong))
    json.dumps(body)
    return body


def _as(kind: type | None, value: Any) -> Any:
    """A number where a text is wanted is its text, and a text of digits where a number is wanted is the number."""
    if kind is str and isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return str(value)
    if kind is int and isinstance(value, str) and value.isdecimal():
        return int(value)
    return value


def expand(value: Any) -> Any:
    """The value with each text that is a JSON object or list replaced by what it says."""
    if isinstance(value, dict):
        return {key: expand(item) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
