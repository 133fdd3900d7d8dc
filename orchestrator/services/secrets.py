"""Secrets of a namespace: written, named, used and forgotten, never read back.

Their values leave the database only in the copy of a task's input that is handed out, and are taken out of what workers
send back: `mask` knows the present value of every secret and the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from orchestrator.db import json
from orchestrator.db.transactions import transaction
from orchestrator.errors import Invalid, NotFound
from orchestrator.managers import StoredSecret
from orchestrator.masking import MASK as MASK
from orchestrator.models import AuditEntry, Secret, Tag
from orchestrator.services.keyring import Sealed, newest_key, seal, unseal

SHORTEST_MASKED = 6
"""Shorter values are not looked for: taking `1` out of every output would spoil them all."""
MOST_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,199}")
_BATCH = 100


def put(namespace: str, name: str, value: str, *, actor: str) -> None:
    """Create or replace a secret; raises Invalid."""
    check_name(name)
    if not value or "\x00" in value or len(value.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise Invalid(problems=[("value", f"expected a text of 1 to {MOST_BYTES} bytes without NUL")])
    sealed = seal(value, _place(namespace, name))
    with transaction():
        Secret.sql.put(namespace, name, sealed.key_name, sealed.data, actor)
        _audit(namespace, actor, "put", name)


def delete(namespace: str, name: str, *, actor: str) -> None:
    """Forget a secret and its tags; tasks that refer to it fail from now on. Raises NotFound."""
    with transaction():
        if not Secret.sql.delete(namespace, name):
            raise _unknown(name)
        Tag.sql.clear(namespace, "secret", name)
        _audit(namespace, actor, "delete", name)


def get(namespace: str, name: str) -> StoredSecret:
    """A secret as it is sealed; raises NotFound."""
    found = Secret.sql.find(namespace, [name])
    if not found:
        raise _unknown(name)
    return found[0]


def names(namespace: str) -> list[str]:
    """The names there are."""
    return [found.name for found in Secret.sql.find(namespace, None)]


def exists(namespace: str, name: str) -> bool:
    """Whether there is such a secret."""
    return bool(Secret.sql.find(namespace, [name]))


def values(namespace: str, wanted: Iterable[str]) -> dict[str, str]:
    """Name -> value of those that exist: for hand-out alone, never to be stored, logged or shown."""
    return {found.name: _opened(found) for found in Secret.sql.find(namespace, sorted(wanted))}


class Masker:
    """Takes the values of a namespace's secrets out of what is about to be stored."""

    def __init__(self, namespace: str) -> None:
        stored = Secret.sql.find(namespace, None)
        texts = {_opened(found) for found in stored} | {old for found in stored if (old := _opened_before(found))}
        # The longest first: one value may contain another.
        ordered = sorted((text for text in texts if len(text) >= SHORTEST_MASKED), key=len, reverse=True)
        escaped = [form for text in ordered for form in dict.fromkeys((json.dumps(text)[1:-1], text))]
        self._pattern = re.compile("|".join(map(re.escape, escaped))) if escaped else None

    def text(self, given: str) -> str:
        """A text without them."""
        return self._pattern.sub(MASK, given) if self._pattern else given

    def value(self, given: Any) -> Any:
        """A JSON value without them, in its texts and in its keys; raises Invalid for one that is nested too deeply."""
        if self._pattern is None or given is None:
            return given
        dumped = json.dumps(given)
        if self._pattern.search(dumped) is None:
            return given
        try:
            return self._masked(given)
        except RecursionError:
            raise Invalid("The value is nested too deeply to take secrets out of it.") from None

    def _masked(self, given: Any) -> Any:
        if isinstance(given, str):
            return self.text(given)
        if isinstance(given, list):
            return [self._masked(item) for item in given]
        if isinstance(given, dict):
            return {self.text(str(key)): self._masked(item) for key, item in given.items()}
        return given


def rotate() -> int:
    """Seal again, with the newest key, whatever another key sealed; returns how many secrets that were.

    Safe to interrupt and to run beside writers: a row that changed meanwhile is left as it is, and looked at again.
    """
    done = 0
    while stale := Secret.sql.find_stale(newest_key(), batch=_BATCH):
        for found in stale:
            sealed = seal(_opened(found), _place(found.namespace, found.name))
            old = _opened_before(found)
            before = seal(old, _place(found.namespace, found.name)) if old is not None else None
            with transaction():
                done += Secret.sql.reseal(found, sealed.key_name, sealed.data, before.data if before else None)
    return done


def check_name(name: str) -> None:
    """Raise Invalid unless a reference can spell the name."""
    if not _NAME.fullmatch(name):
        raise Invalid(problems=[("name", f"expected letters, digits, _ and - up to 200, a letter first, got {name!r:.60}")])


def _opened(found: StoredSecret) -> str:
    return unseal(Sealed(found.key_name, found.sealed), _place(found.namespace, found.name))


def _opened_before(found: StoredSecret) -> str | None:
    if found.previous is None or found.previous_key_name is None:
        return None
    return unseal(Sealed(found.previous_key_name, found.previous), _place(found.namespace, found.name))


def _place(namespace: str, name: str) -> str:
    return f"secret\x00{namespace}\x00{name}"


def _unknown(name: str) -> NotFound:
    return NotFound(f"There is no secret {name!r} in this namespace.", name=name)


def _audit(namespace: str, actor: str, action: str, name: str) -> None:
    AuditEntry.sql.record(
        namespace=namespace, actor=actor, action=f"secret.{action}", target=name, outcome="done", detail={}
    )
