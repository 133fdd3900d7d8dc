"""Every named statement is valid against the migrated schema, and has exactly one verb of its name."""

from __future__ import annotations

import ast
import re

import pytest
from django.db import connection

from orchestrator.db.locks import Level
from orchestrator.db.sql import Statement, load
from tests.lock_order import FILES, ROOT

STATEMENTS = [(app, file, statement) for app, file in FILES for statement in load(app, file).statements.values()]
PARAMETER = re.compile(r"%\((\w+)\)s")


def numbered(text: str) -> str:
    names: dict[str, int] = {}
    return PARAMETER.sub(lambda m: f"${names.setdefault(m.group(1), len(names) + 1)}", text)


@pytest.mark.django_db
@pytest.mark.parametrize(("app", "file", "statement"), STATEMENTS, ids=[s.name for _, _, s in STATEMENTS])
def test_statement_is_valid_against_the_schema(app: str, file: str, statement: Statement) -> None:
    with connection.cursor() as cursor:
        cursor.execute("PREPARE checked AS " + numbered(statement.text))
        cursor.execute("DEALLOCATE checked")


@pytest.mark.parametrize(("app", "file"), FILES, ids=[f"{a}/{f}" for a, f in FILES])
def test_each_statement_has_one_verb_of_its_name(app: str, file: str) -> None:
    used: list[str] = []
    for path in (ROOT / app).rglob("*.py"):
        tree = ast.parse(path.read_text())
        variables = {
            target.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func).endswith("load")
            and [getattr(a, "value", None) for a in node.value.args] == [app, file]
            for target in node.targets if isinstance(target, ast.Name)
        }  # fmt: skip
        used += verbs(tree, variables)
    assert sorted(used) == sorted(load(app, file).statements), "statements and verbs differ"


def verbs(tree: ast.AST, variables: set[str]) -> list[str]:
    """Statements used, each checked to be used by a function of its own name."""
    found = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in variables:
                assert function.name == node.attr, (
                    f"{function.name} runs the statement {node.attr}"
                )
                found.append(node.attr)
    return sorted(set(found))


@pytest.mark.parametrize(("app", "file"), FILES, ids=[f"{a}/{f}" for a, f in FILES])
def test_lock_levels_are_named(app: str, file: str) -> None:
    text = (ROOT / app / "sql" / file).read_text()
    assert text.startswith("-- "), "the file opens with a paragraph on its tables, verbs and lock order"
    for level in re.findall(r"^-- lock: (\w+)$", text, re.M):
        assert level in Level.__members__, f"unknown lock level {level}"


def test_the_decide_queue_is_never_enqueued_without_a_lock() -> None:
    """DO NOTHING takes no lock: the claim would overtake an uncommitted completion. [INV-2]"""
    for name, statement in load("workflows", "decide_queue.sql").statements.items():
        assert "DO NOTHING" not in statement.text, name
