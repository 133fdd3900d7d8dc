"""What a WAIT_FOR_WEBHOOK task waits for, and whether a delivery is that."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from workflows.engine.filters import same
from workflows.engine.paths import Path, PathError, parse_path, walk

TYPE = "WAIT_FOR_WEBHOOK"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A webhook by its name, or any; and what stands in a delivery at each path."""

    webhook: str | None
    matches: dict[str, Any]
    paths: dict[str, Path]

    def fits(self, webhook: str, payload: Any) -> bool:
        """Whether a delivery to a webhook is what is waited for."""
        if self.webhook not in (None, webhook):
            return False
        try:
            return all(same(walk(payload, self.paths[text], _plain), value) for text, value in self.matches.items())
        except RecursionError:  # nested too deeply to look into; other tasks may still fit
            return False

    def __str__(self) -> str:
        parts = [f"{text} = {json.dumps(value):.40}" for text, value in list(self.matches.items())[:5]]
        return (self.webhook or "any webhook") + (f" with {' and '.join(parts)}" if parts else "")


def wanted(given: dict[str, Any]) -> Wanted:
    """What a task's input asks for; raises ValueError, which begins with the field and a colon.

    Nothing matches null: an expression that found nothing would fit every delivery that lacks the path.
    """
    webhook, matches = given.get("webhook"), given.get("matches")
    if webhook is not None and (not isinstance(webhook, str) or not webhook):
        raise ValueError(f"webhook: expected the name of a webhook, got {webhook!r:.40}")
    if matches is not None and not isinstance(matches, dict):
        raise ValueError(f"matches: expected an object of paths and values, got {type(matches).__name__}")
    if not matches and webhook is None:
        raise ValueError("matches: expected a path and its value, such as {'$.order': 7}; or name a webhook")
    for text, value in (matches or {}).items():
        if value is None:
            raise ValueError(f"matches: {text} is to be null, which also fits a delivery that does not have it")
    return Wanted(webhook, matches or {}, {text: _parsed(text) for text in matches or {}})


def _parsed(text: str) -> Path:
    try:
        root, path = parse_path(text, _plain)
    except PathError as error:
        raise ValueError(f"matches: {text}: {error}") from None
    if root != "$":
        raise ValueError(f"matches: expected a path from $, such as $.order, got {text!r:.40}")
    return path


def _plain(key: Any) -> Any:
    return key
