"""`maskedFields`: names of fields whose values no reader of a run is shown; the engine and workers have the real ones.

Names go down: what a run starts (a child, a START_WORKFLOW's run, its failure workflow, what handlers start for its
events) masks its own fields and those of the run it comes from. They do not go up: a parent names what it gets back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workflows.engine.expressions import ExpressionError, compile_template, expressions
from workflows.engine.paths import Descend
from workflows.engine.problems import Problem

FIELD = "masked_fields"
"""Under it an effect carries the names on, to what it starts and to those who show the effect itself."""


def masked_fields(definition: dict[str, Any]) -> frozenset[str]:
    """The names that a definition masks."""
    return _texts(definition.get("maskedFields"))


def carried(payload: dict[str, Any]) -> frozenset[str]:
    """The names that came with an effect."""
    return _texts(payload.get(FIELD))


def carrying(payload: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The payload of an effect with the names of its run; without any it is left as it is."""
    return {**payload, FIELD: sorted(names)} if names else payload


def with_masked(definition: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The definition with these names masked as well."""
    own = masked_fields(definition)
    return definition if names <= own else {**definition, "maskedFields": sorted(own | names)}


def hides(names: frozenset[str], path: str) -> bool:
    """Whether a path into a run's input leads to or through a masked field."""
    return not names.isdisjoint(path.split(".")[1:])


def mask_problems(definition: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong with `maskedFields`, and what would show the value of one elsewhere."""
    given = definition.get("maskedFields")
    if given is None:
        return
    if not isinstance(given, list):
        yield Problem("maskedFields", f"expected a list of field names, got {type(given).__name__} {str(given)[:60]!r}")
        return
    for position, name in enumerate(given):
        if not isinstance(name, str) or not name.strip():
            yield Problem(f"maskedFields[{position}]", f"expected the name of a field, got {str(name)[:60]!r}")
    names = masked_fields(definition)
    declared = definition.get("searchAttributes")
    for position, path in enumerate(declared if isinstance(declared, list) else ()):
        if isinstance(path, str) and hides(names, path):
            said = f"{path} is masked by maskedFields; a search for its values would show them"
            yield Problem(f"searchAttributes[{position}]", said)
    config = definition.get("rateLimitConfig")
    for text in masked_in(names, config.get("rateLimitKey") if isinstance(config, dict) else None):
        yield Problem("rateLimitConfig.rateLimitKey", f"{text} is masked by maskedFields, and a key is shown")


def masked_in(names: frozenset[str], key: Any) -> list[str]:
    """The expressions of a text that name a masked field; what is wrong with it otherwise is said elsewhere."""
    if not names or not isinstance(key, str):
        return []
    try:
        found = list(expressions(compile_template(key)))
    except ExpressionError:
        return []
    return [one.text for one in found if any(_named(step) in names for step in one.path.steps[1:])]


def _named(step: Any) -> str | None:
    return step.name if isinstance(step, Descend) else step if isinstance(step, str) else None


def _texts(value: Any) -> frozenset[str]:
    return frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list) else frozenset()
