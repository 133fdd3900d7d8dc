"""BUSINESS_RULE: a decision table, settled in the pass that reaches it.

A rule is `{"when": {column: condition}, "then": {...}}`. A condition is a value to equal, `"*"` for any, or an object of
comparisons that must all hold: `eq`, `ne`, `gt`, `gte`, `lt`, `lte`, `in`, `between` (both ends included).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workflows.engine.operators.start import Start
from workflows.engine.rows import TaskError

STRATEGIES = ("FIRE_FIRST", "FIRE_ALL")


def business_rule(start: Start) -> None:
    """The `then` of the first rule that holds as `result`, or of all of them as a list; none is no failure."""
    given = start.inputs()
    rules, facts = given.get("rules"), given.get("inputColumns") or {}
    strategy = given.get("executionStrategy") or "FIRE_FIRST"
    if not isinstance(rules, list):
        raise TaskError(f"rules: expected a list, got {type(rules).__name__}")
    if not isinstance(facts, dict):
        raise TaskError(f"inputColumns: expected an object, got {type(facts).__name__}")
    if strategy not in STRATEGIES:
        raise TaskError(f"executionStrategy: expected {' or '.join(STRATEGIES)}, got {strategy!r}")
    matched = [index for index, rule in enumerate(rules) if _holds(rule, facts, f"rules[{index}]")]
    if strategy == "FIRE_FIRST":
        matched = matched[:1]
    fired = [rules[index].get("then") for index in matched]
    result: Any = fired if strategy == "FIRE_ALL" else (fired[0] if fired else None)
    start.settle(input=given, output={"result": result, "matched": matched})


def _holds(rule: Any, facts: dict[str, Any], path: str) -> bool:
    when = rule.get("when", {}) if isinstance(rule, dict) else None
    if not isinstance(when, dict):
        raise TaskError(f"{path}: expected an object with a when and a then, got {rule!r}")
    tests = [_meets(facts.get(column), condition, f"{path}.when.{column}") for column, condition in when.items()]
    return all(tests)  # each was made: a mistake in a rule shows whatever the facts are


def _meets(fact: Any, condition: Any, path: str) -> bool:
    if condition == "*":
        return True
    if not isinstance(condition, dict):
        return _equal(fact, condition)
    unknown = condition.keys() - _COMPARISONS.keys()
    if unknown or not condition:
        raise TaskError(f"{path}: expected some of {', '.join(_COMPARISONS)}, got {sorted(condition)}")
    for name in ("in", "between"):
        if name in condition and not isinstance(condition[name], list):
            raise TaskError(f"{path}.{name}: expected a list, got {type(condition[name]).__name__}")
    if len(condition.get("between", (0, 0))) != 2:
        raise TaskError(f"{path}.between: expected two values, got {len(condition['between'])}")
    return all(_COMPARISONS[name](fact, value) for name, value in condition.items())


def _equal(fact: Any, value: Any) -> bool:
    """Equal as JSON: 1 is 1.0, but true is not 1."""
    return isinstance(fact, bool) == isinstance(value, bool) and bool(fact == value)


def _order(fact: Any, value: Any) -> int | None:
    """-1, 0 or 1; None for values that have no order between them."""
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (fact, value))
    if not numbers and not (isinstance(fact, str) and isinstance(value, str)):
        return None
    return int(fact > value) - int(fact < value)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal,
    "ne": lambda fact, value: not _equal(fact, value),
    "gt": lambda fact, value: _order(fact, value) == 1,
    "gte": lambda fact, value: _order(fact, value) in (0, 1),
    "lt": lambda fact, value: _order(fact, value) == -1,
    "lte": lambda fact, value: _order(fact, value) in (-1, 0),
    "in": lambda fact, value: any(_equal(fact, one) for one in value),
    "between": lambda fact, value: _order(fact, value[0]) in (0, 1) and _order(fact, value[1]) in (-1, 0),
}
