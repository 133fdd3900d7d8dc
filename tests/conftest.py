"""The database of the tests: see tests/database.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import structlog
from django.conf import settings
from django.db import connections

from orchestrator.conf import conf
from tests.database import (
    OWN_SERVER,
    SERVER,
    Emptier,
    TestServer,
    copy_template,
    database_url,
    drop_database,
    make_template,
    use_database,
)
from tests.pooler import POOLER, Pooler

_server = TestServer()
_poolers: list[Pooler] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--through-pooler", action="store_true", help="everything but LISTEN goes through PgBouncer")


def pytest_configure(config: pytest.Config) -> None:
    """The controller starts the server before its workers exist; they find it in the environment."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ]
    )
    if config.getoption("nomigrations", default=False):
        raise pytest.UsageError("--nomigrations makes plain tables of partitioned ones; it is not allowed here")
    if hasattr(config, "workerinput") or config.option.collectonly or config.option.help:
        return
    os.environ[SERVER] = _server.start()
    if config.getoption("through_pooler"):
        pooler = Pooler(os.environ[SERVER])
        pooler.start()
        _poolers.append(pooler)
        os.environ[POOLER] = pooler.url("postgres")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ.pop(SERVER, None)
        os.environ.pop(POOLER, None)
        for pooler in _poolers:
            pooler.stop()
        _server.stop()


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """URL of the maintenance database of the session's server."""
    return os.environ[SERVER]


@pytest.fixture(scope="session")
def template_database(postgres_server: str, django_test_environment: None, django_db_blocker: Any) -> str:
    """Name of the migrated template."""
    with django_db_blocker.unblock():
        return make_template(postgres_server)


@pytest.fixture(scope="session")
def django_db_setup(
    postgres_server: str, template_database: str, worker_id: str, django_db_blocker: Any
) -> Iterator[None]:
    """pytest-django's fixture of this name, replaced: a copy of the template for this worker."""
    name = f"ostinato_test_{worker_id}_{os.getpid()}"
    copy_template(postgres_server, template_database, name)
    with django_db_blocker.unblock():
        use_database(os.environ.get(POOLER, postgres_server), name)
    if POOLER in os.environ:
        direct = database_url(postgres_server, name)
        settings.OSTINATO["DIRECT_URL"] = os.environ["DIRECT_URL"] = direct
        conf.cache_clear()
    yield
    if OWN_SERVER in os.environ:
        with django_db_blocker.unblock(), psycopg.connect(postgres_server, autocommit=True) as admin:
            connections["default"].close()
            drop_database(admin, name)


@pytest.fixture(scope="session")
def _emptier(django_db_setup: None, django_db_blocker: Any) -> Emptier:
    with django_db_blocker.unblock():
        return Emptier()


@pytest.fixture
def committed(_emptier: Emptier, django_db_blocker: Any) -> Iterator[None]:
    """For tests that really commit: the tables are emptied afterwards."""
    with django_db_blocker.unblock():
        try:
            yield
        finally:
            _emptier.empty()
