"""One PostgreSQL server for a test session, a migrated template, and one database per xdist worker."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from django.db.models import ForeignKey
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from orchestrator.postgres import EmbeddedPostgres, create_database

ROOT = Path(__file__).resolve().parent.parent
SERVER = "OSTINATO_TEST_SERVER"
"""How the controller of xdist tells its workers which server to use."""
OWN_SERVER = "OSTINATO_TEST_DATABASE_URL"
"""Set by a person who wants the tests to run on another server."""
APPS = ("orchestrator", "workflows", "dispatch", "outbox")
_TEMPLATE_LOCK = 8_341_702
_FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "200",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}


class TestServer:
    """The session's server; `stop()` leaves nothing behind."""

    __test__ = False

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.postgres: EmbeddedPostgres | None = None

    def start(self) -> str:
        """Start it (unless one is given) and return the URL of its maintenance database."""
        given = os.environ.get(OWN_SERVER)
        if given:
            return given
        self.folder = Path(tempfile.mkdtemp(prefix="ostinato-test-"))
        self.folder.chmod(0o711)
        self.postgres = EmbeddedPostgres(self.folder / "postgres", _FAST)
        self.postgres.prepare()
        self.postgres.start()
        self.postgres.wait_ready()
        return self.postgres.url("postgres")

    def stop(self) -> None:
        if self.postgres is not None:
            self.postgres.stop()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def database_url(server: str, name: str) -> str:
    """The URL of another database on the same server."""
    return urlunsplit(urlsplit(server)._replace(path=f"/{quote(name)}"))


def use_database(server: str, name: str) -> None:
    """Point this process (and the processes it starts) at a database of the server."""
    url = database_url(server, name)
    os.environ["DATABASE_URL"] = url
    parts = conninfo_to_dict(url)
    connection = connections["default"]
    connection.close()
    connection.settings_dict.update(
        NAME=name,
        USER=parts.get("user") or "",
        PASSWORD=parts.get("password") or "",
        HOST=parts.get("host") or "",
        PORT=str(parts.get("port") or ""),
    )
    for moved in ("host", "port"):
        connection.settings_dict.get("OPTIONS", {}).pop(moved, None)


def schema_hash() -> str:
    """Changes whenever a migration or a statement file does."""
    digest = hashlib.sha256()
    for app in APPS:
        for path in sorted([*(ROOT / app).glob("migrations/**/*"), *(ROOT / app).glob("sql/**/*.sql")]):
            if path.suffix in {".py", ".sql"}:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def make_template(server: str) -> str:
    """Migrate the template once per server and schema; other workers wait for it."""
    name = f"ostinato_template_{schema_hash()}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock(%s)", [_TEMPLATE_LOCK])
        if admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            return name
        building = f"{name}_building"
        drop_database(admin, building)
        create_database(server, building)
        use_database(server, building)
        call_command("migrate", interactive=False, verbosity=0)
        connections["default"].close()
        admin.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(building), sql.Identifier(name)))
    return name


def copy_template(server: str, template: str, name: str) -> None:
    """A fresh database from the template; one of that name is dropped first."""
    with psycopg.connect(server, autocommit=True) as admin:
        drop_database(admin, name)
        # Held together with the template's making: PostgreSQL refuses to copy a database in use.
        admin.execute("SELECT pg_advisory_lock(%s)", [_TEMPLATE_LOCK])
        create_database(server, name, template)


def drop_database(admin: psycopg.Connection[Any], name: str) -> None:
    """Drop a database even when somebody is connected to it."""
    admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def engine_tables() -> list[str]:
    """Every table a committed test may have written, those that refer to others first."""
    models = [m for m in apps.get_models(include_auto_created=True) if m._meta.managed and not m._meta.proxy]
    kept = {"contenttypes", "sites"}
    models = [m for m in models if m._meta.app_label not in kept and m._meta.db_table != "auth_permission"]
    tables = {m._meta.db_table: m for m in models}
    ordered: list[str] = []

    def visit(table: str, trail: frozenset[str]) -> None:
        if table in ordered or table in trail:
            return
        for other, model in tables.items():
            if other != table and table in _references(model):
                visit(other, trail | {table})
        ordered.append(table)

    for table in tables:
        visit(table, frozenset())
    return ordered


def _references(model: Any) -> set[str]:
    fields: Iterable[Any] = model._meta.local_fields
    return {f.related_model._meta.db_table for f in fields if isinstance(f, ForeignKey) and f.db_constraint}


class Emptier:
    """Empties what committed tests wrote, and keeps the rows that migrations made."""

    def __init__(self) -> None:
        self.kept: dict[str, list[Any]] = {}
        with connections["default"].cursor() as cursor:
            for table in engine_tables():
                cursor.execute(f'SELECT to_jsonb(t) FROM "{table}" t LIMIT 1000')
                rows = cursor.fetchall()
                if rows:
                    self.kept[table] = [row[0] for row in rows]

    def empty(self) -> None:
        """One round trip of DELETEs; a transaction that a test left open fails it, not the suite."""
        connection = connections["default"]
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid, query FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
            )
            leaked = cursor.fetchall()
            deletes = "; ".join(self._delete(table) for table in engine_tables())
            cursor.execute(f"SET lock_timeout = '5s'; {deletes}; RESET lock_timeout")
        assert not leaked, f"the test left transactions open: {leaked}"

    def _delete(self, table: str) -> str:
        if table not in self.kept:
            return f'DELETE FROM "{table}"'
        listed = ", ".join(_literal(row) for row in self.kept[table])
        return f'DELETE FROM "{table}" t WHERE to_jsonb(t) NOT IN ({listed})'


def _literal(row: Any) -> str:
    text = row if isinstance(row, str) else json.dumps(row)
    return sql.Literal(text).as_string() + "::jsonb"
