"""Who may look at runs and who may act on them: staff with the permission, or the demo on loopback (looking only)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from ipaddress import ip_address
from typing import Any

from django.http import HttpRequest

from orchestrator.conf import conf

VIEW = "workflows.view_execution"
OPERATE = "workflows.change_execution"


class Verdict(Enum):
    """An answer to "may this visitor look?"."""

    YES = "yes"
    LOG_IN = "log in"
    FORBIDDEN = "forbidden"


def may_view(user: Any, address: str | None, *, forwarded: bool, namespace: str | None = None) -> Verdict:
    """Whether a visitor may look at a namespace (None: at any).

    In the demo a visitor from this machine may look at the default namespace. A request that a proxy passed
    on comes from the proxy's address, so it never counts as one from this machine.
    """
    if user is not None and user.is_authenticated:
        allowed = user.is_active and user.is_staff and user.has_perm(VIEW)
        return Verdict.YES if allowed else Verdict.FORBIDDEN
    if conf().DEMO_OPEN and not forwarded and is_loopback(address):
        return Verdict.YES if namespace in (None, conf().DEFAULT_NAMESPACE) else Verdict.LOG_IN
    return Verdict.LOG_IN


def may_operate(user: Any) -> bool:
    """Whether the visitor may press buttons: never without an account, since an audit row names its actor."""
    return bool(user and user.is_authenticated and user.is_active and user.is_staff and user.has_perm(OPERATE))


def is_loopback(address: str | None) -> bool:
    """Whether an address is this machine's own."""
    try:
        return ip_address(address or "").is_loopback
    except ValueError:
        return False


def verdict(request: HttpRequest, namespace: str | None = None) -> Verdict:
    """`may_view` of an HTTP request."""
    forwarded = was_forwarded(request.headers)
    return may_view(request.user, request.META.get("REMOTE_ADDR"), forwarded=forwarded, namespace=namespace)


def was_forwarded(names: Iterable[str]) -> bool:
    """Whether headers of these names say that a proxy stands between."""
    return not {"forwarded", "x-forwarded-for", "x-real-ip"}.isdisjoint(name.lower() for name in names)
