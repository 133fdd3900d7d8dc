from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from orchestrator.postgres import EmbeddedPostgres, OstinatoPostgresError
from tests.support import eventually

FAST = {"fsync": "off", "shared_buffers": "16MB"}


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="ostinato-pg-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def server(folder: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(folder / "postgres", FAST)
    server.start()
    server.wait_ready()
    yield server
    server.stop()


def ask(server: EmbeddedPostgres, question: str, dbname: str = "postgres") -> object:
    with psycopg.connect(server.url(dbname), autocommit=True) as connection:
        row = connection.execute(question).fetchone()
        return row[0] if row else None


def test_data_survives_a_restart(server: EmbeddedPostgres) -> None:
    assert server.create_database("app")
    assert not server.create_database("app")
    with psycopg.connect(server.url("app")) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (7)")
    server.stop()

    again = EmbeddedPostgres(server.data_dir, FAST)
    again.start()
    again.wait_ready()
    try:
        assert ask(again, "SELECT n FROM kept", "app") == 7
    finally:
        again.stop()
    assert not (server.data_dir / "postmaster.pid").exists()
    assert not server.socket_dir.exists()


def test_a_database_is_copied_from_a_template(server: EmbeddedPostgres) -> None:
    server.create_database("source")
    with psycopg.connect(server.url("source")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 3 AS n")
    assert server.create_database("copy", template="source")
    assert ask(server, "SELECT n FROM kept", "copy") == 3


def test_only_the_socket_folder_lets_in(server: EmbeddedPostgres) -> None:
    assert ask(server, "SHOW listen_addresses") == ""
    assert server.socket_dir.stat().st_mode & 0o077 == 0
    assert len(str(server.socket_dir / ".s.PGSQL.5432")) < 100


def test_a_folder_in_use_is_refused(server: EmbeddedPostgres) -> None:
    with pytest.raises(OstinatoPostgresError, match="in use by another process"):
        EmbeddedPostgres(server.data_dir, FAST).prepare()


def test_a_folder_of_another_version_is_refused(folder: Path) -> None:
    data = folder / "postgres"
    EmbeddedPostgres(data, FAST).prepare()
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(OstinatoPostgresError, match="belongs to PostgreSQL 9"):
        EmbeddedPostgres(data, FAST).prepare()


def test_a_folder_of_something_else_is_refused(folder: Path) -> None:
    data = folder / "postgres"
    EmbeddedPostgres(data, FAST).prepare()
    (data / "PG_VERSION").unlink()
    with pytest.raises(OstinatoPostgresError, match="holds no PostgreSQL data"):
        EmbeddedPostgres(data, FAST).prepare()


@pytest.mark.parametrize("number", ["4194304", str(os.getpid())], ids=["dead", "taken by another program"])
def test_a_stale_lock_file_is_no_obstacle(folder: Path, number: str) -> None:
    server = EmbeddedPostgres(folder / "postgres", FAST)
    server.prepare()
    (server.data_dir / "postmaster.pid").write_text(f"{number}\n{server.data_dir}\n")
    server.start()
    server.wait_ready()
    try:
        assert ask(server, "SELECT 1") == 1
    finally:
        server.stop()


def test_a_server_that_dies_at_once_shows_its_log(folder: Path) -> None:
    server = EmbeddedPostgres(folder / "postgres", {**FAST, "no_such_setting": "1"})
    server.start()
    with pytest.raises(OstinatoPostgresError, match="no_such_setting"):
        server.wait_ready()
    server.stop()


def test_the_server_ends_with_a_supervisor_that_is_killed(folder: Path) -> None:
    program = (
        "import sys, pathlib, threading; from orchestrator.postgres import EmbeddedPostgres\n"
        f"s = EmbeddedPostgres(pathlib.Path({str(folder / 'postgres')!r}), {FAST!r}); s.start(); s.wait_ready()\n"
        "print('ready', flush=True); threading.Event().wait()"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert supervisor.stdout is not None
    assert supervisor.stdout.readline() == b"ready\n"
    lock = folder / "postgres" / "postmaster.pid"
    assert lock.exists()
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    eventually(lambda: not lock.exists())
    EmbeddedPostgres(folder / "postgres", FAST).stop()


def test_the_wheel_runs_from_a_copy_of_its_layout(folder: Path) -> None:
    server = EmbeddedPostgres(folder / "postgres", FAST)
    server.prepare()
    assert server._bin is not None
    copied = server._copy_wheel(server._bin)
    assert copied.is_relative_to(folder)
    assert server._runs(copied)
