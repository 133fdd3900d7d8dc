"""Random expressions on random documents, against an evaluator that is slow and obvious; and random texts, which are
parsed or refused with a position, never anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_expressions import Roots
from workflows.engine.expressions import ExpressionError, compile_template, resolve
from workflows.engine.validation import validate

NAMES = ["a", "b", "it's", 'say "x"', "with space", "p.q", "0", "-1", "back\\slash", "é", "{x}", "]"]
PLAIN = ["a", "b", "0", "-1", "é"]
"""Names that may follow a dot."""

scalars = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.just(2**60) | st.sampled_from(["", "a", "b", "1", 1.0, 0.5])
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)
Step = tuple[str, Any]


def operands() -> st.SearchStrategy[Step]:
    path = st.lists(st.tuples(st.just("name"), st.sampled_from(["a", "b"])), max_size=2).map(lambda s: ("@", s))
    return path | st.tuples(
        st.just("literal"), st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "it's"])
    )


tests = st.recursive(
    st.tuples(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), operands(), operands()),
    lambda inner: st.tuples(st.sampled_from(["&&", "||"]), inner, inner) | st.tuples(st.just("!"), inner),
    max_leaves=4,
)
steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("name"), st.sampled_from(PLAIN)),
    st.tuples(st.just("quoted"), st.sampled_from(NAMES)),
    st.tuples(st.just("nested"), st.sampled_from(NAMES)),
    st.tuples(st.just("index"), st.integers(-3, 3)),
    st.tuples(st.just("slice"), st.tuples(st.none() | st.integers(-3, 3), st.none() | st.integers(-3, 3))),
    st.tuples(st.just("*"), st.none()),
    st.tuples(st.just(".."), st.sampled_from(PLAIN)),
    st.tuples(st.just("filter"), tests),
    st.tuples(st.just("function"), st.sampled_from(["length", "keys", "min", "max", "sum", "avg"])),
)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def written(step: Step) -> str:
    """A step as people write it."""
    kind, x = step
    return {
        "name": lambda: f".{x}",
        "quoted": lambda: f"[{quoted(x)}]",
        "nested": lambda: f"['${{keys[{NAMES.index(x)}]}}']",
        "index": lambda: f"[{x}]",
        "slice": lambda: f"[{'' if x[0] is None else x[0]}:{'' if x[1] is None else x[1]}]",
        "*": lambda: "[*]",
        "..": lambda: f"..{x}",
        "filter": lambda: f"[?({test(x)})]",
        "function": lambda: f".{x}()",
    }[kind]()


def test(tree: Any) -> str:
    if tree[0] == "!":
        return f"!({test(tree[1])})"
    if tree[0] in ("&&", "||"):
        return f"({test(tree[1])}) {tree[0]} ({test(tree[2])})"
    return f"{operand(tree[1])} {tree[0]} {operand(tree[2])}"


test.__test__ = False  # type: ignore[attr-defined]


def operand(side: Step) -> str:
    kind, x = side
    if kind == "@":
        return "@" + "".join(map(written, x))
    return quoted(x) if isinstance(x, str) else json.dumps(x)


# The slow evaluator: a list of what a path finds, a step at a time.


def found(value: Any, step: Step) -> list[Any]:
    kind, x = step
    if kind in ("name", "quoted", "nested"):
        if isinstance(value, dict) and x in value:
            return [value[x]]
        whole = kind == "nested" and x in ("0", "-1")  # a resolved key may be an index
        return found(value, ("index", int(x))) if whole and isinstance(value, list) else []
    if kind == "index":
        return [value[x]] if isinstance(value, list) and -len(value) <= x < len(value) else []
    if kind == "slice":
        return value[x[0] : x[1]] if isinstance(value, list) else []
    children = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if kind == "*":
        return children
    if kind == "..":
        here = [value[x]] if isinstance(value, dict) and x in value else []
        return here + [below for child in children for below in found(child, step)]
    assert kind == "filter"
    return [child for child in children if holds(child, x)]


def holds(child: Any, tree: Any) -> bool:
    if tree[0] == "!":
        return not holds(child, tree[1])
    if tree[0] == "&&":
        return holds(child, tree[1]) and holds(child, tree[2])
    if tree[0] == "||":
        return holds(child, tree[1]) or holds(child, tree[2])
    left, right = side_value(child, tree[1]), side_value(child, tree[2])
    if tree[0] in ("==", "!="):
        return (canonical(left) == canonical(right)) == (tree[0] == "==")
    if not (number(left) and number(right)) and not (isinstance(left, str) and isinstance(right, str)):
        return False
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[tree[0]]


def canonical(value: Any) -> str:
    """JSON text in which numbers that are equal look equal."""

    def plain(v: Any) -> Any:
        if isinstance(v, list):
            return [plain(item) for item in v]
        if isinstance(v, dict):
            return {k: plain(item) for k, item in v.items()}
        return int(v) if isinstance(v, float) and v.is_integer() else v

    return json.dumps(plain(value), sort_keys=True)


def number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def side_value(child: Any, side: Step) -> Any:
    return slow(child, side[1]) if side[0] == "@" else side[1]


def slow(document: Any, path: list[Step]) -> Any:
    values, many = [document], False
    for position, step in enumerate(path):
        if step[0] == "function":
            made = function(step[1], values if many else (values[0] if values else None))
            return slow(made, path[position + 1 :])
        many = many or step[0] in ("slice", "*", "..", "filter")
        values = [below for value in values for below in found(value, step)]
    return values if many else (values[0] if values else None)


def function(name: str, value: Any) -> Any:
    if name == "length":
        return len(value) if isinstance(value, (list, dict, str)) else None
    if name == "keys":
        return list(value) if isinstance(value, dict) else None
    if not isinstance(value, list) or not value or not all(map(number, value)):
        return None
    return {"min": min(value), "max": max(value), "sum": sum(value), "avg": sum(value) / len(value)}[name]


@given(documents, st.lists(steps, max_size=5))
@settings(max_examples=300, deadline=None)
def test_a_path_finds_what_the_slow_evaluator_finds(document: Any, path: list[Step]) -> None:
    scope = Roots(doc={"it": document}, keys=NAMES)
    text = "${doc.it" + "".join(map(written, path)) + "}"
    expected = slow(document, path)
    assert repr(resolve(compile_template(text), scope)) == repr(expected), text
    inside = resolve(compile_template(f"<{text}|$${{x}}>"), scope)
    shown = expected if isinstance(expected, str) else json.dumps(expected, ensure_ascii=False, separators=(",", ":"))
    assert inside == f"<{shown}|${{x}}>"


pieces = st.sampled_from(
    ["${", "$${", "}", "[", "]", "(", ")", "'", '"', "\\", "?", "@", ".", "..", "*", "!", "&&", "==", " ", "a", "workflow",
     ".input", "1", "²", "٣", ":", "-", "9" * 5000, "${a.output", "length()", "{", "\x00", "\ud800"]
)  # fmt: skip


@given(st.lists(pieces, max_size=12).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_text_is_parsed_or_refused_with_a_position_and_what_is_parsed_resolves(text: str) -> None:
    position = refused_at(text)
    if position is not None:
        assert 0 <= position <= len(text)
        assert validate({"name": "w", "tasks": [task(text)]}), "refused at registration too"
        return
    template = compile_template(text)
    json.dumps(resolve(template, Roots(workflow={"input": [1]}, a={"output": {"1": [{"a": None}]}})))


def refused_at(text: str) -> int | None:
    try:
        compile_template(text)
    except ExpressionError as error:
        return error.position
    return None


def task(text: str) -> dict[str, Any]:
    return {"name": "t", "taskReferenceName": "t", "type": "SIMPLE", "inputParameters": {"x": text}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${d.rows[*].n}", [1, None]),
        ("${d.rows[*].n.length()}", 2),
        ("${d.missing.keys()[*]}", []),
        ("${d.o.keys()[0]}", "it's"),
        ("${d.o['it\\'s']}", 1),
        ('${d.o[ "it\'s" ]}', 1),
        ("${d.o['${d.names['first']}']}", 1),
        ("${d.big.sum()}", None),
        ("${d.rows[*]['${d.sup}']}", []),
        ("${d.list['${d.sup}']}", None),
        ("${d.list['${d.yes}']}", None),
        ("${d.flags[?(@.v == 1)]}", []),
        ("${d.flags[?(@.v == @.w)]}", []),
    ],
)
def test_what_was_found(text: str, value: Any) -> None:
    document = {
        "rows": [{"n": 1}, {"n": None}, {}], "o": {"it's": 1}, "names": {"first": "it's"}, "big": [1e308, 1e308],
        "sup": "²", "yes": "--5", "list": [1], "flags": [{"v": [True], "w": [1]}],
    }  # fmt: skip
    assert resolve(compile_template(text), Roots(d=document)) == value


TOO_MUCH = {
    "space": "${d.a b}",
    "two keys": "${d['a','b']}",
    "long index": "${d[" + "9" * 5000 + "]}",
    "long number": "${d[?(@.n == " + "9" * 5000 + ")]}",
    "parentheses": "${d[?(" + "(" * 4000 + "@)]}",
    "bangs": "${d[?(" + "!" * 4000 + "@.a)]}",
    "nested": "${d['" * 500 + "']}" * 500,
    "too long": "${d['" * 90_000 + "']}" * 90_000,
    "open": "${d['a'}",
}


@pytest.mark.parametrize("text", TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_is_refused_with_a_position(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_template(text)
