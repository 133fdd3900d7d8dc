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
from orchestrator.errors import ExpiredToken, Forbidden, Invalid, InvalidToken, LockedOut, NotFound, Unauthenticated
from orchestrator.managers import StoredKey
from orchestrator.models import ApiKey, AuditEntry
from orchestrator.services import lockouts
from orchestrator.services.lockouts import Subject

PERMISSIONS = ("view", "start", "operate", "define", "work", "admin")
MOST_SECONDS = 10 * 365 * 24 * 3600
"""A key's life and an old secret's grace, at most."""
_ALGORITHM = "HS256"
_SALT = "orchestrator.services.keys"
_REMEMBERED: dict[UUID, tuple[StoredKey, float]] = {}
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


def exchange(key_id: str, secret: str, tried_from: str | None = None) -> str:
    """A token for a key, valid for `TOKEN_SECONDS`; raises what `authenticate` does."""
    known = parse_id(key_id)
    key = _admit(None if known is None else _Proof(known, _digest(secret), is_secret=True), tried_from)
    now = int(time.time())
    claims = {"sub": str(key.id), "sec": _digest(secret)[:16], "iat": now, "exp": now + conf().TOKEN_SECONDS}
    return jwt.encode(claims, _signing_keys()[0], algorithm=_ALGORITHM)


def authenticate(credentials: str, tried_from: str | None = None) -> StoredKey:
    """The key behind `<id>.<secret>` or behind a token; raises InvalidToken, ExpiredToken or LockedOut.

    A guess counts against its key and the address `tried_from`; None counts nothing. A token is no guess: who holds
    one works on while its key is locked out.
    """
    return _admit(_read(credentials), tried_from)


def is_remembered(credentials: str) -> bool:
    """Whether `authenticate` would answer without the database."""
    try:
        shown = _read(credentials)
    except Unauthenticated:
        return True
    return shown is not None and _remembered(shown) is not None


@dataclass(frozen=True, slots=True)
class _Proof:
    """The id of a key, and a digest of its secret or, of a token that we signed, the beginning of one."""

    key_id: UUID
    digest: str
    is_secret: bool

    def fits(self, key: StoredKey) -> bool:
        return any(hmac.compare_digest(digest[: len(self.digest)], self.digest) for digest in key.digests)

    def is_locked(self, key: StoredKey) -> bool:
        return self.is_secret and key.locked_seconds is not None

    def is_guess(self, key: StoredKey | None) -> bool:
        """Whether it can be one: tokens are signed, and a fleet may still have the secret from before a rotation."""
        return self.is_secret and (key is None or not hmac.compare_digest(key.retired or "", self.digest))


def _admit(shown: _Proof | None, tried_from: str | None) -> StoredKey:
    if shown is None:
        _count_guess(tried_from, None, conf().DEFAULT_NAMESPACE)
        raise InvalidToken
    key = _remembered(shown) or _look_up(shown.key_id)
    if key is None or not shown.fits(key):
        if shown.is_guess(key):
            _count_guess(tried_from, shown.key_id, key.namespace if key else conf().DEFAULT_NAMESPACE)
        raise InvalidToken
    if tried_from is not None and shown.is_locked(key):
        raise LockedOut(retry_after=key.locked_seconds or 1)
    if key.state != "active":
        raise InvalidToken(f"The API key {key.name!r} is {key.state}.")
    return key


def _count_guess(tried_from: str | None, key_id: UUID | None, namespace: str) -> None:
    """Audit and count a wrong credential; raises LockedOut instead when its key or address is locked out."""
    if tried_from is None:
        return
    subjects = [Subject("address", tried_from), *([Subject("key", str(key_id))] if key_id else [])]
    attempt = lockouts.begin(*subjects)
    lockouts.refuse(attempt, namespace)
    if attempt.locked and key_id is not None:
        _forget(key_id)


def _read(credentials: str) -> _Proof | None:
    """What credentials prove, None when they are none of ours; raises ExpiredToken."""
    if credentials.count(".") == 1:
        shown, _, secret = credentials.partition(".")
        key_id = parse_id(shown)
        return _Proof(key_id, _digest(secret), is_secret=True) if key_id and secret else None
    claims = _claims(credentials)
    key_id = parse_id(str(claims["sub"])) if claims else None
    return _Proof(key_id, str(claims["sec"]), is_secret=False) if claims and key_id else None


def _claims(token: str) -> dict[str, object] | None:
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
            return None
        return claims if isinstance(claims["sec"], str) and len(claims["sec"]) == 16 else None
    return None


def _signing_keys() -> list[bytes]:
    """Of the secret key in force, and of those it replaced."""
    return [
        salted_hmac(_SALT, "token", secret=secret, algorithm="sha256").digest()
        for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    ]


def _remembered(shown: _Proof) -> StoredKey | None:
    """The key, if it is remembered and lets in: what is refused may be true by now, and is looked up."""
    key, until = _REMEMBERED.get(shown.key_id, (None, 0.0))
    return key if key and until > time.monotonic() and shown.fits(key) and not shown.is_locked(key) else None


def _look_up(key_id: UUID) -> StoredKey | None:
    found = ApiKey.sql.find(key_id)
    if found is not None and found.is_stale:
        ApiKey.sql.note_use(key_id)
    with _LOCK:
        if len(_REMEMBERED) >= _MOST_REMEMBERED:
            _REMEMBERED.clear()
        if found is not None:
            _REMEMBERED[key_id] = (found, time.monotonic() + conf().KEY_CACHE_SECONDS)
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
