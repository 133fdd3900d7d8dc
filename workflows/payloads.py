"""How large payloads may be, and whether they can be stored at all: the one place that decides."""

from __future__ import annotations

from typing import Any

from orchestrator.conf import conf
from orchestrator.db import json
from orchestrator.errors import Invalid, TooLarge

_LIMITS = {
    "task input": "TASK_PAYLOAD_MAX_BYTES",
    "task output": "TASK_PAYLOAD_MAX_BYTES",
    "workflow input": "WORKFLOW_PAYLOAD_MAX_BYTES",
    "workflow output": "WORKFLOW_PAYLOAD_MAX_BYTES",
    "workflow variables": "VARIABLES_MAX_BYTES",
}


def excess(what: str, value: Any) -> str | None:
    """Why a value cannot be kept, with its size and the limit, or None. `what` is a key of the limits."""
    return weigh(what, value)[1]


def weigh(what: str, value: Any) -> tuple[int, str | None]:
    """A value's bytes, and why it cannot be kept, or None."""
    if value is None:
        return 0, None
    try:
        size = json.size(value)
    except Invalid as error:
        return 0, f"The {what} cannot be kept: {error.message}"
    most = limit(what)
    return size, f"The {what} of {size} bytes is over the limit of {most} bytes" if size > most else None


def limit(what: str) -> int:
    """The most bytes that a kind of value may take."""
    found: int = getattr(conf(), _LIMITS[what])
    return found


def require(what: str, value: Any, path: str) -> None:
    """Refuse what a caller wants stored; raises TooLarge with the place of it."""
    wrong = excess(what, value)
    if wrong:
        raise TooLarge(problems=[(path, wrong)])
