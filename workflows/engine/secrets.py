"""`${workflow.secrets.NAME}`: found in a definition's own words, and filled in only in a copy that leaves the database.

Stored input keeps the reference as text. A reference that came in as data (an input, another task's output) is not one
that the definition wrote, and stays text for ever: whoever may start a run cannot read a secret by it.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from workflows.engine.expressions import (
    Concatenation,
    Expression,
    Mapping,
    Sequence,
    Template,
    as_text,
    expressions,
)
from workflows.engine.paths import walk


class SecretError(ValueError):
    """A reference that cannot be filled in; the message names the secret and never its value."""


def is_secret(expression: Expression) -> bool:
    """Whether an expression refers to a secret."""
    return expression.root == "workflow" and expression.path.steps[:1] == ("secrets",)


def secret_names(template: Template) -> frozenset[str]:
    """Names of the secrets that a template refers to."""
    return frozenset(
        str(found.path.steps[1]) for found in expressions(template) if is_secret(found) and len(found.path.steps) > 1
    )


def reveal(template: Template, stored: Any, values: dict[str, str]) -> Any:
    """A copy of what a template made, with its own references filled in; raises SecretError."""
    if isinstance(template, Mapping) and isinstance(stored, dict):
        found = dict(stored)
        for key, item in template.items:
            if key in found:
                found[key] = reveal(item, found[key], values)
        return found
    if isinstance(template, Sequence) and isinstance(stored, list) and len(stored) == len(template.items):
        return [reveal(item, part, values) for item, part in zip(template.items, stored, strict=True)]
    if isinstance(template, Expression):
        return _value(template, values) if is_secret(template) and stored == template.text else stored
    if isinstance(template, Concatenation) and isinstance(stored, str):
        for part in template.parts:
            if isinstance(part, Expression) and is_secret(part) and part.text in stored:
                stored = stored.replace(part.text, as_text(_value(part, values)))
        return stored
    return stored


def _value(expression: Expression, values: dict[str, str]) -> Any:
    steps = expression.path.steps
    if len(steps) < 2 or not isinstance(steps[1], str):
        raise SecretError(f"{expression.text}: expected the name of a secret after workflow.secrets")
    value = values.get(steps[1])
    if value is None:
        raise SecretError(f"{expression.text}: there is no secret {steps[1]!r} in this namespace")
    if len(steps) == 2:
        return value
    try:
        document = {"secrets": {steps[1]: json.loads(value)}}
    except ValueError:
        raise SecretError(f"{expression.text}: the secret {steps[1]!r} is not JSON, so it has no parts") from None
    return walk(document, expression.path, lambda _: _refuse(expression))


def _refuse(expression: Expression) -> NoReturn:
    raise SecretError(f"{expression.text}: the path inside a secret may not depend on other values")
