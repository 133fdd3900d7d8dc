"""The tables of known defects leave no id out, and the tests that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "correctness.md").read_text()
ROWS = dict(re.findall(r"^\| (L\d+|\([a-z]+\)|C\d+) \|.*\| (.+) \|$", PAGE, re.MULTILINE))
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)] + ["aa", "bb", "cc"]
IDS = {f"L{n}" for n in range(1, 39)} | {f"({letter})" for letter in LETTERS} | {f"C{n}" for n in range(1, 18)}
NODE = re.compile(r"`((?:\w+/)+test_\w+\.py)::(\w+)`")


def test_every_defect_has_its_answer() -> None:
    assert set(ROWS) == IDS
    for name, answer in ROWS.items():
        parts = re.split(r"[;,] (?=`|as |open:|not applicable:)", answer)
        for part in parts:
            if referred := re.fullmatch(r"(?:open: )?as (\w+)", part):
                assert referred[1] in ROWS, name
            else:
                assert NODE.fullmatch(part) or part.startswith(("open: ", "not applicable: ")), (name, part)


def test_every_test_that_the_page_names_exists() -> None:
    named = NODE.findall(PAGE)
    assert named
    for path, name in named:
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(), f"{path}::{name}"
