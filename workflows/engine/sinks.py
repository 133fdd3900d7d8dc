"""Where an EVENT task may publish to."""

from __future__ import annotations

from typing import Any


def event_name(sink: Any, workflow: str, ref: str) -> str:
    """The event that a sink stands for: `conductor` is named after the task, `conductor:name` as it says.

    Raises ValueError for a sink that nobody delivers to.
    """
    provider, _, name = str(sink).partition(":")
    if provider != "conductor":
        raise ValueError(f"the sink {sink!r} is not available: expected conductor or conductor:<name>")
    return f"conductor:{workflow}:{name or ref}"
