"""How a system task ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """A task status, the output, the reason of a failure, and the seconds until a task that goes on is due again; or it
    `awaits` its end from outside.
    """

    status: str
    output: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    seconds: int = 0
    awaits: bool = False


def completed(output: dict[str, Any]) -> Outcome:
    """A good end."""
    return Outcome("COMPLETED", output)


def awaiting(output: dict[str, Any]) -> Outcome:
    """Done here, and not ended: others complete it."""
    return Outcome("IN_PROGRESS", output, awaits=True)


def failed(reason: str, output: dict[str, Any] | None = None, *, terminal: bool) -> Outcome:
    """A bad end; a terminal one is not tried again."""
    return Outcome("FAILED_WITH_TERMINAL_ERROR" if terminal else "FAILED", output or {}, reason[:500])


def later(seconds: int, output: dict[str, Any]) -> Outcome:
    """Not the end yet: to be handed out again after this time."""
    return Outcome("IN_PROGRESS", output, seconds=seconds)
