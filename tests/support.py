"""Helpers for tests that race: contenders in threads, waiting on conditions and never on time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from uuid import uuid4

import psycopg
from django.db import connections

T = TypeVar("T")

_BLOCKERS = """
WITH RECURSIVE chain(pid) AS (
    SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity
     WHERE application_name = %(name)s AND datname = current_database()
    UNION
    SELECT unnest(pg_blocking_pids(chain.pid)) FROM chain
)
SELECT coalesce(array_agg(pid), '{}') FROM chain
"""


def eventually(predicate: Callable[[], T], seconds: float = 10.0) -> T:
    """Poll until the predicate is true and return what it returned; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {seconds} s: {predicate} (last value {value!r})")
        threading.Event().wait(0.005)


def observer() -> psycopg.Connection[Any]:
    """A connection of its own to the test database, outside every transaction."""
    params = connections["default"].get_connection_params()
    kept = {k: v for k, v in params.items() if k in {"dbname", "user", "password", "host", "port"}}
    return psycopg.connect(**kept, autocommit=True)


class Contender(Generic[T]):
    """Runs `body` in its own thread with its own Django connection, from the moment it is made."""

    def __init__(self, body: Callable[[], T], name: str = "contender") -> None:
        self._body = body
        self._value: T | None = None
        self._error: BaseException | None = None
        self._connected = threading.Event()
        self.name = f"{name}-{uuid4().hex}"
        self._by = _own_pid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with connections["default"].cursor() as cursor:
                # A pooler takes the name along to whichever backend it picks; the backend's number it makes up.
                cursor.execute("SELECT set_config('application_name', %s, false)", [self.name])
            self._connected.set()
            self._value = self._body()
        except BaseException as error:
            self._error = error
        finally:
            self._connected.set()
            connections.close_all()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def until_blocked(self, seconds: float = 10.0, by: int | None = None) -> Contender[T]:
        """Return once PostgreSQL says that this backend waits for ours (or `by`), directly or in a queue."""
        assert self._connected.wait(seconds), "the contender did not connect"
        holder = by or self._by
        deadline = time.monotonic() + seconds
        with observer() as watching:
            while True:
                row = watching.execute(_BLOCKERS, {"name": self.name}).fetchone()
                blockers = row[0] if row else []
                if holder in blockers if holder else blockers:
                    return self
                if self.done:
                    raise AssertionError(f"ended without blocking: {self._value!r} {self._error!r}") from self._error
                if time.monotonic() > deadline:
                    raise AssertionError(f"not blocked by {holder} within {seconds} s (blocked by {blockers})")
                self._thread.join(0.005)

    def result(self, timeout: float = 10.0) -> T:
        """What the body returned; raises what it raised, fails when it is still running."""
        self._thread.join(timeout)
        if not self.done:
            raise AssertionError(f"the contender is still running after {timeout} s")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def outcome(self, timeout: float = 10.0) -> T | BaseException:
        """What the body returned or raised."""
        try:
            return self.result(timeout)
        except BaseException as error:
            if self._error is error:
                return error
            raise


def race(n: int, body: Callable[[int], T], timeout: float = 60.0) -> list[T | BaseException]:
    """Run `body(i)` in n threads that start together; results and exceptions in order of i."""
    barrier = threading.Barrier(n)

    def start(number: int) -> T:
        connections["default"].ensure_connection()
        barrier.wait(timeout)
        return body(number)

    contenders = [Contender(lambda i=i: start(i), name=f"race-{i}") for i in range(n)]  # type: ignore[misc]
    return [contender.outcome(timeout) for contender in contenders]


def _own_pid() -> int | None:
    """The backend of this thread's connection when it may hold locks."""
    connection = connections["default"]
    if connection.connection is None or not connection.in_atomic_block:
        return None
    return int(connection.connection.execute("SELECT pg_backend_pid()").fetchone()[0])
