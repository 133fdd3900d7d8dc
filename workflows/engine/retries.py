"""Policies of a task: its definition's defaults, and the delay before its next attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from workflows.engine.blueprint import Blueprint, Node
    from workflows.engine.state import TaskView

_INTEGERS = {
    "retryDelaySeconds": 60,
    "backoffScaleFactor": 1,
    "maxRetryDelaySeconds": 0,
    "backoffJitterMs": 0,
    "timeoutSeconds": 0,
    "totalTimeoutSeconds": 0,
    "pollTimeoutSeconds": 0,
}


@dataclass(frozen=True, slots=True)
class Policy:
    """How often and when a task is tried again, and its deadlines in seconds (0: none)."""

    retry_count: int
    retry_logic: str
    retry_delay_seconds: int
    backoff_scale_factor: int
    max_retry_delay_seconds: int
    backoff_jitter_ms: int
    timeout_seconds: int
    total_timeout_seconds: int
    poll_timeout_seconds: int
    response_seconds: int
    timeout_policy: str

    def delay(self, attempt: int, task_id: UUID) -> float:
        """Seconds before the attempt after `attempt`; jitter follows from the id, so a decision repeats itself."""
        seconds = float(self.retry_delay_seconds)
        if self.retry_logic == "LINEAR_BACKOFF":
            seconds *= self.backoff_scale_factor * (attempt + 1)
        elif self.retry_logic == "EXPONENTIAL_BACKOFF":
            seconds *= 2.0 ** min(attempt, 60)
        cap = self.max_retry_delay_seconds or 2**31 - 1
        jitter = task_id.int % (self.backoff_jitter_ms + 1) / 1000 if self.backoff_jitter_ms else 0.0
        return min(min(seconds, cap) + jitter, cap)


def policy(definition: dict[str, Any] | None, override: Any, *, worker: bool) -> Policy:
    """The policy of a task; without a definition a worker's task has Conductor's defaults, an operator's none."""
    known = definition or {}
    defaults = (3, 3600) if worker or definition is not None else (0, 0)
    retries = override if isinstance(override, int) and override >= 0 else known.get("retryCount", defaults[0])
    numbers = {name: _number(known.get(name), default) for name, default in _INTEGERS.items()}
    return Policy(
        retry_count=_number(retries, defaults[0]),
        retry_logic=known.get("retryLogic") or "FIXED",
        retry_delay_seconds=numbers["retryDelaySeconds"],
        backoff_scale_factor=max(1, numbers["backoffScaleFactor"]),
        max_retry_delay_seconds=numbers["maxRetryDelaySeconds"],
        backoff_jitter_ms=numbers["backoffJitterMs"],
        timeout_seconds=numbers["timeoutSeconds"],
        total_timeout_seconds=numbers["totalTimeoutSeconds"],
        poll_timeout_seconds=numbers["pollTimeoutSeconds"],
        response_seconds=_number(known.get("responseTimeoutSeconds"), defaults[1]),
        timeout_policy=known.get("timeoutPolicy") or "TIME_OUT_WF",
    )


def policy_of(blueprint: Blueprint, node: Node, name: str) -> Policy:
    """The policy of a task that was made as `name`: a DYNAMIC task follows the definition of the task it became."""
    if node.type != "DYNAMIC" or name == node.name:
        return node.policy
    definition = node.spec.get("taskDefinition") or blueprint.task_definitions.get(name)
    return policy(definition, node.spec.get("retryCount"), worker=True)


def policy_for(blueprint: Blueprint, task: TaskView) -> Policy:
    """The policy of a task that exists; one made at run time carries its own definition."""
    if task.spec is None:
        node = blueprint.find(task.ref)
        return policy_of(blueprint, node, task.name) if node else policy(None, None, worker=True)
    definition = task.spec.get("taskDefinition") or blueprint.task_definitions.get(task.name)
    return policy(definition, task.spec.get("retryCount"), worker=True)


def _number(value: Any, default: int) -> int:
    return value if type(value) is int else default
