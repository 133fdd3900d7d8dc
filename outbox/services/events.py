"""Events: published through the outbox, and turned into the actions of their handlers, each acted on once. [INV-5, INV-6d]

A delivery is stored as one row for each action; only rows that are new are handed on, each as an outbox event of its own
that backs off, dies and is replayed by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any
from uuid import UUID

from orchestrator.db.hints import OUTBOX, hint
from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import Conflict, IllegalState, Invalid, NotFound
from orchestrator.models import AuditEntry
from orchestrator.scripts import ScriptError, evaluate_script
from outbox.managers import ClaimedEvent, NewOutboxEvent
from outbox.managers_events import NewEventExecution, StoredEventExecution, StoredHandler
from outbox.models import EventExecution, EventHandler, OutboxEvent
from outbox.services.event_definitions import expand, fill_in, validate
from workflows.engine.expressions import ExpressionError
from workflows.engine.masked_fields import FIELD, carried, carrying

PUBLISHED, ACTION = "event.published", "event.action"
"""Topics: an event for whom it may concern, and one action that a handler took from it."""
_UNREADABLE = (ScriptError, ExpressionError, ValueError, Invalid, RecursionError)
"""What a handler can make of a payload: its own failure, and no other handler's."""
_KEEP_SECONDS = 7 * 24 * 3600


def register(namespace: str, definition: Any, *, created_by: str | None = None) -> None:
    """Store a new handler; raises Invalid, or Conflict when its name is taken."""
    _check(definition)
    with transaction():
        if not EventHandler.sql.add(namespace, definition, created_by):
            raise Conflict(f"EventHandler with name {definition['name']} already exists!", name=definition["name"])


def replace(namespace: str, definition: Any) -> None:
    """Replace a handler; raises Invalid or NotFound."""
    _check(definition)
    with transaction():
        if not EventHandler.sql.replace(namespace, definition):
            raise _unknown(definition["name"])


def remove(namespace: str, name: str) -> None:
    """Forget a handler; raises NotFound. What it has begun goes on."""
    with transaction():
        if not EventHandler.sql.remove(namespace, name):
            raise _unknown(name)


def find(namespace: str, event: str | None = None, *, active_only: bool = False) -> list[StoredHandler]:
    """Handlers of an event, or all, by name."""
    return EventHandler.sql.find(namespace, event, active_only=active_only)


def find_executions(
    namespace: str, *, event: str | None = None, handler: str | None = None, batch: int = 100
) -> list[StoredEventExecution]:
    """What handlers did, newest first."""
    return EventExecution.sql.find(namespace, event=event, handler=handler, batch=batch)


def publish(namespace: str, event: str, payload: dict[str, Any], *, message_id: str | None = None) -> str:
    """Publish an event from outside; the same message id is acted on once. Returns the message's id."""
    message_id = message_id or str(new_id())
    with transaction():
        OutboxEvent.sql.publish([published(namespace, event, message_id, payload)])
        hint(OUTBOX)
    return message_id


def published(namespace: str, event: str, message_id: str, payload: dict[str, Any]) -> NewOutboxEvent:
    """An event for whom it may concern."""
    return NewOutboxEvent(namespace, PUBLISHED, {"event": event, "message_id": message_id, "payload": payload})


def dispatch(claimed: ClaimedEvent) -> None:
    """Turn a published event into the actions of its handlers; idempotent."""
    given = claimed.payload
    rows = [
        row
        for handler in find(claimed.namespace, given["event"], active_only=True)
        for row in _plan(claimed.namespace, handler, given["message_id"], given["payload"], carried(given))
    ]
    if not rows:
        return
    with transaction():
        _hand_on(rows, EventExecution.sql.record(rows))


def _hand_on(rows: Sequence[NewEventExecution], new: Collection[UUID]) -> None:
    actions = [_handed_on(row) for row in rows if row.id in new and row.status == "SCHEDULED"]
    if actions:
        OutboxEvent.sql.publish(actions)
        hint(OUTBOX)


def _handed_on(row: NewEventExecution) -> NewOutboxEvent:
    payload = {
        "execution_id": row.id, "handler": row.handler, "event": row.event, "message_id": row.message_id,
        "action": row.action, "detail": row.detail,
    }  # fmt: skip
    return NewOutboxEvent(row.namespace, ACTION, carrying(payload, carried(row.detail)))


def _plan(
    namespace: str, handler: StoredHandler, message_id: str, payload: dict[str, Any], masked: frozenset[str]
) -> Iterator[NewEventExecution]:
    """The rows of a delivery: its actions, or why there are none."""

    def row(position: int, action: str, status: str, detail: Any, reason: str | None = None) -> NewEventExecution:
        return NewEventExecution(
            new_id(), namespace, handler.name, handler.event, message_id, position, action, status,
            carrying(detail, masked), reason,
        )  # fmt: skip

    try:
        applies = _holds(handler.definition.get("condition"), payload)
    except _UNREADABLE as error:
        yield row(0, "condition", "FAILED", {"payload": payload}, f"The condition failed: {_said(error)}")
        return
    if not applies:
        yield row(0, "condition", "SKIPPED", {"payload": payload}, "The condition does not hold.")
        return
    for position, action in enumerate(handler.definition["actions"]):
        try:
            yield row(position, action["action"], "SCHEDULED", fill_in(action, payload))
        except _UNREADABLE as error:
            yield row(position, action["action"], "FAILED", {"payload": payload}, _said(error))


def _said(error: Exception) -> str:
    return "the payload is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _holds(condition: str | None, payload: dict[str, Any]) -> bool:
    """A condition in JavaScript, with the payload as `$`; none always holds."""
    if not condition or not condition.strip():
        return True
    return evaluate_script(condition, expand(payload)) not in (None, False, 0, "")


def finish(execution_id: UUID, status: str, output: dict[str, Any] | None = None, reason: str | None = None) -> bool:
    """Say what an action came to, in a transaction of its own; False when that was said before."""
    with transaction():
        return EventExecution.sql.finish(execution_id, status, output, reason)


def replay(namespace: str, execution_id: UUID | None, *, actor: str) -> StoredEventExecution:
    """Do again what failed, once, however many ask at once; what failed in planning is planned again, by its handler as it
    is now. Raises NotFound, or IllegalState. Audited."""
    found = EventExecution.sql.get(namespace, execution_id) if execution_id else None
    if found is None:
        raise NotFound("There is no such event execution.", id=execution_id)
    try:
        rows = _again(namespace, found)
        with transaction():
            if not EventExecution.sql.replay(rows[0], found.ended_at or found.created_at):
                raise IllegalState("It has been replayed meanwhile.", id=found.id)
            _hand_on(rows, {found.id} | EventExecution.sql.record(rows[1:]))
            _audit(namespace, actor, found, "done")
    except IllegalState as refusal:
        with transaction():
            _audit(namespace, actor, found, "refused", reason=refusal.message)
        raise
    return EventExecution.sql.get(namespace, found.id) or found


def _again(namespace: str, found: StoredEventExecution) -> list[NewEventExecution]:
    """What a failed execution becomes, and after it the actions that its failure has kept from being planned."""
    if found.status != "FAILED":
        raise IllegalState(f"It is {found.status}: only what has FAILED is replayed.", id=found.id)
    if set(found.detail) - {FIELD} != {"payload"}:  # no action has such a field: it was planned
        as_planned = NewEventExecution(
            found.id, namespace, found.handler, found.event, found.message_id, found.position, found.action, "SCHEDULED",
            found.detail,
        )  # fmt: skip
        return [as_planned]
    handler = next((one for one in find(namespace, found.event, active_only=True) if one.name == found.handler), None)
    if handler is None:
        raise IllegalState(f"The handler {found.handler} does not handle {found.event} now.", id=found.id)
    planned = list(_plan(namespace, handler, found.message_id, found.detail["payload"], carried(found.detail)))
    if found.action == "condition":
        return [dataclasses.replace(planned[0], id=found.id), *planned[1:]]
    if planned[0].action == "condition":
        return [dataclasses.replace(planned[0], id=found.id, position=found.position, action=found.action)]
    if found.position >= len(planned):
        raise IllegalState(f"The handler {found.handler} has no action {found.position} now.", id=found.id)
    return [dataclasses.replace(planned[found.position], id=found.id)]


def _audit(namespace: str, actor: str, found: StoredEventExecution, outcome: str, **more: str) -> None:
    detail = {"handler": found.handler, "event": found.event, **more}
    AuditEntry.sql.record(
        namespace=namespace, actor=actor, action="event.replay", target=str(found.id), outcome=outcome, detail=detail
    )


def prune() -> int:
    """Delete what handlers did longer than a week ago."""
    with transaction():
        EventExecution.sql.prune(seconds=_KEEP_SECONDS)
    return 0


def _check(definition: Any) -> None:
    problems = validate(definition)
    if problems:
        raise Invalid(problems=[(problem.path, problem.message) for problem in problems])


def _unknown(name: str) -> NotFound:
    return NotFound(f"EventHandler with name {name} not found!", name=name)
