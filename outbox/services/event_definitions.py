"""What an event handler may say: checked when it is registered, filled in when its event comes."""

from __future__ import annotations

from typing import Any

from orchestrator.db import json
from workflows.engine.expressions import ExpressionError, compile_template, expressions, resolve
from workflows.engine.problems import Problem

ACTIONS = {
    "start_workflow": ("name",),
    "complete_task": (),
    "fail_task": (),
    "terminate_workflow": ("workflowId",),
    "update_workflow_variables": ("workflowId", "variables"),
}
"""Action -> what its body must have; the body stands under the action's own name."""
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
    if handler.get("condition") is not None and not isinstance(handler["condition"], str):
        problems.append(Problem("condition", f"expected a text, got {type(handler['condition']).__name__}"))
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


def _action(action: Any, path: str) -> list[Problem]:
    if not isinstance(action, dict):
        return [Problem(path, f"expected an object, got {type(action).__name__}")]
    kind = action.get("action")
    if kind not in ACTIONS:
        return [Problem(f"{path}.action", f"expected one of {', '.join(ACTIONS)}, got {kind!r:.40}")]
    body = action.get(kind)
    if not isinstance(body, dict):
        return [Problem(f"{path}.{kind}", f"expected an object, got {type(body).__name__}")]
    problems = [Problem(f"{path}.{kind}.{name}", "is missing") for name in ACTIONS[kind] if not body.get(name)]
    named = body.get("taskId") or (body.get("workflowId") and body.get("taskRefName"))
    if kind in ("complete_task", "fail_task") and not named:
        problems.append(Problem(f"{path}.{kind}", "expected a taskId, or a workflowId and a taskRefName"))
    try:
        list(expressions(compile_template(body)))
    except ExpressionError as error:
        problems.append(Problem(f"{path}.{kind}", f"{error} (at character {error.position})"))
    return problems


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
    """The body of an action with its expressions resolved against the payload."""
    scope = _PayloadScope(expand(payload) if action.get("expandInlineJSON") else payload)
    filled: dict[str, Any] = resolve(compile_template(action[action["action"]]), scope)
    return filled


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
