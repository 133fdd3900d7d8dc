from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.management.base import BaseCommand, CommandError
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from orchestrator.conf import conf
from orchestrator.management.commands.run_web import refuse_taken_port
from orchestrator.management.folder import DataFolder
from orchestrator.management.terminal import Terminal
from orchestrator.postgres import EmbeddedPostgres, OstinatoPostgresError

Finding = tuple[bool, str, str]
"""Whether it is well, what was looked at, and what was found (with the way out when it is not well)."""
PACKAGES = ("orchestrator", "workflows", "dispatch", "outbox")


class Command(BaseCommand):
    help = "Look for what would stop this installation from working, and say how to mend it."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        terminal = Terminal()
        failed = 0
        for well, what, found in findings():
            mark = terminal.paint("ok  ", "32") if well else terminal.paint("FAIL", "1;31")
            terminal.block(f"{mark} {what}: {found}") if not well else self.stdout.write(f"  {mark} {what}: {found}")
            failed += not well
        if failed:
            raise CommandError(f"{failed} problem(s) found.")


def findings() -> Iterator[Finding]:
    """Every check, cheapest first."""
    yield sys.version_info >= (3, 11), "Python", sys.version.split()[0]
    yield from _names()
    yield from _configuration()
    yield from _database()
    yield _port()


def _names() -> Iterator[Finding]:
    """Installers overwrite packages of the same name without a word."""
    owners = packages_distributions()
    for name in PACKAGES:
        others = sorted(set(owners.get(name, [])) - {"ostinato"})
        found = f"also installed by {', '.join(others)}; uninstall it and reinstall ostinato" if others else "ours"
        yield not others, f"package {name}", found


def _configuration() -> Iterator[Finding]:
    try:
        problems = [found for found in checks.run_checks() if found.level >= checks.ERROR]
    except Exception as error:
        yield False, "settings", f"the project cannot be loaded: {type(error).__name__}: {error}"
        return
    for problem in problems:
        yield False, f"settings ({problem.id})", f"{problem.msg} {problem.hint or ''}".strip()
    if not problems:
        yield True, "settings", "no errors"


def _database() -> Iterator[Finding]:
    if "DATABASE_URL" not in os.environ and not DataFolder(settings.DATA_DIR).database_url.exists():
        yield _embedded()
        return
    alias = conf().DATABASE
    try:
        problems = [
            p for p in checks.run_checks(tags=[checks.Tags.database], databases=[alias]) if p.level >= checks.ERROR
        ]
        executor = MigrationExecutor(connections[alias])
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Exception as error:
        yield False, "database", f"{type(error).__name__}: {error}".strip()
        return
    for problem in problems:
        yield False, f"database ({problem.id})", f"{problem.msg} {problem.hint or ''}".strip()
    if not problems:
        yield True, "database", "answers, and fits"
    yield not pending, "migrations", f"{len(pending)} not applied; run `migrate`" if pending else "applied"


def _embedded() -> Finding:
    server = EmbeddedPostgres(settings.DATA_DIR / "postgres")
    try:
        return True, "embedded PostgreSQL", server.describe()
    except OstinatoPostgresError as error:
        return False, "embedded PostgreSQL", error.message


def _port() -> Finding:
    port = int(os.environ.get("PORT", "8080"))
    if DataFolder(settings.DATA_DIR).run.exists():
        return True, "port", "`up` is running on this data folder"
    try:
        refuse_taken_port(os.environ.get("HOST", "127.0.0.1"), port)
    except CommandError as error:
        return False, "port", str(error)
    return True, "port", f"{port} is free"
