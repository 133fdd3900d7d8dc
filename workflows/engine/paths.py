"""JSONPath after a root, compiled to steps: names, indexes, quoted keys, slices, wildcards, filters, `..name` and
`.length()`.

A definite path yields its value or null; one with a wildcard, slice, filter or `..` yields a list.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from workflows.engine.filters import FilterError, Parser, Test


class PathError(ValueError):
    """Unsupported or malformed syntax at `position`."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True, slots=True)
class Wildcard:
    pass


@dataclass(frozen=True, slots=True)
class Descend:
    name: str


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps the elements for which `test` holds; `templates` are the texts with expressions in it."""

    test: Test
    templates: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Function:
    name: str


@dataclass(frozen=True, slots=True)
class Path:
    """Steps of type str (key), int (index), slice, Wildcard, Descend, Function, or a template (a key to resolve)."""

    steps: tuple[Any, ...]
    definite: bool


MANY = (Wildcard, Descend, Filter, slice)
"""Steps after which a path yields a list."""

_NAME = re.compile(r"[^.\[\]()?*\s]+")
_DIGITS = r"[0-9]{1,18}"
_INDEX = re.compile(rf"\[\s*(-?{_DIGITS})\s*\]")
_SLICE = re.compile(rf"\[\s*((?:-?{_DIGITS})?)\s*:\s*((?:-?{_DIGITS})?)\s*\]")
_QUOTE = re.compile(r"\[\s*(['\"])")
_WHOLE = re.compile(rf"-?{_DIGITS}")
_END = re.compile(r"\s*\]")
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "length": lambda v: len(v) if isinstance(v, (list, dict, str)) else None,
    "size": lambda v: len(v) if isinstance(v, (list, dict, str)) else None,
    "min": lambda v: min(v) if _numbers(v) else None,
    "max": lambda v: max(v) if _numbers(v) else None,
    "sum": lambda v: _finite(sum(v)) if _numbers(v) else None,
    "avg": lambda v: _finite(sum(v) / len(v)) if _numbers(v) else None,
    "keys": lambda v: list(v) if isinstance(v, dict) else None,
}


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) in (int, float) for item in value)


def _finite(value: float) -> float | None:
    """A sum beyond what JSON can say is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse_path(text: str, key: Callable[[str], Any]) -> tuple[str, Path]:
    """(root, path) of the inside of an expression; `key` compiles quoted keys that hold expressions."""
    match = re.match(r"[^.\[]+", text)
    if match is None:
        raise PathError("expected a name", 0)
    root, position = match.group().strip(), match.end()
    steps: list[Any] = []
    definite = True
    while position < len(text):
        step, position = _step(text, position, key)
        definite = definite and not isinstance(step, MANY)
        steps.append(step)
    return root, Path(tuple(steps), definite)


def _step(text: str, position: int, key: Callable[[str], Any]) -> tuple[Any, int]:
    if text.startswith("..", position):
        match = _NAME.match(text, position + 2)
        if match is None:
            raise PathError("expected a name after '..'", position)
        return Descend(match.group()), match.end()
    if text[position] == ".":
        return _dotted(text, position)
    if text[position] != "[":
        raise PathError(f"expected '.' or '[', got {text[position]!r}", position)
    if text.startswith("[*]", position):
        return Wildcard(), position + 3
    quote = _QUOTE.match(text, position)
    if quote is not None:
        return _quoted(text, position, quote, key)
    for pattern, make in ((_INDEX, lambda m: int(m.group(1))), (_SLICE, _slice)):
        match = pattern.match(text, position)
        if match:
            return make(match), match.end()
    if text.startswith("[?(", position):
        return _filter(text, position, key)
    raise PathError("expected an index, a slice, '*' or a quoted key", position)


def _quoted(text: str, position: int, quote: re.Match[str], key: Callable[[str], Any]) -> tuple[Any, int]:
    """A key in quotes: a backslash takes the next character as it is; expressions inside keep their own quotes."""
    found, at = "", quote.end()
    while at < len(text) and text[at] != quote.group(1):
        if text.startswith("${", at):
            end = closing(text, at + 2)
            if end is None:
                break
            found += text[at : end + 1]
            at = end + 1
        else:
            at += text[at] == "\\"
            found += text[at : at + 1]
            at += 1
    if at >= len(text) or text[at] != quote.group(1):
        raise PathError("the quoted key is not closed", position)
    end_ = _END.match(text, at + 1)
    if end_ is None:
        raise PathError("expected ']' after the quoted key", at + 1)
    return key(found), end_.end()


def closing(text: str, position: int) -> int | None:
    """The brace that ends the expression whose inside starts at `position`."""
    depth = 0
    while position < len(text):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            if depth == 0:
                return position
            depth -= 1
        position += 1
    return None


def _filter(text: str, position: int, key: Callable[[str], Any]) -> tuple[Any, int]:
    templates: list[Any] = []

    def noted(inner: str) -> Any:
        made = key(inner)
        if not isinstance(made, str):
            templates.append(made)
        return made

    parser = Parser(text, position + 3, lambda below: parse_path(below, noted)[1], noted)
    try:
        test, end = parser.parse()
    except FilterError as error:
        raise PathError(str(error), error.position) from None
    return Filter(test, tuple(templates)), end


def _slice(match: re.Match[str]) -> slice:
    start, stop = (int(part) if part else None for part in match.groups())
    return slice(start, stop)


def _dotted(text: str, position: int) -> tuple[Any, int]:
    if text.startswith(".*", position):
        return Wildcard(), position + 2
    match = _NAME.match(text, position + 1)
    if match is None:
        raise PathError("expected a name after '.'", position)
    name, end = match.group(), match.end()
    if text.startswith("()", end):
        if name not in _FUNCTIONS:
            raise PathError(f"unknown function {name}()", position)
        return Function(name), end + 2
    return name, end


def walk(value: Any, path: Path, key: Callable[[Any], Any], start: int = 0) -> Any:
    """The value at a path; whatever is missing on the way gives null, or leaves a list shorter.

    A definite path may be walked from the step `start`, when those before it are done.
    """
    if path.definite:
        for step in path.steps[start:] if start else path.steps:
            if value is None:
                return None
            value = _one(value, step, key)
        return value
    found, many = [value], False
    for position, step in enumerate(path.steps):
        if isinstance(step, Function):
            made = _FUNCTIONS[step.name](found if many else next(iter(found), None))
            rest = path.steps[position + 1 :]
            return walk(made, Path(rest, not any(isinstance(s, MANY) for s in rest)), key)
        many = many or isinstance(step, MANY)
        found = [inner for outer in found for inner in _many(outer, step, key)]
    return found


def _one(value: Any, step: Any, key: Callable[[Any], Any]) -> Any:
    if isinstance(step, str):
        if isinstance(value, dict):
            return value.get(step)
        return None
    if isinstance(step, int):
        if isinstance(value, list) and -len(value) <= step < len(value):
            return value[step]
        return None
    if isinstance(step, Function):
        return _FUNCTIONS[step.name](value)
    name = as_key(key(step))
    if isinstance(value, list) and _WHOLE.fullmatch(name):
        return _one(value, int(name), key)
    return value.get(name) if isinstance(value, dict) else None


def as_key(value: Any) -> str:
    """The key that a resolved template names: as JSON writes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _many(value: Any, step: Any, key: Callable[[Any], Any]) -> Iterator[Any]:
    if isinstance(step, Wildcard):
        yield from _items(value)
    elif isinstance(step, slice):
        yield from value[step] if isinstance(value, list) else ()
    elif isinstance(step, Descend):
        yield from _descend(value, step.name)
    elif isinstance(step, Filter):
        yield from (item for item in _items(value) if step.test.holds(item, key, walk))
    else:
        found = _one(value, step, key)
        if found is not None or _has(value, step, key):
            yield found


def _has(value: Any, step: Any, key: Callable[[Any], Any]) -> bool:
    """Whether a null that was found stands there: it is an element like any other."""
    if isinstance(value, list):
        index = step if isinstance(step, int) else as_key(key(step)) if not isinstance(step, str) else ""
        return bool(_WHOLE.fullmatch(str(index))) and -len(value) <= int(index) < len(value)
    if not isinstance(value, dict) or isinstance(step, int):
        return False
    return (step if isinstance(step, str) else as_key(key(step))) in value


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _descend(value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, dict):
        if name in value:
            yield value[name]
        for item in value.values():
            yield from _descend(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _descend(item, name)
