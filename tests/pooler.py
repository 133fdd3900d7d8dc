"""PgBouncer in transaction mode, in front of the tests' server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from orchestrator.postgres.host import server_owner
from tests.support import eventually

POOLER = "OSTINATO_TEST_POOLER"
"""How the controller of xdist tells its workers to go through a pooler: its URL."""
_CONFIG = """\
[databases]
* = {upstream}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 30
max_client_conn = 2000
server_login_retry = 1
"""


def pgbouncer() -> str | None:
    """The program, if it is here; Debian keeps it where only root looks."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class Pooler:
    """A pooler for every database of a server; a context manager."""

    def __init__(self, server_url: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        parts = conninfo_to_dict(server_url)
        known = {key: parts[key] for key in ("host", "port", "user", "password") if parts.get(key)}
        self.config = _CONFIG.format(upstream=" ".join(f"{k}={v}" for k, v in known.items()), port=self.port)
        self.folder: Path | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, name: str) -> str:
        """A database through the pooler."""
        return f"postgresql://ostinato@127.0.0.1:{self.port}/{quote(name)}?sslmode=disable"

    def start(self) -> None:
        program, owner = pgbouncer(), server_owner()
        assert program is not None, "pgbouncer is not installed (scripts/install_test_services)"
        self.folder = Path(tempfile.mkdtemp(prefix="ostinato-pooler-"))
        self.folder.chmod(0o755)
        config = self.folder / "pgbouncer.ini"
        config.write_text(self.config)
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [program, str(config)], stdout=log, stderr=subprocess.STDOUT, cwd="/",
                user=owner and owner.uid, group=owner and owner.gid, extra_groups=[] if owner else None,
            )  # fmt: skip
        eventually(self._answers)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.folder is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def __enter__(self) -> Pooler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
