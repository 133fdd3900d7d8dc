"""Filters of paths: `[?(@.a == 'x' && (@.b > 1 || !@.c))]`, parsed once to a tree of tests."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Key = Callable[[Any], Any]
"""Resolves a template."""
Walk = Callable[[Any, Any, Key], Any]
"""The value of a compiled path below an element."""


class FilterError(ValueError):
    """Unsupported or malformed syntax at `position`."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True, slots=True)
class Operand:
    """A path below the element, or a literal, which may be a template."""

    path: Any
    literal: Any = None

    def value(self, element: Any, key: Key, walk: Walk) -> Any:
        if self.path is not None:
            return walk(element, self.path, key)
        plain = self.literal is None or isinstance(self.literal, (str, int, float))
        return self.literal if plain else key(self.literal)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`; without an operator: whether the left side is there."""

    left: Operand
    op: str | None = None
    right: Operand | None = None

    def holds(self, element: Any, key: Key, walk: Walk) -> bool:
        left = self.left.value(element, key, walk)
        if self.op is None or self.right is None:
            return left is not None and left is not False
        return _compare(self.op, left, self.right.value(element, key, walk))


@dataclass(frozen=True, slots=True)
class Junction:
    """`&&`, `||` or `!` of its parts."""

    kind: str
    parts: tuple[Any, ...]

    def holds(self, element: Any, key: Key, walk: Walk) -> bool:
        if self.kind == "!":
            return not self.parts[0].holds(element, key, walk)
        every = (part.holds(element, key, walk) for part in self.parts)
        return all(every) if self.kind == "&&" else any(every)


Test = Comparison | Junction

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _compare(op: str, left: Any, right: Any) -> bool:
    """Numbers with numbers and texts with texts; anything else is never smaller or larger."""
    if op in ("==", "!="):
        return same(left, right) == (op == "==")
    return json_type(left) == json_type(right) and json_type(left) in ("number", "text") and _ORDER[op](left, right)


def same(left: Any, right: Any) -> bool:
    """Equal as JSON, at every depth: 1 is 1.0, but true is not 1."""
    if json_type(left) != json_type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(item, right[name]) for name, item in left.items())
    return bool(left == right)


def json_type(value: Any) -> str:
    """The JSON type of a value: true is no number."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__


_SPACE = re.compile(r"\s*")
_PATH = re.compile(r"@(?:\.[\w$-]+(?:\(\))?|\['[^']*'\]|\[\"[^\"]*\"\]|\[-?\d+\])*")
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>")
_NUMBER = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?(?![0-9])")
_WORD = re.compile(r"(?:true|false|null)\b")
_TEXT = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
_WORDS = {"true": True, "false": False, "null": None}


class Parser:
    """Parses the inside of `[?(...)]`; `path` compiles a text such as `@.a.b`, `key` a text with expressions in it."""

    def __init__(self, text: str, position: int, path: Callable[[str], Any], key: Key) -> None:
        self.text = text
        self.position = position
        self.path = path
        self.key = key

    def parse(self) -> tuple[Test, int]:
        """(the test, the position after `)]`)."""
        test = self._junction("||")
        self._expect(")")
        self._expect("]")
        return test, self.position

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position

    def _take(self, word: str) -> bool:
        self._skip()
        if self.text.startswith(word, self.position):
            self.position += len(word)
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise FilterError(f"unexpected in a filter: expected a comparison, '&&', '||' or {word!r}", self.position)

    def _junction(self, kind: str) -> Test:
        part: Callable[[], Test] = (lambda: self._junction("&&")) if kind == "||" else self._term
        parts = [part()]
        while self._take(kind):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(kind, tuple(parts))

    def _term(self) -> Test:
        self._skip()
        if self.text.startswith("!", self.position) and not self.text.startswith("!=", self.position):
            self.position += 1
            return Junction("!", (self._term(),))
        if self._take("("):
            inner = self._junction("||")
            self._expect(")")
            return inner
        left = self._operand()
        self._skip()
        match = _OPERATOR.match(self.text, self.position)
        if match is None:
            return Comparison(left)
        self.position = match.end()
        return Comparison(left, match.group(), self._operand())

    def _operand(self) -> Operand:
        self._skip()
        for pattern in (_PATH, _NUMBER, _WORD, _TEXT):
            match = pattern.match(self.text, self.position)
            if match is None:
                continue
            self.position = match.end()
            if pattern is _PATH:
                return Operand(self.path(match.group()))
            if pattern is _NUMBER:
                return Operand(None, _number(match.group()))
            return Operand(None, _WORDS[match.group()] if pattern is _WORD else self.key(_unescaped(match)))
        raise FilterError("expected '@', a number, a quoted text, true, false or null", self.position)


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _unescaped(match: re.Match[str]) -> str:
    text = match.group(1) if match.group(1) is not None else match.group(2)
    return re.sub(r"\\(.)", r"\1", text)
