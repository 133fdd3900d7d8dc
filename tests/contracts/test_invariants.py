"""Each invariant has code that names it, a test marked with it, and a mutation that was seen to be killed."""

from __future__ import annotations

import re
from pathlib import Path

from tests.mutations import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {
    "INV-1", "INV-2", "INV-3", "INV-4", "INV-5", "INV-6a", "INV-6b", "INV-6c", "INV-6d", "INV-7a", "INV-7b", "INV-7c", "INV-8",
    "INV-9", "INV-10", "INV-11", "INV-12", "INV-13",
}  # fmt: skip
ID = re.compile(r"INV-\d+[a-d]?")


def ids(*patterns: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pattern in patterns:
        for path in ROOT.glob(pattern):
            if ".venv" not in path.parts:
                for name in ID.findall(path.read_text()):
                    found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return found


CODE = ids(
    "orchestrator/**/*.py",
    "workflows/**/*.py",
    "dispatch/**/*.py",
    "outbox/**/*.py",
    "*/sql/*.sql",
    "*/migrations/sql/*.sql",
)
PARTS = {"INV-6": "INV-6a", "INV-7": "INV-7a"}


def test_every_invariant_is_named_where_it_is_kept() -> None:
    assert KNOWN - set(CODE) == set()


def test_no_unknown_invariant_is_named() -> None:
    unknown = {name: files for name, files in CODE.items() if name not in KNOWN | set(PARTS)}
    assert unknown == {}


def test_every_invariant_has_a_marked_test() -> None:
    marked: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        marked |= set(re.findall(r'mark\.invariant\("(INV-\d+[a-d]?)"\)', path.read_text()))
    assert KNOWN - marked == set()
    assert marked - KNOWN == set()


def test_every_invariant_has_a_mutation_whose_text_stands_once() -> None:
    assert KNOWN - {mutation.invariant for mutation in MUTATIONS} == set()
    for mutation in MUTATIONS:
        assert (ROOT / mutation.file).read_text().count(mutation.find) == 1, mutation


def test_every_mutation_names_a_test_that_exists() -> None:
    for mutation in MUTATIONS:
        path, name = mutation.test.split("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(), mutation.test


def test_the_page_of_the_invariants_covers_each() -> None:
    page = (ROOT / "docs" / "correctness.md").read_text()
    assert KNOWN - set(ID.findall(page)) == set()
