"""Tags: a key and a value on a definition, a schedule or a secret. They belong to the name, not to one of its versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.db.transactions import transaction
from orchestrator.errors import Invalid
from orchestrator.managers import StoredTag
from orchestrator.models import AuditEntry, Tag

KINDS = ("workflow", "task", "schedule", "secret")
MOST = 100
"""Tags in one request."""
_LONGEST = 500


def read(given: Any) -> list[tuple[str, str]]:
    """One tag, or a list of them, as (key, value); raises Invalid."""
    listed = given if isinstance(given, list) else [given]
    if len(listed) > MOST:
        raise Invalid(problems=[("body", f"expected at most {MOST} tags, got {len(listed)}")])
    problems = [
        (f"[{position}].{name}", f"expected a text of 1 to {_LONGEST} characters")
        for position, tag in enumerate(listed)
        for name in ("key", "value")
        if not isinstance(tag, dict) or not isinstance(tag.get(name), str) or not 0 < len(tag[name]) <= _LONGEST
    ]
    if problems:
        raise Invalid(problems=problems)
    return list(dict.fromkeys((tag["key"], tag["value"]) for tag in listed))


def find(namespace: str, kind: str | None = None, name: str | None = None) -> list[StoredTag]:
    """Tags of an object, or of all objects of a kind, or of everything."""
    return Tag.sql.find(namespace, kind, name)


def add(namespace: str, kind: str, name: str, tags: Sequence[tuple[str, str]], *, actor: str) -> None:
    """Put tags on an object; those it has stay."""
    with transaction():
        Tag.sql.add(namespace, kind, name, tags)
        _audit(namespace, actor, "add_tags", kind, name, tags)


def replace(namespace: str, kind: str, name: str, tags: Sequence[tuple[str, str]], *, actor: str) -> None:
    """Let an object have these tags and no others."""
    with transaction():
        Tag.sql.clear(namespace, kind, name)
        Tag.sql.add(namespace, kind, name, tags)
        _audit(namespace, actor, "set_tags", kind, name, tags)


def remove(namespace: str, kind: str, name: str, tags: Sequence[tuple[str, str]], *, actor: str) -> None:
    """Take tags off an object; those it does not have are no error."""
    with transaction():
        Tag.sql.remove(namespace, kind, name, tags)
        _audit(namespace, actor, "remove_tags", kind, name, tags)


def _audit(namespace: str, actor: str, action: str, kind: str, name: str, tags: Sequence[tuple[str, str]]) -> None:
    detail = {"kind": kind, "tags": [f"{key}={value}" for key, value in tags]}
    AuditEntry.sql.record(
        namespace=namespace, actor=actor, action=f"tag.{action}", target=name, outcome="done", detail=detail
    )
