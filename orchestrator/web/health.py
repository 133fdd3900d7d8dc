"""The health check: the database answers, the schema is migrated, and every supervised loop goes round."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from django.db import close_old_connections, connections
from django.db.migrations.executor import MigrationExecutor

from orchestrator.conf import conf
from orchestrator.runtime import heartbeat

_TIMEOUT_SECONDS = 5.0
_KEEP_SECONDS = 0.5


class _DatabaseCheck:
    """Asked from one thread of its own, so that busy views cannot make the server look dead."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="health")
        self._running: asyncio.Future[dict[str, str]] | None = None
        self._known: tuple[float, dict[str, str]] = (float("-inf"), {})
        self._migrated = False

    async def problems(self) -> dict[str, str]:
        """What is wrong with the database; many askers share one query."""
        since, known = self._known
        if time.monotonic() - since < _KEEP_SECONDS:
            return known
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().run_in_executor(self._pool, self._ask)
        try:
            found = await asyncio.wait_for(asyncio.shield(self._running), _TIMEOUT_SECONDS)
        except TimeoutError:
            return {"database": "no answer"}
        self._known = (time.monotonic(), found)
        return found

    def _ask(self) -> dict[str, str]:
        close_old_connections()
        connection = connections[conf().DATABASE]
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            if not self._migrated:
                executor = MigrationExecutor(connection)
                self._migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
        except Exception:
            connection.close()
            return {"database": "down"}
        return {} if self._migrated else {"migrations": "not applied"}


_database = _DatabaseCheck()


async def check_health() -> dict[str, str]:
    """Part -> what is wrong with it; empty when all is well."""
    found = dict(await _database.problems())
    folder = os.environ.get(heartbeat.VARIABLE)
    if folder:
        children = heartbeat.states(Path(folder))
        found |= {name: state for name, state in children.items() if state != "up"}
        if not children:
            found["supervisor"] = "starting"
    return found
