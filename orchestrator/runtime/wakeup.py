"""Wake-ups by NOTIFY: a hint that saves waiting, never a guarantee; every loop polls as well."""

from __future__ import annotations

import logging
import os
import random
import select
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from django.db import connections
from psycopg import sql
from psycopg.conninfo import make_conninfo

from orchestrator.conf import conf

logger = logging.getLogger(__name__)

_PROBE_SECONDS = 30.0
_RETRY_SECONDS = (0.2, 10.0)
_NOT_LIBPQ = {"cursor_factory", "context", "prepare_threshold", "isolation_level", "pool"}


def direct_conninfo() -> str:
    """Where LISTEN connects: `OSTINATO["DIRECT_URL"]`, else the engine's own database."""
    if conf().DIRECT_URL:
        return conf().DIRECT_URL
    params = connections[conf().DATABASE].get_connection_params()
    return make_conninfo("", **{k: v for k, v in params.items() if k not in _NOT_LIBPQ and v is not None})


class Wakeup:
    """Listens on channels in a thread of its own; subscribers are called with each payload.

    After a lost connection they are called with an empty payload, since something may have been missed.
    Behind a transaction pooler LISTEN cannot work: it then stays silent, and says so once.
    """

    def __init__(self, *channels: str) -> None:
        self.channels = channels
        self._bells: list[Callable[[str], None]] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._nudge: tuple[int, int] | None = None
        self.listening = threading.Event()
        """Set while the channels are listened to."""

    def subscribe(self, ring: Callable[[str], None]) -> None:
        """Call `ring(payload)` from the listening thread; it must be quick and must not raise."""
        with self._lock:
            self._bells.append(ring)

    def ring(self) -> None:
        """Call every subscriber, as a notification would; for what happens in this process itself."""
        self._ring("")

    def start(self) -> None:
        """Begin to listen; idempotent."""
        with self._lock:
            if self._thread is None:
                self._nudge = os.pipe()
                self._thread = threading.Thread(target=self._run, name=f"listen-{self.channels[0]}", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop listening and close the connection."""
        self._stopping = True
        if self._thread is not None and self._nudge is not None:
            os.write(self._nudge[1], b"x")
            self._thread.join(5)

    def _run(self) -> None:
        failures = 0
        while not self._stopping:
            try:
                with psycopg.connect(direct_conninfo(), autocommit=True) as connection:
                    if self._pooled(connection):
                        return
                    self._listen(connection)
                    failures = 0
            except psycopg.Error as error:
                failures += 1
                if failures == 1:
                    logger.warning("listening on %s interrupted: %s", ", ".join(self.channels), str(error).strip())
            finally:
                self.listening.clear()
            least, most = _RETRY_SECONDS
            self._wait(None, min(most, least * 2**failures) * random.uniform(0.5, 1.0))  # noqa: S311

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        for channel in self.channels:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        self.listening.set()
        self._ring("")
        while not self._stopping:
            if not self._wait(connection, _PROBE_SECONDS):
                connection.execute("SELECT 1")
            for notification in connection.notifies(timeout=0):
                self._ring(notification.payload)

    def _wait(self, connection: psycopg.Connection[Any] | None, seconds: float) -> bool:
        """Until the connection has something to read, `close()`, or the time is over (False)."""
        assert self._nudge is not None
        sources: list[Any] = [self._nudge[0], *([connection] if connection else [])]
        return bool(select.select(sources, [], [], seconds)[0])

    def _ring(self, payload: str) -> None:
        with self._lock:
            bells = list(self._bells)
        for ring in bells:
            ring(payload)

    def _pooled(self, connection: psycopg.Connection[Any]) -> bool:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        if row and row[0] == connection.info.backend_pid:
            return False
        logger.warning("LISTEN does not work through a transaction pooler; polling only (set DIRECT_URL)")
        return True
