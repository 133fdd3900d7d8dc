"""What may be registered as a task definition."""

from __future__ import annotations

from typing import Any

from workflows.engine.fields import unknown_in_task_definition
from workflows.engine.problems import MOST, Problem
from workflows.engine.schemas import check_schemas

_TASK_DEFINITION_NUMBERS = {
    "retryCount": 0, "retryDelaySeconds": 0, "timeoutSeconds": 0, "totalTimeoutSeconds": 0, "pollTimeoutSeconds": 0,
    "responseTimeoutSeconds": 1, "backoffScaleFactor": 1, "maxRetryDelaySeconds": 0, "backoffJitterMs": 0,
    "concurrentExecLimit": 0, "rateLimitPerFrequency": 0, "rateLimitFrequencyInSeconds": 0,
}  # fmt: skip
_TASK_DEFINITION_WORDS = {
    "retryLogic": ("FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF"),
    "timeoutPolicy": ("TIME_OUT_WF", "RETRY", "ALERT_ONLY"),
}


def validate_task_definition(definition: dict[str, Any]) -> list[Problem]:
    """Every problem of a task definition."""
    problems = []
    if not isinstance(definition.get("name"), str) or not definition["name"].strip():
        problems.append(Problem("name", "TaskDef name cannot be null or empty"))
    for name, least in _TASK_DEFINITION_NUMBERS.items():
        given = definition.get(name)
        if given is not None and (type(given) is not int or not least <= given <= MOST):
            problems.append(Problem(name, f"expected a whole number from {least} to {MOST}, got {given!r}"))
    for name, words in _TASK_DEFINITION_WORDS.items():
        if definition.get(name) not in (None, *words):
            problems.append(Problem(name, f"expected one of {', '.join(words)}, got {definition[name]!r}"))
    problems += unknown_in_task_definition(definition)
    problems += _semaphores(definition.get("semaphores"))
    problems += check_schemas(definition, enforced=False)
    if not problems:
        timeout, response = definition.get("timeoutSeconds") or 0, definition.get("responseTimeoutSeconds") or 0
        # An hour is what clients send for "not said"; the time-out comes first then.
        if timeout and response > timeout and response != 3600:
            problems.append(Problem("responseTimeoutSeconds", f"{response} is longer than timeoutSeconds {timeout}"))
    return problems


def _semaphores(given: Any) -> list[Problem]:
    """A list of names, or of {name, permits}."""
    if given is None:
        return []
    if not isinstance(given, list):
        return [Problem("semaphores", f"expected a list, got {type(given).__name__}")]
    problems = []
    for index, entry in enumerate(given):
        at = f"semaphores[{index}]"
        name, permits = (entry.get("name"), entry.get("permits")) if isinstance(entry, dict) else (entry, None)
        if not isinstance(name, str) or not name.strip():
            problems.append(Problem(at, f"expected the name of a semaphore, or its name and permits, got {entry!r}"))
        if permits is not None and (type(permits) is not int or not 1 <= permits <= MOST):
            problems.append(Problem(f"{at}.permits", f"expected a whole number from 1 to {MOST}, got {permits!r}"))
    return problems
