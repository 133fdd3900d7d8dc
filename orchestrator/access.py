"""Who is asking and what they may do. Knows neither DRF nor ASGI: headers, a user and an address go in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from orchestrator.conf import conf
from orchestrator.errors import Forbidden, Unauthenticated

PERMISSIONS = ("view", "start", "operate", "define", "work", "admin")
_FORWARDED = frozenset({"forwarded", "x-forwarded-for", "x-real-ip"})


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller: its name for the audit trail, its namespace, its permissions."""

    name: str
    namespace: str
    permissions: frozenset[str]


def principal(user: Any, address: str | None, headers: Iterable[str]) -> Principal | None:
    """The caller behind a session's user, or behind a request from this machine in demo mode; None for nobody."""
    namespace = conf().DEFAULT_NAMESPACE
    if user is not None and user.is_authenticated and user.is_active and user.is_staff:
        granted = PERMISSIONS if user.is_superuser else _granted(user)
        return Principal(user.get_username(), namespace, frozenset(granted))
    forwarded = any(name.lower() in _FORWARDED for name in headers)
    if conf().DEMO_OPEN and not forwarded and _is_loopback(address):
        return Principal("demo", namespace, frozenset(PERMISSIONS))
    return None


def require(who: Principal | None, permission: str) -> Principal:
    """The caller, if it may; raises Unauthenticated or Forbidden."""
    if who is None:
        raise Unauthenticated("Credentials are required: log in as staff, or use the demo on this machine.")
    if permission not in who.permissions:
        raise Forbidden(f"{who.name} may not do that: it needs the permission {permission!r}.")
    return who


def _granted(user: Any) -> list[str]:
    names = {
        "view": "workflows.view_execution",
        "start": "workflows.add_execution",
        "operate": "workflows.change_execution",
        "define": "workflows.change_workflowdefinition",
        "work": "dispatch.change_queuedtask",
        "admin": "orchestrator.view_auditentry",
    }
    return [permission for permission, name in names.items() if user.has_perm(name)]


def _is_loopback(address: str | None) -> bool:
    try:
        return ip_address(address or "").is_loopback
    except ValueError:
        return False
