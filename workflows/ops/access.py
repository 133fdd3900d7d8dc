"""Who may look at runs (staff, a key that may, the demo on loopback) and who may press buttons (staff only)."""

from __future__ import annotations

from enum import Enum
from typing import Any

from django.http import HttpRequest

from orchestrator.access import Headers, principal
from orchestrator.errors import LimitExceeded, Unauthenticated

VIEW = "workflows.view_execution"
OPERATE = "workflows.change_execution"


class Verdict(Enum):
    """An answer to "may this visitor look?"."""

    YES = "yes"
    LOG_IN = "log in"
    FORBIDDEN = "forbidden"


def may_view(user: Any, address: str | None, headers: Headers, namespace: str | None = None) -> Verdict:
    """Whether a visitor may look at a namespace (None: at any); the demo opens its own namespace only."""
    known = user is not None and user.is_authenticated
    try:
        who = principal(user, address, headers)
    except (Unauthenticated, LimitExceeded):
        who = None
    if who is None:
        return Verdict.FORBIDDEN if known else Verdict.LOG_IN
    if "view" not in who.permissions:
        return Verdict.FORBIDDEN
    if not (known and user.is_staff) and namespace not in (None, who.namespace):
        return Verdict.FORBIDDEN if known else Verdict.LOG_IN
    return Verdict.YES


def may_operate(user: Any) -> bool:
    """Whether the visitor may press buttons: never without an account, since an audit row names its actor."""
    return bool(user and user.is_authenticated and user.is_active and user.is_staff and user.has_perm(OPERATE))


def verdict(request: HttpRequest, namespace: str | None = None) -> Verdict:
    """`may_view` of an HTTP request."""
    return may_view(request.user, request.META.get("REMOTE_ADDR"), request.headers, namespace)
