"""A database for measuring: an embedded server of its own, started for the run and removed after it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import environ
from django.db import connections

from orchestrator.conf import conf
from orchestrator.postgres import EmbeddedPostgres

_SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min", "autovacuum_naptime": "5s"}


@contextmanager
def scratch_database(folder: Path, **settings: str) -> Iterator[str]:
    """Point this process, and those it spawns, at a fresh database with durable commits; `settings` are the server's."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    server = EmbeddedPostgres(folder, {**_SETTINGS, **settings})
    server.prepare()
    server.start()
    try:
        server.wait_ready()
        server.create_database("bench")
        url = server.url("bench")
        os.environ["DATABASE_URL"] = url
        connection = connections[conf().DATABASE]
        connection.close()
        parsed = environ.Env.db_url_config(url)
        connection.settings_dict.update({key: parsed[key] for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT")})
        connection.settings_dict["OPTIONS"] = parsed.get("OPTIONS", {})
        yield url
        connection.close()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
