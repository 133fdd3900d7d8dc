"""The key under which a workflow's runs are limited, from what is known at its start."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from workflows.engine.expressions import ExpressionError, as_text, compile_template, expressions, resolve
from workflows.engine.masked_fields import masked_fields, masked_in
from workflows.engine.problems import MOST, Problem

POLICIES = ("QUEUE", "REJECT")


@dataclass(slots=True)
class _StartScope:
    """Only the workflow is a root: no task has run."""

    workflow: dict[str, Any]
    null_text: str = ""

    def root(self, name: str) -> Any:
        return self.workflow if name == "workflow" else None

    def field(self, name: str, field: str) -> Any:
        return self.workflow.get(field) if name == "workflow" else None


def rate_limit(definition: dict[str, Any], workflow: dict[str, Any]) -> tuple[str, int] | None:
    """(key, most runs at a time) of a run, or None without a limit; a missing key is the empty one, which all share.

    `workflow` holds the fields that a key may name: input, correlationId, name, version, priority, variables.
    """
    config = definition.get("rateLimitConfig")
    if not isinstance(config, dict) or not config.get("concurrentExecLimit"):
        return None
    value = resolve(compile_template(config.get("rateLimitKey")), _StartScope(workflow))
    key = as_text(value, "")
    if masked_in(masked_fields(definition), config.get("rateLimitKey")):  # by a name that came from the run's parent
        key = sha256(key.encode()).hexdigest()
    return key, int(config["concurrentExecLimit"])


def rejects(definition: dict[str, Any]) -> bool:
    """Whether a run beyond the limit is refused rather than queued."""
    return bool((definition.get("rateLimitConfig") or {}).get("policy") == "REJECT")


def validate_limits(definition: dict[str, Any]) -> list[Problem]:
    """The problems of a workflow's own limits."""
    problems = []
    most = definition.get("maxConcurrentTasks")
    if most is not None and (type(most) is not int or not 0 <= most <= MOST):
        problems.append(Problem("maxConcurrentTasks", f"expected a whole number from 0 to {MOST}, got {most!r}"))
    config = definition.get("rateLimitConfig")
    if config is None:
        return problems
    if not isinstance(config, dict):
        return [*problems, Problem("rateLimitConfig", f"expected an object, got {type(config).__name__}")]
    limit = config.get("concurrentExecLimit")
    if limit is not None and (type(limit) is not int or not 0 <= limit <= MOST):
        at = "rateLimitConfig.concurrentExecLimit"
        problems.append(Problem(at, f"expected a whole number from 0 to {MOST}, got {limit!r}"))
    if config.get("policy") not in (None, *POLICIES):
        problems.append(Problem("rateLimitConfig.policy", f"expected QUEUE or REJECT, got {config['policy']!r}"))
    return problems + _key_problems(config.get("rateLimitKey"))


def _key_problems(key: Any) -> list[Problem]:
    at = "rateLimitConfig.rateLimitKey"
    if key is None:
        return []
    if not isinstance(key, str):
        return [Problem(at, f"expected a text, got {type(key).__name__}")]
    try:
        found = list(expressions(compile_template(key)))
    except ExpressionError as error:
        return [Problem(at, f"{error} (at character {error.position})")]
    return [
        Problem(at, f"{one.text}: only workflow.* is known when a run starts")
        for one in found
        if one.root != "workflow" or one.path.steps[:1] in (("secrets",), ("output",))
    ]
