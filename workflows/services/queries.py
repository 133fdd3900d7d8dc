"""The language of searches: `field = value AND field IN (a, 'b') AND input.order.id >= 5`, as conditions with positions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from orchestrator.errors import Invalid

MOST_CONDITIONS = 50
_SPACE = re.compile(r"\s*")
_FIELD = re.compile(r"[\w.-]+")
_OPERATOR = re.compile(r"!=|<=|>=|=|<|>|NOT\s+IN\b|IN\b", re.I)
_AND = re.compile(r"\s+AND\s+", re.I)
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_ITEM = re.compile(r"[^,)\]]*")


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it was written; a quoted one is a text, whatever it looks like."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """`field operator values`; the operator is `=`, `!=`, `<`, `>`, `<=`, `>=`, `IN` or `NOT IN`."""

    field: str
    operator: str
    values: tuple[Value, ...]


def parse(query: str) -> list[Condition]:
    """The conditions of a query; raises Invalid with the position of a mistake."""
    return _Parser(query).conditions()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def conditions(self) -> list[Condition]:
        found: list[Condition] = []
        self._skip()
        while self.at < len(self.text):
            if len(found) == MOST_CONDITIONS:
                self._refuse(f"at most {MOST_CONDITIONS} conditions")
            found.append(self._condition())
            end = self.at
            between = _AND.match(self.text, self.at)
            if between is not None:
                self.at = between.end()
                if self.at == len(self.text):
                    self._refuse("a condition after AND")
            elif self.text[end:].strip():
                self._refuse("AND or the end")
            else:
                break
        return found

    def _condition(self) -> Condition:
        name = _FIELD.match(self.text, self.at)
        if name is None:
            self._refuse("the name of a field")
        self.at = name.end()
        self._skip()
        operator = _OPERATOR.match(self.text, self.at)
        if operator is None:
            self._refuse("one of =, !=, <, >, <=, >=, IN, NOT IN")
        self.at = operator.end()
        self._skip()
        word = " ".join(operator.group().upper().split())
        values = self._list() if word.endswith("IN") else (self._value(),)
        return Condition(name.group(), word, values)

    def _value(self) -> Value:
        quoted = self._quoted()
        if quoted is not None:
            return quoted
        end = _AND.search(self.text, self.at)
        stop = end.start() if end is not None else len(self.text)
        shown = self.text[self.at : stop].strip()
        if not shown:
            self._refuse("a value")
        self.at = stop
        return Value(shown)

    def _list(self) -> tuple[Value, ...]:
        if self.text[self.at : self.at + 1] not in ("(", "["):
            self._refuse("a list such as (a, b)")
        closing = ")" if self.text[self.at] == "(" else "]"
        self.at += 1
        found: list[Value] = []
        while True:
            self._skip()
            item = self._quoted()
            if item is None:
                bare = _ITEM.match(self.text, self.at)
                assert bare is not None
                self.at = bare.end()
                item = Value(bare.group().strip())
            if item.text or item.quoted:
                found.append(item)
            self._skip()
            mark = self.text[self.at : self.at + 1]
            if mark not in (",", closing):
                self._refuse(f"a comma or {closing}")
            self.at += 1
            if mark == closing:
                return tuple(found)

    def _quoted(self) -> Value | None:
        found = _QUOTED.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return Value(found.group(1) if found.group(1) is not None else found.group(2), quoted=True)

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def _refuse(self, expected: str) -> NoReturn:
        got = self.text[self.at : self.at + 20]
        raise Invalid(problems=[("query", f"expected {expected} at character {self.at + 1}, got {got!r}")])
