"""Named SQL statements: loaded from `<app>/sql/*.sql`, run on Django's own connection.

Statements are bound on the server by psycopg's own cursor, jsonb comes back as bytes (see
`orchestrator.db.json`), and errors are wrapped so that Django notices a dead connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any
from uuid import UUID

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.abc import Loader as AbstractLoader
from psycopg.adapt import Loader

from orchestrator.conf import conf
from orchestrator.errors import ProgrammingError

Observer = Callable[[str, dict[str, Any]], None]
OBSERVERS: list[Observer] = []
"""Called with (statement name, parameters) before each statement is sent."""


class RawJson(Loader):
    """jsonb as bytes: the caller decodes what it needs, once."""

    def load(self, data: Any) -> bytes:
        return bytes(data)


def _own_loader(type_name: str) -> type[AbstractLoader]:
    """psycopg's own loader of a type, which Django replaces by one that works in Python for each value."""
    found = psycopg.adapters.get_loader(psycopg.adapters.types[type_name].oid, psycopg.pq.Format.TEXT)
    if found is None:
        raise ProgrammingError(f"psycopg cannot load {type_name}")
    return found


_TIMESTAMP = _own_loader("timestamptz")


class HotCursor(psycopg.Cursor[Any]):
    """psycopg's cursor, not Django's: it binds parameters on the server."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection)
        self.adapters.register_loader("jsonb", RawJson)
        self.adapters.register_loader("timestamptz", _TIMESTAMP)


def engine_connection() -> BaseDatabaseWrapper:
    """The Django connection of this thread to the engine's database, opened."""
    connection = connections[conf().DATABASE]
    connection.ensure_connection()
    return connection


def _bound(value: Any) -> Any:
    """A list of ids as the text of its array: psycopg would dump each id by itself, which costs more than all else."""
    if type(value) is not list or not value or type(value[0]) is not UUID:
        return value
    return "{" + ",".join(["NULL" if item is None else item.hex for item in value]) + "}"


class Statement:
    """One named statement; parameters are keywords only."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    def send(self, **params: Any) -> HotCursor:
        """Run it; inside `batch()` the cursor may be read only after the batch."""
        connection = engine_connection()
        for observe in OBSERVERS:
            observe(self.name, params)
        cursor = HotCursor(connection.connection)
        with connection.wrap_database_errors:
            cursor.execute(self.text, {name: _bound(value) for name, value in params.items()})
        return cursor

    def rows(self, **params: Any) -> list[tuple[Any, ...]]:
        """All rows."""
        cursor = self.send(**params)
        with engine_connection().wrap_database_errors:
            return cursor.fetchall()

    def row(self, **params: Any) -> tuple[Any, ...] | None:
        """The first row, or None."""
        rows = self.rows(**params)
        return rows[0] if rows else None

    def execute(self, **params: Any) -> int:
        """The number of rows changed; raises inside a batch, where it is not known yet."""
        count = self.send(**params).rowcount
        if count < 0:
            raise ProgrammingError(f"{self.name}: row count read before its batch ended")
        return count


class Statements:
    """The statements of one file, as attributes."""

    def __init__(self, source: str, statements: dict[str, Statement]) -> None:
        self.source = source
        self.statements = statements

    def __getattr__(self, name: str) -> Statement:
        try:
            return self.statements[name]
        except KeyError:
            raise AttributeError(f"{self.source} has no statement named {name!r}") from None


_NAME = re.compile(r"^-- name: (\w+)\s*$", re.M)


def load(app: str, file: str) -> Statements:
    """Read `<app>/sql/<file>`: each `-- name: verb` opens a statement."""
    text = files(app).joinpath("sql", file).read_text()
    parts = _NAME.split(text)
    found: dict[str, Statement] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        if name in found:
            raise ProgrammingError(f"{app}/sql/{file}: statement {name!r} is defined twice")
        found[name] = Statement(f"{app}.{file.removesuffix('.sql')}.{name}", body.strip().rstrip(";"))
    return Statements(f"{app}/sql/{file}", found)


@contextmanager
def batch() -> Iterator[None]:
    """Pipeline the statements inside: one round trip, row counts known after the block."""
    connection = engine_connection()
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield
