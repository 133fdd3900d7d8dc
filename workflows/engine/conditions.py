"""The port for conditions written in JavaScript: the engine names what it needs, others bring the interpreter."""

from __future__ import annotations

from typing import Any, Protocol

from workflows.engine.expressions import as_text


class ScriptError(Exception):
    """A script that failed; the text is the reason people read."""


class Evaluator(Protocol):
    """Evaluates `source` with `scope` as `$`; whatever it raises fails the task that asked, never the pass."""

    def __call__(self, source: str, scope: dict[str, Any], /) -> Any: ...


def as_case(value: Any) -> str:
    """The name of the case that a value chooses: whole numbers without a fraction, JSON's words for the rest."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return as_text(value)


def is_true(value: Any) -> bool:
    """Whether a loop's condition holds: true, or a number above zero."""
    return value if isinstance(value, bool) else isinstance(value, (int, float)) and value > 0
