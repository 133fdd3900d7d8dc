"""A PostgreSQL server of the chaos suite's own, which is restarted, crashed, and loses backends."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from django.core.management import call_command
from django.db import connections

from orchestrator.postgres import EmbeddedPostgres
from tests.database import use_database

NAME = "chaos"
# What is committed must outlive a crash of the server; the machine itself does not crash here.
_SETTINGS = {"fsync": "off", "log_min_messages": "warning", "log_min_error_statement": "panic"}
_OTHERS = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid() AND backend_type = 'client backend'"


class Server:
    """The server; `restarts` and `terminations` count what was done to it."""

    def __init__(self, folder: Path) -> None:
        self.postgres = EmbeddedPostgres(folder / "postgres", _SETTINGS)
        self.restarts = self.terminations = 0
        self.postgres.prepare()
        self._start()
        self.postgres.create_database(NAME)

    @property
    def socket_path(self) -> str:
        return str(self.postgres.socket_dir / ".s.PGSQL.5432")

    def ask(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        """Rows, over a connection of its own."""
        with psycopg.connect(self.postgres.url(NAME), autocommit=True) as connection:
            return connection.execute(query, params).fetchall()  # type: ignore[call-overload]

    def terminate_backends(self, chance: random.Random, count: int) -> None:
        """pg_terminate_backend on some of those that are connected."""
        pids = [pid for (pid,) in self.ask(_OTHERS, NAME)]
        for pid in chance.sample(pids, min(count, len(pids))):
            self.terminations += self.ask("SELECT pg_terminate_backend(%s)", pid)[0][0]

    def restart(self, how: signal.Signals) -> None:
        """SIGINT stops it fast, SIGQUIT at once: it then recovers from its log, as after a crash."""
        process = self.postgres.process
        assert process is not None
        os.kill(self._pid(), how)
        process.wait(30)
        self.postgres.stop()
        self._start()
        self.restarts += 1

    def crash(self, chance: random.Random) -> None:
        """SIGKILL one backend: the server throws out all of them and recovers."""
        pids = [pid for (pid,) in self.ask(_OTHERS, NAME)]
        if pids:
            os.kill(chance.choice(pids), signal.SIGKILL)
            self.postgres.wait_ready()
            self.restarts += 1

    def complaints(self) -> list[str]:
        """Lines of the server's log that no load may cause."""
        never = ("deadlock detected", "workflows_historyevent", "could not serialize", "PANIC")
        return [line for line in self.postgres.log_path.read_text().splitlines() if any(w in line for w in never)]

    def _pid(self) -> int:
        return int((self.postgres.data_dir / "postmaster.pid").read_text().split("\n", 1)[0])

    def _start(self) -> None:
        self.postgres.start()
        self.postgres.wait_ready()


@contextmanager
def serving() -> Iterator[Server]:
    """A migrated server, which this process's Django uses meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="ostinato-chaos-"))
    folder.chmod(0o711)
    connection = connections["default"]
    before, url = dict(connection.settings_dict), os.environ.get("DATABASE_URL")
    server = Server(folder)
    try:
        use_database(server.postgres.url("postgres"), NAME)
        call_command("migrate", interactive=False, verbosity=0)
        yield server
    finally:
        connections.close_all()
        connection.settings_dict.update(before)
        os.environ.pop("DATABASE_URL")
        if url is not None:
            os.environ["DATABASE_URL"] = url
        server.postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)
