"""Where an EVENT task may publish to, and where the changes of a run's status go."""

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


def status_event(definition: dict[str, Any]) -> str | None:
    """The event that tells of the changes of a run's status, if any does; without a sink it has a name of ours."""
    if not definition.get("workflowStatusListenerEnabled"):
        return None
    sink = definition.get("workflowStatusListenerSink") or "conductor"
    return event_name(sink, str(definition.get("name", "")), "workflow_status")


def sink_problem(sink: Any) -> str | None:
    """Why a run's changes cannot be told there."""
    if not isinstance(sink, str):
        return f"expected a text, got {type(sink).__name__} {sink!r:.40}"
    if "${" in sink:
        return f"expected a sink without expressions, got {sink!r:.60}"
    try:
        event_name(sink, "workflow", "task")
    except ValueError as error:
        return str(error)
    return None
