"""EVENT: tell whom it may concern, through the outbox."""

from __future__ import annotations

from workflows.engine.operators.start import Start
from workflows.engine.rows import TaskError
from workflows.engine.sinks import event_name
from workflows.engine.state import TaskStatus


def event(start: Start) -> None:
    """Publish the input as an event, with where it comes from; the message's id is the task's. [INV-6d]"""
    run, node = start.pass_.state.workflow, start.node
    given = start.inputs()
    try:
        name = event_name(start.pass_.resolve(node.extras["sink"], start), run.name, node.ref)
    except (KeyError, ValueError) as error:
        raise TaskError(str(error) if isinstance(error, ValueError) else "an EVENT needs a sink") from None
    payload = {
        **given,
        "workflowInstanceId": str(run.id),
        "workflowType": run.name,
        "workflowVersion": run.version,
        "correlationId": run.correlation_id,
        "taskToDomain": run.task_to_domain,
    }
    effect = start.effect("event.published", {"event": name, "message_id": str(start.id), "payload": payload})
    output = {**payload, "event_produced": name, "sink": name}
    if node.spec.get("asyncComplete"):
        start.row(TaskStatus.IN_PROGRESS, input=given, output=output, effects=(effect,))
    else:
        start.settle(input=given, output=output, effects=(effect,))
