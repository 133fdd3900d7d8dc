"""The grammar of transactions: services begin them, managers require them, one start may join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import connections
from django.db import transaction as django_transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from orchestrator.conf import conf
from orchestrator.db.sql import engine_connection
from orchestrator.errors import ProgrammingError

P = ParamSpec("P")
R = TypeVar("R")


class TransactionAborted(ProgrammingError):
    """A database error was swallowed inside a transaction; COMMIT would silently roll back."""


class OtherDatabase(ProgrammingError):
    """A start was asked to join a transaction that is open on another database."""


def open_blocks(connection: BaseDatabaseWrapper) -> int:
    """Atomic blocks of this connection, a test case's own not counted."""
    return sum(1 for block in connection.atomic_blocks if not getattr(block, "_from_testcase", False))


@contextmanager
def transaction() -> Iterator[None]:
    """Begin a transaction of our own; refuses to nest, refuses to commit an aborted one."""
    with django_transaction.atomic(using=conf().DATABASE, durable=True):
        yield
        _refuse_aborted()


@contextmanager
def savepoint() -> Iterator[None]:
    """A savepoint inside `transaction()`, for an error that is handled right beside it."""
    with django_transaction.atomic(using=conf().DATABASE):
        yield
        _refuse_aborted()


@contextmanager
def snapshot() -> Iterator[None]:
    """Several reads of one moment; inside an open transaction they are of that transaction's making."""
    connection = engine_connection()
    if connection.in_atomic_block:
        yield
        return
    with django_transaction.atomic(using=conf().DATABASE, durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


@contextmanager
def joined() -> Iterator[None]:
    """Join the caller's transaction as a savepoint (or begin one); only `start_workflow` does."""
    alias = conf().DATABASE
    ours = connections[alias]
    if not open_blocks(ours):
        others = [c.alias for c in connections.all(initialized_only=True) if c.alias != alias and open_blocks(c)]
        if others:
            raise OtherDatabase(
                f"A transaction is open on {', '.join(others)}, but the engine's tables are in {alias!r}: the start "
                f"could not commit with it. Open transaction.atomic(using={alias!r}) too, or start the workflow in "
                f"transaction.on_commit()."
            )
    with django_transaction.atomic(using=alias):
        yield
        _refuse_aborted()


def in_transaction() -> bool:
    """Whether a transaction other than a test case's own is open."""
    return open_blocks(engine_connection()) > 0


def requires_transaction(verb: Callable[P, R]) -> Callable[P, R]:
    """Assert that a transaction is open; a verb outside one would commit by itself."""

    @wraps(verb)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not in_transaction():
            raise ProgrammingError(f"{verb.__qualname__} needs a transaction; call it from a service")
        return verb(*args, **kwargs)

    return checked


def after_commit(hint: Callable[[], None]) -> None:
    """Run a hint after the commit; nothing may depend on it, and its failure is only logged."""
    django_transaction.on_commit(hint, using=conf().DATABASE, robust=True)


def _refuse_aborted() -> None:
    if engine_connection().connection.info.transaction_status == TransactionStatus.INERROR:
        raise TransactionAborted("A database error was caught and swallowed inside this transaction.")
