"""Environment variables of a namespace: plain values that definitions read as `${workflow.env.NAME}`."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.db.transactions import transaction
from orchestrator.errors import Invalid, NotFound
from orchestrator.models import AuditEntry, EnvironmentVariable
from orchestrator.services.secrets import MOST_BYTES, check_name


def put(namespace: str, name: str, value: str, *, actor: str) -> None:
    """Create or replace a variable; runs see it at their next pass. Raises Invalid."""
    check_name(name)
    if "\x00" in value or len(value.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise Invalid(problems=[("value", f"expected a text of at most {MOST_BYTES} bytes without NUL")])
    with transaction():
        EnvironmentVariable.sql.put(namespace, name, value)
        _audit(namespace, actor, "put", name)


def delete(namespace: str, name: str, *, actor: str) -> None:
    """Forget a variable; raises NotFound."""
    with transaction():
        if not EnvironmentVariable.sql.delete(namespace, name):
            raise _unknown(name)
        _audit(namespace, actor, "delete", name)


def get(namespace: str, name: str) -> str:
    """The value of a variable; raises NotFound."""
    found = values([namespace]).get(namespace, {})
    if name not in found:
        raise _unknown(name)
    return found[name]


def values(namespaces: Iterable[str]) -> dict[str, dict[str, str]]:
    """Namespace -> name -> value."""
    found: dict[str, dict[str, str]] = {}
    for namespace, name, value in EnvironmentVariable.sql.find(sorted(set(namespaces))):
        found.setdefault(namespace, {})[name] = value
    return found


def _unknown(name: str) -> NotFound:
    return NotFound(f"There is no environment variable {name!r} in this namespace.", name=name)


def _audit(namespace: str, actor: str, action: str, name: str) -> None:
    AuditEntry.sql.record(
        namespace=namespace, actor=actor, action=f"environment.{action}", target=name, outcome="done", detail={}
    )
