"""The data folder of `up`: what lives in it, its lock, and the secrets made on first use."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management.base import CommandError


class DataFolder:
    """`.ostinato/`: PostgreSQL's files, large payloads, secrets (mode 600), and a folder `run` that lives as long as `up` does.

    `orchestrator.settings` reads `secret-key` and `run/database-url` for the commands beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.postgres = path / "postgres"
        self.run = path / "run"
        self.status = self.run / "status"
        self.metrics = self.run / "metrics"
        self.database_url = self.run / "database-url"
        self.static = path / "static"
        self.payloads = path / "payloads"
        self.admin_password = path / "admin-password"

    def secret(self, name: str) -> str:
        """A secret kept in a file of its own; made on first use."""
        path = self.path / name
        if not path.exists():
            write_private(path, secrets.token_urlsafe(48))
        return path.read_text().strip()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one `up` per folder; raises CommandError when another one runs. Leaves no lock behind."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = self.path / "up.lock"
        with lock.open("a+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                raise CommandError(
                    f"Another `up` (process {handle.read().strip()}) runs on {self.path}. "
                    f"Stop it first, or choose another folder with DATA_DIR=."
                ) from None
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            try:
                self._fresh_run()
                yield
            finally:
                shutil.rmtree(self.run, ignore_errors=True)
                lock.unlink(missing_ok=True)

    def _fresh_run(self) -> None:
        shutil.rmtree(self.run, ignore_errors=True)
        for folder in (self.status, self.metrics, self.static):
            folder.mkdir(parents=True, exist_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        partial.unlink()
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text + "\n")
    partial.replace(path)
