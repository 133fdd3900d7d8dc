"""`onStateChange`: the events that a task tells of its changes of state.

Their payloads are resolved when the task is made, as its input is. The changes that a new task has been through already
are effects of its command; the others are kept with the task, for whoever makes them. [INV-6d]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Any
from uuid import UUID

from workflows.engine.commands import Effect, ScheduleTask
from workflows.engine.expressions import ExpressionError, compile_template, expressions
from workflows.engine.masked_fields import carried, carrying
from workflows.engine.problems import Problem
from workflows.engine.secrets import is_secret
from workflows.engine.sinks import event_name
from workflows.engine.state import TaskStatus, WorkflowView

FIELD = "onStateChange"
NAMES = ("onScheduled", "onStart", "onSuccess", "onFailed", "onCancelled")
Listeners = dict[str, list[dict[str, Any]]]
"""Name of a change -> its events, each with its name, its payload and the names that the run masks."""
_ENDS = {
    TaskStatus.COMPLETED: "onSuccess",
    TaskStatus.COMPLETED_WITH_ERRORS: "onFailed",
    TaskStatus.FAILED: "onFailed",
    TaskStatus.FAILED_WITH_TERMINAL_ERROR: "onFailed",
    TaskStatus.TIMED_OUT: "onFailed",
    TaskStatus.CANCELED: "onCancelled",
}


def problems(value: Any, path: str, ref: Any) -> Iterator[Problem]:
    """What is wrong with the `onStateChange` of the task `ref`, apart from what its expressions name."""
    if not value:
        return
    if not isinstance(value, dict):
        yield Problem(path, f"expected an object, got {type(value).__name__}")
        return
    for key, events in value.items():
        at = f"{path}.{key}"
        wrong = next((name for name in _names(key) if name not in NAMES), None)
        if wrong is not None:
            near = get_close_matches(wrong, NAMES, 1)
            meant = f"; is {near[0]!r} meant?" if near else ""
            yield Problem(at, f"expected {', '.join(NAMES)}, or several of them; got {wrong!r}{meant}")
        elif not isinstance(events, list):
            yield Problem(at, f"expected a list of events, got {type(events).__name__}")
        else:
            for index, event in enumerate(events):
                yield from _event(event, f"{at}[{index}]", ref)


def _event(event: Any, path: str, ref: Any) -> Iterator[Problem]:
    if not isinstance(event, dict):
        yield Problem(path, f"expected an event with a type, got {event!r:.40}")
        return
    for name in sorted(event.keys() - {"type", "payload"}):
        yield Problem(f"{path}.{name}", f"an event has no field {name!r}: expected type and payload")
    name, payload = event.get("type"), event.get("payload")
    if not isinstance(name, str) or not name.strip():
        yield Problem(f"{path}.type", f"expected a name, got {name!r:.40}")
    elif "${" in name:
        yield Problem(f"{path}.type", f"expected a name without expressions, got {name!r:.60}")
    if payload is not None and not isinstance(payload, dict):
        yield Problem(f"{path}.payload", f"expected an object, got {payload!r:.40}")
        return
    try:
        found = list(expressions(compile_template(payload)))
    except ExpressionError:
        return  # told with its position where all expressions are checked
    for expression in found:
        if is_secret(expression):
            yield Problem(f"{path}.payload", f"{expression.text}: a secret does not leave by an event")
        elif expression.root == ref:
            yield Problem(f"{path}.payload", f"{expression.text} is null: a payload is resolved when the task is made")


def payloads(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    """The payloads in `onStateChange`, with their paths."""
    for key, events in value.items() if isinstance(value, dict) else ():
        for index, event in enumerate(events if isinstance(events, list) else ()):
            if isinstance(event, dict):
                yield event.get("payload"), f"{path}.{key}[{index}].payload"


def with_events(command: ScheduleTask, resolved: Any, run: WorkflowView, masked: frozenset[str]) -> ScheduleTask:
    """The command of a new task, telling of the states that it has been through and keeping what to tell of the others."""
    listeners = _bound(command, resolved, run, masked)
    passed = _passed(TaskStatus(command.status))
    told = [
        effect
        for name, status in passed
        for effect in effects(command.id, name, listeners, status, command.reason if status.terminal else None)
    ]
    left = {name: events for name, events in listeners.items() if name not in dict(passed)}
    kept = None if command.status.terminal else left or None
    return replace(command, effects=(*command.effects, *told), listeners=kept)


def effects(
    task_id: UUID, name: str | None, listeners: Listeners, status: str, reason: str | None = None
) -> Iterator[Effect]:
    """The events of one change of a task; their ids follow from the task's."""
    for index, event in enumerate(listeners.get(name, ()) if name else ()):
        payload = {**event["payload"], "stateChange": name, "status": str(status)}
        if reason:
            payload["reasonForIncompletion"] = reason
        message = {"event": event["event"], "message_id": f"{task_id}:{name}:{index}", "payload": payload}
        yield Effect("event.published", carrying(message, carried(event)))


def end_of(status: str) -> str | None:
    """The change that is the end of a task in this status; skipping tells nothing."""
    return _ENDS.get(TaskStatus(status))


def _names(key: str) -> list[str]:
    return [name.strip() for name in key.split(",")]


def _passed(status: TaskStatus) -> list[tuple[str, TaskStatus]]:
    """The changes that a task made in this status has been through."""
    if status == TaskStatus.SKIPPED:
        return []
    found = [("onScheduled", TaskStatus.SCHEDULED)]
    if status in (TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED):
        found.append(("onStart", TaskStatus.IN_PROGRESS))
    end = end_of(status)
    return [*found, (end, status)] if end else found


def _bound(command: ScheduleTask, resolved: Any, run: WorkflowView, masked: frozenset[str]) -> Listeners:
    about = {
        "workflowInstanceId": str(run.id),
        "workflowType": run.name,
        "workflowVersion": run.version,
        "correlationId": run.correlation_id,
        "taskId": str(command.id),
        "referenceTaskName": command.ref,
        "taskDefName": command.name,
        "taskType": command.type,
        "retryCount": command.attempt,
        "iteration": int(command.iteration.rpartition(".")[2] or 0),
    }
    found: Listeners = {}
    for key, events in resolved.items():
        for name in _names(key):
            found.setdefault(name, []).extend(
                carrying(
                    {
                        "event": event_name(f"conductor:{event['type']}", run.name, command.ref),
                        "payload": {**(event.get("payload") or {}), **about},
                    },
                    masked,
                )
                for event in events
            )
    return found
