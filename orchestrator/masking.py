"""What stands in the place of a value that nobody is shown, and how values are found by the names of their fields."""

from __future__ import annotations

import json as text_of
from typing import Any

from orchestrator.db import json

MASK = "***"
Names = frozenset[str]
"""Names of fields whose values are not shown; none for nearly all definitions."""
NOTHING: Names = frozenset()
_DEEPEST = 100
"""Levels that are looked through; what stands deeper is not shown at all."""


def mask(value: Any, names: Names, *, depth: int = 0) -> Any:
    """A JSON value with MASK for the value of every field of these names, at any depth."""
    if not names:
        return value
    if isinstance(value, dict):
        if depth > _DEEPEST:
            return MASK
        return {key: MASK if key in names else mask(item, names, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return MASK if depth > _DEEPEST else [mask(item, names, depth=depth + 1) for item in value]
    return value


def mask_inside(record: Any, names: Names) -> Any:
    """A record whose outermost fields are our own, with what its values hold masked."""
    if not names or not isinstance(record, dict):
        return record
    return {key: mask(item, names) for key, item in record.items()}


def mask_text(text: str | None, names: Names, *, inside: bool = False) -> str | None:
    """A JSON text masked, and indented as PostgreSQL does it; without names it is left as it is, to the last digit."""
    if not names or text is None:
        return text
    hide = mask_inside if inside else mask
    return text_of.dumps(hide(json.loads(text), names), indent=4, ensure_ascii=False)
