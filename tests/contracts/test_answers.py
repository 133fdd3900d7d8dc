"""The tables of known defects leave no id out, and the tests that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "correctness.md").read_text()
REPORTS = (ROOT / "docs" / "bug_reports.md").read_text()
ROWS = dict(re.findall(r"^\| (L\d+|\([a-z]+\)|C\d+) \|.*\| (.+) \|$", PAGE, re.MULTILINE))
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)] + ["aa", "bb", "cc"]
IDS = {f"L{n}" for n in range(1, 39)} | {f"({letter})" for letter in LETTERS} | {f"C{n}" for n in range(1, 18)}
REPORT_COUNT = 98
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


def test_every_report_has_its_answer_and_every_test_named_by_an_id_stands_in_its_row() -> None:
    rows = dict(re.findall(r"^\| (B-\d{3}) \| [^|]+ \| (.+) \|$", REPORTS, re.MULTILINE))
    assert len(rows) == REPORT_COUNT
    for name, answer in rows.items():
        nodes = all(NODE.fullmatch(part) for part in answer.split(", "))
        assert nodes or re.match(r"open$|open: |not applicable: ", answer), (name, answer)
    for path in (ROOT / "tests" / "reports").glob("test_*.py"):
        for test in re.findall(r"^def (test_b\d{3}_\w+)\(", path.read_text(), re.MULTILINE):
            assert f"::{test}`" in rows[f"B-{test[6:9]}"], test


@pytest.mark.parametrize("page", [PAGE, REPORTS], ids=["correctness", "bug_reports"])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    named = NODE.findall(page)
    assert named
    for path, name in named:
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(), f"{path}::{name}"
