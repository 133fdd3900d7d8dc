"""Search attributes: which paths may be declared, and which values are kept."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.engine.attributes import attribute_problems, extract, is_attribute


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("input.id", True), ("input.order.id", True), ("input.a-b.C_1", True), ("input._x", True),
        ("input." + ".".join("abcdefgh"), True), ("input." + ".".join("abcdefghi"), False),
        ("input", False), ("output.id", False), ("input.a__b", False), ("input.1", False), ("input.a b", False),
        ("input." + "a" * 494, True), ("input." + "a" * 495, False), ("x.input.id", False),
    ],
)  # fmt: skip
def test_a_path_that_may_be_declared(name: str, is_one: bool) -> None:
    assert is_attribute(name) is is_one


@pytest.mark.parametrize("declared", [None, [], ["input.id"], [f"input.a{n}" for n in range(20)]])
def test_a_declaration_that_may_be_registered(declared: Any) -> None:
    assert attribute_problems({"searchAttributes": declared}) == []
    assert attribute_problems({}) == []


@pytest.mark.parametrize(
    ("declared", "path", "said"),
    [
        ("input.id", "searchAttributes", "at most 20 paths, got 'input.id'"),
        ([f"input.a{n}" for n in range(21)], "searchAttributes", "at most 20"),
        (["input.id", "id"], "searchAttributes[1]", "got 'id'"),
        ([5], "searchAttributes[0]", "got '5'"),
    ],
)
def test_a_declaration_that_may_not(declared: Any, path: str, said: str) -> None:
    (problem,) = attribute_problems({"searchAttributes": declared})
    assert problem.path == path
    assert said in problem.message


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (5, True), (0, True), (False, True), (1.5, True), ("", True), ("x" * 500, True), ("x" * 501, False),
        ([1, "a", True], True), ([], True), (list(range(50)), True), (list(range(51)), False),
        ([1, None], False), ([["a"]], False), (None, False), ({"a": 1}, False), (["x" * 501], False),
    ],
)  # fmt: skip
def test_what_is_kept(value: Any, kept: bool) -> None:
    assert extract({"searchAttributes": ["input.a"]}, {"a": value}) == ({"input.a": value} if kept else None)


def test_values_are_kept_by_their_paths_and_what_is_absent_is_left_out() -> None:
    declared = {"searchAttributes": ["input.a.b", "input.n", "input.missing", "input.n.deeper"]}
    assert extract(declared, {"a": {"b": "x"}, "n": 1}) == {"input.a.b": "x", "input.n": 1}
    assert extract({}, {"a": 1}) is None
    assert extract({"searchAttributes": None}, {"a": 1}) is None
