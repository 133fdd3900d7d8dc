"""Handlers of the outbox topics that concern runs. Each is idempotent: it may be called again after it succeeded."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from orchestrator.errors import Invalid, LimitExceeded, NotFound
from outbox.managers import ClaimedEvent
from outbox.services import relay
from workflows.engine.masked_fields import carried
from workflows.services import children, events, webhooks
from workflows.services.starting import FAILURE, StartRequest, start


def start_child(event: ClaimedEvent) -> None:
    """Start the child of a SUB_WORKFLOW task; a definition that cannot run fails the task, not the event. [INV-6c]"""
    payload = event.payload
    try:
        start(_request(event, payload["child_id"], "child", children.key(payload), parent=True))
    except (NotFound, Invalid, LimitExceeded) as error:
        children.refuse(event.namespace, payload, _explain(error))


def start_workflow(event: ClaimedEvent) -> None:
    """Start the run of a START_WORKFLOW task, and end that task: well, or with the reason why it cannot start."""
    payload = event.payload
    key = f"{payload['starter_workflow_id']}:{payload['ref']}:{payload['iteration']}:{payload['attempt']}"
    key += f":{payload['workflow_id']}"  # a rerun of the starter makes the same attempt anew
    try:
        start(_request(event, payload["workflow_id"], "start", key))
    except (NotFound, Invalid, LimitExceeded) as error:
        children.end_starter(payload, _explain(error))
    else:
        children.end_starter(payload)


def start_failure_workflow(event: ClaimedEvent) -> None:
    """Start the failure workflow of a run, with what it needs to clean up."""
    payload = event.payload
    extra = {
        "workflowId": payload["failed_workflow_id"],
        "reason": payload["reason"],
        "failureStatus": payload["status"],
        "failureTaskId": (payload["failed_refs"] or [None])[0],
    }
    payload = {**payload, "input": {**(payload["input"] or {}), **extra}}
    key = f"{payload['failed_workflow_id']}:{payload['workflow_id']}"
    start(_request(event, payload["workflow_id"], FAILURE, key, payload))


def terminate(event: ClaimedEvent) -> None:
    """Cascade: terminate a child, or see to it that it never starts."""
    children.terminate(event.namespace, event.payload)


def act_on_event(event: ClaimedEvent) -> None:
    """Do what a handler wants done about an event."""
    events.act(event.namespace, event.payload)


def match_delivery(event: ClaimedEvent) -> None:
    """Find the tasks that wait for a delivery to a webhook."""
    webhooks.match(event.namespace, event.payload)


def end_matched(event: ClaimedEvent) -> None:
    """End a task with the delivery that it waited for."""
    webhooks.end(event.namespace, event.payload)


def _request(
    event: ClaimedEvent,
    workflow_id: str,
    scope: str,
    key: str,
    payload: dict[str, Any] | None = None,
    parent: bool = False,
) -> StartRequest:
    p = payload or event.payload
    return StartRequest(
        name=p["name"],
        version=p.get("version"),
        input=p.get("input") or {},
        namespace=event.namespace,
        correlation_id=p.get("correlation_id"),
        priority=p.get("priority") or 0,
        idempotency_key=key,
        idempotency_strategy="RETURN_EXISTING",
        task_to_domain=p.get("task_to_domain") or {},
        definition=p.get("definition"),
        workflow_id=UUID(workflow_id),
        parent_workflow_id=UUID(p["parent_workflow_id"]) if parent else None,
        parent_task_id=UUID(p["parent_task_id"]) if parent else None,
        depth=p.get("depth") or 0,
        scope=scope,
        masked=carried(p),
    )


def _explain(error: NotFound | Invalid | LimitExceeded) -> str:
    problems = "; ".join(f"{path}: {message}" for path, message in getattr(error, "problems", []))
    return f"{error.message} {problems}".strip()


def register() -> None:
    """Make these topics deliverable."""
    relay.register("workflow.start_child", start_child)
    relay.register("workflow.start", start_workflow)
    relay.register("workflow.start_failure", start_failure_workflow)
    relay.register("workflow.terminate", terminate)
    relay.register("event.action", act_on_event)
    relay.register("webhook.received", match_delivery)
    relay.register(webhooks.MATCHED, end_matched)
