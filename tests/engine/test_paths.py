"""Functions, slices and quoted keys of paths, and where a mistake in one stands."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.engine.paths import PathError, closing, parse_path, walk

DOCUMENT = {
    "n": [3, 1, 2], "text": "abc", "mixed": [1, "x"], "flags": [True], "empty": [], "o": {"a": 1, "b": None}, "null": None,
    "rows": [{"id": 1, "v": None}, {"id": 2}, {"id": 3, "v": 9}], "a.b": 5, "q'q": 6,
    "deep": {"x": [{"x": 1}, {"y": {"x": 2}}]}, "big": [1e308, 1e308],
}  # fmt: skip


def at(text: str) -> Any:
    _, path = parse_path(f"r{text}", lambda key: key)
    return walk(DOCUMENT, path, lambda key: key)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".n.length()", 3), (".text.length()", 3), (".o.length()", 2), (".null.length()", None), (".n.size()", 3),
        (".text.size()", 3), (".n.min()", 1), (".n.max()", 3), (".n.sum()", 6), (".n.avg()", 2.0), (".empty.sum()", None),
        (".mixed.sum()", None), (".mixed.min()", None), (".flags.max()", None), (".text.min()", None), (".empty.avg()", None),
        (".o.keys()", ["a", "b"]), (".n.keys()", None), (".big.sum()", None), (".big.avg()", None), (".null.size()", None),
        (".n[0]", 3), (".n[-1]", 2), (".n[3]", None), (".n[-3]", 3), (".n[-4]", None), (".n[ 1 ]", 1), (".text[0]", None),
        (".n[1:]", [1, 2]), (".n[:1]", [3]), (".n[0:2]", [3, 1]), (".n[-2:]", [1, 2]), (".n[:]", [3, 1, 2]), (".o[0:1]", []),
        (".n[*]", [3, 1, 2]), (".o.*", [1, None]), (".o[*]", [1, None]), (".text[*]", []), (".rows[*].id", [1, 2, 3]),
        (".rows[*].v", [None, 9]), (".rows[*].id.sum()", 6), (".rows[1:].id.length()", 2), (".rows[*].nothing", []),
        ("..x", [[{"x": 1}, {"y": {"x": 2}}], 1, 2]), ("..id", [1, 2, 3]), ("['a.b']", 5), ('["a.b"]', 5),
        ("[ 'text' ]", "abc"),
        ("['q\\'q']", 6), (".rows[?(@.id > 1)].id", [2, 3]), (".rows[?(@.v)].id", [3]), (".o.a.b", None), (".n.x", None),
        (".rows[*].id[0]", []), (".rows[0:2][*]", [1, None, 2]), ("..rows[0].id", [1]), (".n[?(@ >= 2)]", [3, 2]),
        (".rows[?(@.id == 2 || @.id == 3)].id", [2, 3]), (".rows[?(!(@.id == 2))].id", [1, 3]),
        (".rows[?(@.id != 2)].id", [1, 3]),
        (".rows[?(@.id > 1 && @.id < 3)].id", [2]), (".rows[?(@.id <= 2)].id", [1, 2]), (".rows[?(@.v == null)].id", [1, 2]),
    ],
)  # fmt: skip
def test_what_a_path_finds(text: str, value: Any) -> None:
    assert at(text) == value


def test_functions_of_a_list_of_found_values_go_on() -> None:
    assert at(".rows[*].keys().length()") is None
    assert at(".o.keys()[0]") == "a"
    assert at(".o.keys()[*]") == ["a", "b"]
    assert at(".n[*].max()") == 3


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        (".", 0, "expected a name"), ("r.", 1, "expected a name after '.'"), ("r..", 1, "expected a name after '..'"),
        ("r.a b", 3, "expected '.' or '[', got ' '"), ("r.no()", 1, "unknown function no()"), ("r[x]", 1, "expected an index"),
        ("r['a", 1, "the quoted key is not closed"), ("r['a'", 5, "expected ']' after the quoted key"),
        ("r['a'x]", 5, "expected ']'"),
        ("r.a['${x']", 3, "the quoted key is not closed"), ("r[1", 1, "expected an index"), ("r.a[?(@.x >)]", 11, ""),
    ],
)  # fmt: skip
def test_a_mistake_in_a_path_is_told_with_its_position(text: str, position: int, said: str) -> None:
    with pytest.raises(PathError) as refused:
        parse_path(text, lambda key: key)
    assert said in str(refused.value)
    assert refused.value.position == position


@pytest.mark.parametrize(
    ("text", "start", "found"),
    [("a}b", 0, 1), ("{a}}", 0, 3), ("${a}}", 2, 3), ("a", 0, None), ("{}", 0, None), ("}}", 1, 1)],
)
def test_the_brace_that_closes(text: str, start: int, found: int | None) -> None:
    assert closing(text, start) == found


def test_a_key_that_is_a_template_is_resolved_where_it_stands() -> None:
    seen: list[str] = []
    _, path = parse_path("r.o['${k}x']", lambda key: seen.append(key) or len(seen))
    assert seen == ["${k}x"]
    assert path.definite
    assert parse_path("r['a${b['c']}d']", str)[1].steps == ("a${b['c']}d",)
