"""Every field of a definition: known ones have an effect or inform people; others are refused by name, never inert.

An empty value (null, false, 0, "", [], {}) says nothing, so it is always let pass: clients send their defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from workflows.engine.blueprint import OPERATORS, SYSTEM_TASKS
from workflows.engine.problems import Problem

NOTES = frozenset(
    {"description", "metadata", "ownerApp", "ownerEmail", "createdBy", "updatedBy", "createTime", "updateTime", "tags"}
)
"""Kept and shown, for people and editors."""
WORKFLOW = frozenset(
    {"name", "version", "tasks", "inputParameters", "outputParameters", "inputTemplate", "variables", "failureWorkflow",
     "failureWorkflowVersion", "schemaVersion", "restartable", "timeoutSeconds", "timeoutPolicy", "rateLimitConfig",
     "maxConcurrentTasks", "searchAttributes", "inputSchema", "outputSchema", "enforceSchema",
     "workflowStatusListenerEnabled", "workflowStatusListenerSink", "maskedFields"}
)  # fmt: skip
"""Fields of a workflow that do something."""
TASK = frozenset(
    {"name", "taskReferenceName", "type", "inputParameters", "optional", "permissive", "startDelay", "retryCount",
     "taskDefinition", "compensateWith", "onStateChange"}
)  # fmt: skip
"""Fields that do something in every task."""
TASK_DEFINITION = frozenset(
    {"name", "retryCount", "retryLogic", "retryDelaySeconds", "backoffScaleFactor", "maxRetryDelaySeconds",
     "backoffJitterMs", "timeoutSeconds", "timeoutPolicy", "totalTimeoutSeconds", "pollTimeoutSeconds",
     "responseTimeoutSeconds", "inputTemplate", "concurrentExecLimit", "rateLimitPerFrequency",
     "rateLimitFrequencyInSeconds", "semaphores", "inputKeys", "outputKeys", "inputSchema", "outputSchema",
     "enforceSchema"}
)  # fmt: skip
"""Fields of a task definition that do something; the keys inform people."""
_JOIN = frozenset({"joinOn", "joinMode"})
_DYNAMIC_FORK = frozenset({"dynamicForkTasksParam", "dynamicForkTasksInputParamName", "dynamicForkJoinTasksParam"})
TYPED: dict[str, frozenset[str]] = {
    "SWITCH": frozenset({"evaluatorType", "expression", "decisionCases", "defaultCase"}),
    "DECISION": frozenset({"caseValueParam", "caseExpression", "decisionCases", "defaultCase"}),
    "FORK_JOIN": frozenset({"forkTasks"}),
    "FORK_JOIN_DYNAMIC": _DYNAMIC_FORK,
    "JOIN": _JOIN,
    "EXCLUSIVE_JOIN": _JOIN | {"defaultExclusiveJoinTask"},
    "DO_WHILE": frozenset({"loopOver", "loopCondition", "items", "evaluatorType"}),
    "SUB_WORKFLOW": frozenset({"subWorkflowParam"}),
    "DYNAMIC": frozenset({"dynamicTaskNameParam"}),
    "EVENT": frozenset({"sink", "asyncComplete"}),
    "HTTP": frozenset({"asyncComplete"}),
}
"""Fields that do something in tasks of one type."""
_ELSEWHERE = frozenset().union(*TYPED.values())
_REFUSED = {
    "cacheConfig": "results are not cached",
    "rateLimited": "limit a task in its task definition, by rateLimitPerFrequency or concurrentExecLimit",
    "inputSchema": "a schema stands in the task definition",
    "outputSchema": "a schema stands in the task definition",
    "cacheKey": "results are not cached",
    "isolationGroupId": "run workers of their own for a domain instead, by taskToDomain",
    "executionNameSpace": "run workers of their own for a domain instead, by taskToDomain",
    "runtimeMetadata": "name secrets where they are used, as ${workflow.secrets.NAME}",
    "baseType": "a task definition has no type; the task that uses it has",
    "joinStatus": "a JOIN's status follows from the tasks that it joins",
    "inputExpression": "write expressions into inputParameters",
}
_HARMLESS = frozenset({"callbackFromWorker", "enforceSchema", "taskStatusListenerEnabled"})
"""True by default in clients' models; enforceSchema means nothing in a task, whose schemas stand in its definition."""


def unknown_in_workflow(definition: dict[str, Any]) -> Iterator[Problem]:
    """The fields of a workflow that would change nothing."""
    for name, value in definition.items():
        if value and name not in WORKFLOW | NOTES | _HARMLESS:
            yield Problem(name, _REFUSED.get(name) or _unknown(name, WORKFLOW | NOTES, "a workflow"))


def unknown_in_task(task: dict[str, Any], path: str, following: Any = None) -> Iterator[Problem]:
    """The fields of a task that would change nothing; a worker's own type may complete when it likes.

    SDKs repeat the list of a JOIN on the fork that it follows.
    """
    type_ = str(task.get("type") or "SIMPLE")
    own = TASK | NOTES | TYPED.get(type_, frozenset())
    for name, value in task.items():
        if not value or name in own or name in _HARMLESS:
            continue
        if name == "joinOn" and type_ == "FORK_JOIN":
            if not isinstance(following, dict) or following.get("joinOn") != value:
                yield Problem(f"{path}.{name}", "expected what the JOIN behind it says: a FORK_JOIN itself joins nothing")
        elif name == "asyncComplete":
            yield from _async(type_, f"{path}.{name}")
        elif name in _REFUSED:
            yield Problem(f"{path}.{name}", _REFUSED[name])
        elif name in _ELSEWHERE:
            yield Problem(f"{path}.{name}", f"a {type_} has no {name}")
        else:
            yield Problem(f"{path}.{name}", _unknown(name, own, f"a {type_}"))


def unknown_in_task_definition(definition: dict[str, Any]) -> Iterator[Problem]:
    """The fields of a task definition that would change nothing."""
    for name, value in definition.items():
        if value and name not in TASK_DEFINITION | NOTES | _HARMLESS:
            said = _REFUSED.get(name) or _unknown(name, TASK_DEFINITION, "a task definition")
            yield Problem(name, said)


def _async(type_: str, path: str) -> Iterator[Problem]:
    if type_ in OPERATORS | SYSTEM_TASKS:
        yield Problem(path, f"a {type_} ends by itself; let a HUMAN or a WAIT follow it, which others complete")


def _unknown(name: str, known: frozenset[str], what: str) -> str:
    near = get_close_matches(name, sorted(known), 1)
    return f"{what} has no field {name!r}" + (f"; is {near[0]!r} meant?" if near else "")
