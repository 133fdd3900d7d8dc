"""System checks: misconfigurations that would break an invariant are refused at start-up."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections

from orchestrator import stores
from orchestrator.addresses import networks
from orchestrator.conf import conf, unknown_keys

PACKAGES = ("workflows", "dispatch", "outbox")


@register()
def configuration(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Unknown keys, wrong engine, ATOMIC_REQUESTS: no query is made here."""
    unknown = unknown_keys(getattr(settings, "OSTINATO", {}))
    if unknown:
        return [Error(f"settings.OSTINATO has unknown keys: {', '.join(unknown)}.", id="ostinato.E001")]
    found: list[CheckMessage] = []
    database = settings.DATABASES[conf().DATABASE]
    if not database["ENGINE"].endswith("postgresql"):
        found.append(
            Error("The engine needs PostgreSQL.", hint="Set DATABASE_URL=postgresql://...", id="ostinato.E002")
        )
    if database.get("ATOMIC_REQUESTS"):
        found.append(
            Error(
                "ATOMIC_REQUESTS is on for the engine's database: operator actions own their transactions.",
                hint="Set ATOMIC_REQUESTS to False for this alias.",
                id="ostinato.E003",
            )
        )
    try:
        networks(conf().PROXIES)
    except ValueError as error:
        found.append(Error(f"settings.OSTINATO PROXIES: expected networks, got {error}.", id="ostinato.E008"))
    return found + _payload_store()


def _payload_store() -> list[CheckMessage]:
    settings = conf()
    if settings.OFFLOAD_STORE not in stores.KINDS:
        said = f"expected one of {', '.join(stores.KINDS)}, got {settings.OFFLOAD_STORE!r}"
        return [Error(f"settings.OSTINATO OFFLOAD_STORE: {said}.", id="ostinato.E009")]
    if settings.OFFLOAD_S3_BUCKET and find_spec("boto3") is None:
        return [Error("OFFLOAD_S3_BUCKET needs boto3.", hint="pip install 'ostinato[s3]'", id="ostinato.E010")]
    return []


@register()
def import_names(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Another distribution that owns one of our import names would be imported instead of ours."""
    home = Path(__file__).resolve().parent.parent
    found: list[CheckMessage] = []
    for name in PACKAGES:
        spec = find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or home not in origin.parents:
            found.append(
                Error(
                    f"The package {name!r} is imported from {origin}, not from Ostinato.",
                    hint="Uninstall the other distribution of that name, or rename your own folder.",
                    id="ostinato.E004",
                )
            )
    return found


@register(Tags.database)
def server(app_configs: Any, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """READ COMMITTED and a recent server: the claim interlock needs both."""
    alias = conf().DATABASE
    if not databases or alias not in databases:
        return []
    connection = connections[alias]
    connection.ensure_connection()
    found: list[CheckMessage] = []
    with connection.cursor() as cursor:
        cursor.execute("SHOW default_transaction_isolation")
        level = cursor.fetchone()[0]
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    option = settings.DATABASES[alias].get("OPTIONS", {})
    if level != "read committed" or option.get("isolation_level") not in (None, 2):
        found.append(Error(f"Transactions run at {level!r}; INV-2 holds only in READ COMMITTED.", id="ostinato.E005"))
    version = connection.connection.info.server_version
    if version < 140000:
        found.append(
            Error(f"PostgreSQL {version // 10000} is too old; 14 is the least.", id="ostinato.E006")
        )
    pooled = connection.connection.info.backend_pid != backend
    if pooled and option.get("prepare_threshold") is not None:
        found.append(
            Error(
                "Named prepared statements are on behind a pooler: a wrong statement can run.",
                hint="Remove prepare_threshold from DATABASES OPTIONS.",
                id="ostinato.E007",
            )
        )
    return found
