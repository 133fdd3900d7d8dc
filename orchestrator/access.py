"""Who is asking and what they may do. Knows neither DRF nor ASGI: headers, a user and an address go in."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from orchestrator.addresses import origin
from orchestrator.conf import conf
from orchestrator.db.ids import parse_id
from orchestrator.errors import Forbidden, Unauthenticated
from orchestrator.services import keys, throttling
from orchestrator.services.keys import PERMISSIONS

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
Headers = Mapping[str, str]
"""Headers of a request by name: any case of Django's, lower case of ASGI's."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller: its name for the audit trail, its namespace, its rights; no queues are all queues.

    A user's `groups` are those of Django; a key is in none.
    """

    name: str
    namespace: str
    permissions: frozenset[str]
    queues: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


def principal(user: Any, address: str | None, headers: Headers) -> Principal | None:
    """The caller behind an API key, a session's user, or this machine in demo mode; None for nobody.

    Credentials that are wrong raise InvalidToken or ExpiredToken: they never become somebody else. Too many of them
    raise LockedOut, and too many requests of a key LimitExceeded.
    """
    given = credentials(headers)
    if given is not None:
        key = keys.authenticate(given, tried_from(address, headers))
        throttling.take(key.id)
        return Principal(f"key:{key.name}", key.namespace, frozenset(key.permissions), tuple(key.queues))
    namespace = conf().DEFAULT_NAMESPACE
    if user is not None and user.is_authenticated and user.is_active and user.is_staff:
        granted = PERMISSIONS if user.is_superuser else _granted(user)
        groups = tuple(user.groups.values_list("name", flat=True))
        return Principal(user.get_username(), namespace, frozenset(granted), groups=groups)
    if is_demo(address, headers):
        return Principal("demo", namespace, frozenset(PERMISSIONS))
    return None


def credentials(headers: Headers) -> str | None:
    """`<id>.<secret>` or a token, from where clients put it; None when there is none of ours."""
    token = headers.get("x-authorization")
    if token:
        return token.removeprefix("Bearer ").strip()
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        return _basic(value)
    return None


def _basic(value: str) -> str | None:
    """User and password as id and secret; those of another kind are meant for a proxy."""
    try:
        user, _, password = b64decode(value, validate=True).decode().partition(":")
    except ValueError:
        return None
    return f"{user}.{password}" if parse_id(user) else None


def is_demo(address: str | None, headers: Headers) -> bool:
    """Whether a request is this machine's own, in demo mode.

    Not one that came through a proxy, and not one that a page of another site made a browser here send.
    """
    if not conf().DEMO_OPEN or not _is_loopback(address) or any(headers.get(name) for name in _FORWARDED):
        return False
    host, origin = headers.get("host", ""), headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return False
    return not host or validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)


def tried_from(address: str | None, headers: Headers) -> str | None:
    """What wrong credentials are counted against; None in the open demo, where nobody needs any."""
    return None if is_demo(address, headers) else origin(address, headers.get("x-forwarded-for"))


def require(who: Principal | None, permission: str) -> Principal:
    """The caller, if it may; raises Unauthenticated or Forbidden."""
    if who is None:
        raise Unauthenticated("Credentials are required: an API key or its token, or a staff session.")
    if permission not in who.permissions:
        raise Forbidden(f"{who.name} may not do that: it needs the permission {permission!r}.")
    return who


def require_queue(who: Principal, queue: str | None) -> None:
    """Raise Forbidden unless the caller may work on a queue."""
    if who.queues and not keys.may_work(who.queues, queue or ""):
        raise Forbidden(f"{who.name} may not work on {queue or 'this task'}: it may on {', '.join(who.queues)}.")


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
