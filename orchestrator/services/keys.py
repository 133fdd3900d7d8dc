"""API keys: made once, shown once, kept as digests; exchanged for short tokens, which name the key and carry no rights.

A process remembers a key for `KEY_CACHE_SECONDS`: that long a revoked one may still be let in.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from uuid import UUID

import jwt
from django.conf import settings
from django.utils.crypto import salted_hmac

from orchestrator.conf import conf
from orchestrator.db.ids import new_id, parse_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import ExpiredToken, Forbidden, Invalid, InvalidToken, NotFound
from orchestrator.managers import StoredKey
from orchestrator.models import ApiKey, AuditEntry

PERMISSIONS = ("view", "start", "operate", "define", "work", "admin")
MOST_SECONDS = 10 * 365 * 24 * 3600
"""A key's life and an old secret's grace, at most."""
_ALGORITHM = "HS256"
_SALT = "orchestrator.services.keys"
_REMEMBERED: dict[UUID, tuple[StoredKey | None, float]] = {}
_LOCK = threading.Lock()
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """What a new key is for; `queues` are shell-style patterns of task types it may work on, empty for all."""

    namespace: str
    name: str
    permissions: tuple[str, ...]
    queues: tuple[str, ...] = field(default=())
    expires_seconds: int | None = None


def create(
    request: KeyRequest, *, actor: str, granted: frozenset[str] = frozenset(PERMISSIONS)
) -> tuple[StoredKey, str]:
    """A new key and its secret, which is told this once; raises Invalid, or Forbidden for more than is `granted`."""
    _check(request)
    beyond = [p for p in request.permissions if p not in granted]
    if beyond:
        raise Forbidden(f"{actor} cannot give what it does not have: {', '.join(beyond)}.")
    secret, key_id = _new_secret(), new_id()
    with transaction():
        ApiKey.sql.add(
            key_id, request.namespace, request.name, _digest(secret), request.permissions, request.queues, actor,
            request.expires_seconds,
        )  # fmt: skip
        _audit(request.namespace, actor, "create_key", key_id, name=request.name, permissions=list(request.permissions))
    return get(request.namespace, key_id), secret


def rotate(namespace: str, key_id: UUID | None, *, actor: str, grace_seconds: int = 0) -> tuple[StoredKey, str]:
    """A new secret for a key; the old one, and its tokens, work on for `grace_seconds`. Raises NotFound."""
    if not 0 <= grace_seconds <= MOST_SECONDS:
        raise Invalid(problems=[("graceSeconds", f"expected seconds from 0 to {MOST_SECONDS}, got {grace_seconds}")])
    secret = _new_secret()
    with transaction():
        if key_id is None or not ApiKey.sql.rotate(namespace, key_id, _digest(secret), grace_seconds):
            raise _unknown(key_id)
        _audit(namespace, actor, "rotate_key", key_id, graceSeconds=grace_seconds)
    _forget(key_id)
    return get(namespace, key_id), secret


def revoke(namespace: str, key_id: UUID | None, *, actor: str) -> None:
    """End a key and all its tokens; raises NotFound for one that is unknown or revoked already."""
    with transaction():
        if key_id is None or not ApiKey.sql.revoke(namespace, key_id):
            raise _unknown(key_id)
        _audit(namespace, actor, "revoke_key", key_id)
    _forget(key_id)


def get(namespace: str, key_id: UUID | None) -> StoredKey:
    """A key of a namespace; raises NotFound."""
    found = ApiKey.sql.find(key_id) if key_id is not None else None
    if found is None or found.namespace != namespace:
        raise _unknown(key_id)
    return found


def find_all(namespace: str) -> list[StoredKey]:
    """The keys of a namespace, newest first, revoked ones included."""
    return ApiKey.sql.find_all(namespace)


def exchange(key_id: str, secret: str) -> str:
    """A token for a key, valid for `TOKEN_SECONDS`; raises InvalidToken."""
    key = authenticate(f"{key_id}.{secret}")
    now = int(time.time())
    claims = {"sub": str(key.id), "sec": _digest(secret)[:16], "iat": now, "exp": now + conf().TOKEN_SECONDS}
    return jwt.encode(claims, _signing_keys()[0], algorithm=_ALGORITHM)


def authenticate(credentials: str) -> StoredKey:
    """The key behind `<id>.<secret>` or behind a token; raises InvalidToken or ExpiredToken."""
    key_id, proof = _read(credentials)
    key = _remember(key_id)
    if key is None or not any(hmac.compare_digest(digest[: len(proof)], proof) for digest in key.digests):
        raise InvalidToken
    if key.state != "active":
        raise InvalidToken(f"The API key {key.name!r} is {key.state}.")
    return key


def is_remembered(credentials: str) -> bool:
    """Whether `authenticate` would answer without the database."""
    try:
        known = _REMEMBERED.get(_read(credentials)[0])
    except InvalidToken:
        return True
    return known is not None and known[1] > time.monotonic()


def _read(credentials: str) -> tuple[UUID, str]:
    """The id of a key, and a digest of its secret or the beginning of one."""
    if credentials.count(".") == 1:
        shown, _, secret = credentials.partition(".")
        key_id = parse_id(shown)
        if key_id is None or not secret:
            raise InvalidToken
        return key_id, _digest(secret)
    claims = _claims(credentials)
    key_id = parse_id(str(claims["sub"]))
    if key_id is None:
        raise InvalidToken
    return key_id, str(claims["sec"])


def _claims(token: str) -> dict[str, object]:
    for signing_key in _signing_keys():
        try:
            claims: dict[str, object] = jwt.decode(
                token, signing_key, algorithms=[_ALGORITHM], options={"require": ["sub", "sec", "exp"]}
            )
        except jwt.InvalidSignatureError:
            continue
        except jwt.ExpiredSignatureError:
            raise ExpiredToken from None
        except jwt.InvalidTokenError:
            raise InvalidToken from None
        if isinstance(claims["sec"], str) and len(claims["sec"]) == 16:
            return claims
    raise InvalidToken


def _signing_keys() -> list[bytes]:
    """Of the secret key in force, and of those it replaced."""
    return [
        salted_hmac(_SALT, "token", secret=secret, algorithm="sha256").digest()
        for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    ]


def _remember(key_id: UUID) -> StoredKey | None:
    now = time.monotonic()
    known = _REMEMBERED.get(key_id)
    if known is not None and known[1] > now:
        return known[0]
    found = ApiKey.sql.find(key_id)
    if found is not None and found.is_stale:
        ApiKey.sql.note_use(key_id)
    with _LOCK:
        if len(_REMEMBERED) >= _MOST_REMEMBERED:
            _REMEMBERED.clear()
        _REMEMBERED[key_id] = (found, now + conf().KEY_CACHE_SECONDS)
    return found


def _forget(key_id: UUID) -> None:
    with _LOCK:
        _REMEMBERED.pop(key_id, None)


def may_work(patterns: tuple[str, ...], queue: str) -> bool:
    """Whether patterns cover a queue, by its whole name or by its task type without the domain."""
    return not patterns or any(
        fnmatchcase(name, pattern) for name in (queue, queue.rpartition(":")[2]) for pattern in patterns
    )


def _check(request: KeyRequest) -> None:
    problems = []
    if not request.name.strip() or len(request.name) > 200:
        problems.append(("name", "expected a name of 1 to 200 characters"))
    if not request.permissions or any(p not in PERMISSIONS for p in request.permissions):
        problems.append(
            ("permissions", f"expected some of {', '.join(PERMISSIONS)}, got {list(request.permissions)!r:.200}")
        )
    if any(not pattern for pattern in request.queues):
        problems.append(("queues", "expected patterns of task types, got an empty one"))
    seconds = request.expires_seconds
    if seconds is not None and not 0 < seconds <= MOST_SECONDS:
        problems.append(("expiresInSeconds", f"expected seconds from 1 to {MOST_SECONDS}, got {seconds}"))
    if problems:
        raise Invalid(problems=problems)


def _new_secret() -> str:
    return secrets.token_urlsafe(32)


def _digest(secret: str) -> str:
    """A plain hash is enough: secrets are random, and 256 bits long."""
    return sha256(secret.encode()).hexdigest()


def _unknown(key_id: UUID | None) -> NotFound:
    return NotFound(f"No such API key: {key_id}", what="The API key")


def _audit(namespace: str, actor: str, action: str, key_id: UUID, **detail: object) -> None:
    AuditEntry.sql.record(
        namespace=namespace, actor=actor, action=action, target=str(key_id), outcome="done", detail=detail
    )
