"""`${...}` in values: parsed once at compile time, resolved against a scope with types kept.

A string that is exactly one expression keeps its value's type; embedded ones concatenate as text.
`$${x}` is the literal `${x}`. Nested expressions resolve inner first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from workflows.engine.paths import Filter, Path, PathError, closing, parse_path, walk

MOST_CHARACTERS = 4096
"""Of one expression: each nesting in it is looked through again."""


class Scope(Protocol):
    """Where roots come from; `root` may raise to ask for rows that were not read."""

    null_text: str

    def root(self, name: str) -> Any: ...

    def field(self, name: str, field: str) -> Any:
        """`root(name)[field]`, without building the rest."""


class ExpressionError(ValueError):
    """An expression that cannot be parsed; `position` counts characters from the start of the string."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True, slots=True)
class Expression:
    """One `${root.path}`; `text` is the source with its braces."""

    text: str
    root: str
    path: Path
    position: int

    def resolve(self, scope: Scope) -> Any:
        steps = self.path.steps
        if self.root == "workflow" and steps[:1] == ("secrets",):
            return self.text  # stays a reference; resolved only in the copy handed to a worker
        if self.path.definite and steps and type(steps[0]) is str:
            first = scope.field(self.root, steps[0])
            return walk(first, self.path, lambda template: resolve(template, scope), 1) if len(steps) > 1 else first
        return walk(scope.root(self.root), self.path, lambda template: resolve(template, scope))


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Text with expressions in it."""

    parts: tuple[str | Expression, ...]

    def resolve(self, scope: Scope) -> str:
        null = scope.null_text
        return "".join(part if isinstance(part, str) else as_text(part.resolve(scope), null) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Mapping:
    items: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A value without any expression: shared, never copied."""

    value: Any


Template = Expression | Concatenation | Mapping | Sequence | Constant


def as_text(value: Any, null_text: str = "null") -> str:
    """A value inside text: strings as they are, everything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return null_text
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def compile_template(value: Any) -> Template:
    """Parse a JSON value once; raises ExpressionError with the position in its string."""
    if isinstance(value, str):
        return _compile_text(value)
    if isinstance(value, dict):
        items = tuple((key, compile_template(item)) for key, item in value.items())
        return Constant(value) if all(isinstance(item, Constant) for _, item in items) else Mapping(items)
    if isinstance(value, list):
        parts = tuple(compile_template(item) for item in value)
        return Constant(value) if all(isinstance(part, Constant) for part in parts) else Sequence(parts)
    return Constant(value)


def resolve(template: Template, scope: Scope) -> Any:
    """The value of a template."""
    if isinstance(template, Constant):
        return template.value
    if isinstance(template, Mapping):
        return {key: resolve(item, scope) for key, item in template.items}
    if isinstance(template, Sequence):
        return [resolve(item, scope) for item in template.items]
    return template.resolve(scope)


def expressions(template: Template) -> Iterator[Expression]:
    """Every expression in a template, nested ones included."""
    if isinstance(template, Expression):
        yield template
        for step in template.path.steps:
            for inner in step.templates if isinstance(step, Filter) else (step,):
                if isinstance(inner, (Expression, Concatenation)):
                    yield from expressions(inner)
    elif isinstance(template, Concatenation):
        for part in template.parts:
            if isinstance(part, Expression):
                yield from expressions(part)
    elif isinstance(template, Mapping):
        for _, item in template.items:
            yield from expressions(item)
    elif isinstance(template, Sequence):
        for item in template.items:
            yield from expressions(item)


def _compile_text(text: str) -> Template:
    if "${" not in text:
        return Constant(text)
    parts: list[str | Expression] = []
    literal, position = "", 0
    while position < len(text):
        if text.startswith("$${", position):
            end = _closing(text, position + 3)
            literal += text[position + 1 : end + 1]
            position = end + 1
        elif text.startswith("${", position):
            end = _closing(text, position + 2)
            if literal:
                parts.append(literal)
                literal = ""
            parts.append(_parse(text[position : end + 1], position))
            position = end + 1
        else:
            literal += text[position]
            position += 1
    if literal:
        parts.append(literal)
    if len(parts) == 1:
        only = parts[0]
        return only if isinstance(only, Expression) else Constant(only)
    return Concatenation(tuple(parts))


def _closing(text: str, position: int) -> int:
    """The brace that ends the expression whose inside starts at `position`; raises where there is none."""
    end = closing(text, position)
    if end is None:
        raise ExpressionError("the expression is not closed: expected '}'", position - 2)
    if end - position > MOST_CHARACTERS:
        raise ExpressionError(f"the expression is longer than {MOST_CHARACTERS} characters", position - 2)
    return end


def _parse(text: str, position: int) -> Expression:
    inside = text[2:-1].strip()
    if not inside:
        raise ExpressionError("the expression is empty", position)
    nested: Callable[[str], Any] = lambda key: _compile_text(key) if "${" in key else key  # noqa: E731
    try:
        root, path = parse_path(inside, nested)
    except PathError as error:
        raise ExpressionError(f"{text}: {error}", position + 2 + error.position) from None
    except RecursionError:
        raise ExpressionError("the expression is nested too deeply", position) from None
    return Expression(text, root, path, position)
