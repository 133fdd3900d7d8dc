"""The models' state and the database agree, though the tables of runs are made by SQL."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection

APPS = ("orchestrator", "workflows", "dispatch", "outbox")
MODELS = [model for app in APPS for model in apps.get_app_config(app).get_models()]
COLUMNS = """
    SELECT column_name, udt_name, is_nullable, coalesce(column_default, '') FROM information_schema.columns
     WHERE table_schema = %s AND table_name = %s
"""
INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s AND tablename = %s"


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", "--check", "--dry-run", stdout=StringIO())


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS, ids=[model.__name__ for model in MODELS])
def test_the_table_is_what_the_model_says(model: Any) -> None:
    """Django would make the same columns, types, defaults and indexes; only the partition key is ours."""
    assert model._meta.managed
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA scratch")
        cursor.execute("SET LOCAL search_path TO scratch, public")
        with connection.schema_editor() as editor:
            editor.create_model(model)
        expected, found = (described(cursor, schema, table) for schema in ("scratch", "public"))
        cursor.execute("DROP SCHEMA scratch CASCADE")
    assert found[0] == expected[0], "columns"
    missing = set(expected[1]) - set(found[1])
    assert not missing, "indexes"
    assert {name: found[1][name] for name in expected[1]} == expected[1]


def described(cursor: Any, schema: str, table: str) -> tuple[set[Any], dict[str, str]]:
    """Columns, and the named indexes with their definitions."""
    cursor.execute(COLUMNS, [schema, table])
    columns = set(cursor.fetchall())
    cursor.execute(INDEXES, [schema, table])
    own = [(name, text) for name, text in cursor.fetchall() if not name.endswith("_pkey")]
    return columns, {name: definition(text) for name, text in own}


def definition(text: str) -> str:
    """What an index does, without where it stands."""
    return re.sub(r" ON (ONLY )?\w+\.\w+", " ON", text).replace("CREATE UNIQUE INDEX", "UNIQUE").replace("CREATE INDEX", "")


@pytest.mark.django_db
def test_the_partitions_of_a_month_have_the_same_bounds() -> None:
    from workflows.partitions import KEYS

    with connection.cursor() as cursor:
        bounds = {}
        for table in KEYS:
            cursor.execute(
                "SELECT pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
                "WHERE i.inhparent = %s::regclass",
                [table],
            )
            bounds[table] = sorted(row[0] for row in cursor.fetchall())
    assert len(set(map(tuple, bounds.values()))) == 1
    assert len(next(iter(bounds.values()))) > 3
