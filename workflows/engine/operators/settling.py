"""Operators that are done when they are reached: NOOP, SET_VARIABLE, TERMINATE, START_WORKFLOW."""

from __future__ import annotations

import json

from workflows.engine.commands import Effect
from workflows.engine.operators.start import Start
from workflows.engine.rows import TaskError
from workflows.engine.state import TaskStatus, WorkflowStatus

MAX_VARIABLES = 256 * 1024
"""Characters of JSON that a run's variables may take: every pass reads them."""


def noop(start: Start) -> None:
    start.settle(input=start.inputs(), output={})


def set_variable(start: Start) -> None:
    """Merge the inputs into the run's variables, visible to whatever comes next, in this pass too."""
    given = start.inputs()
    size = len(json.dumps({**start.pass_.variables, **given}, default=str))
    if size > MAX_VARIABLES:
        raise TaskError(f"the workflow's variables would take {size} characters; at most {MAX_VARIABLES} are allowed")
    start.pass_.set_variables(given)
    start.settle(input=given, output={})


def terminate(start: Start) -> None:
    """End the run from wherever it stands."""
    given = start.inputs()
    wanted = given.get("terminationStatus")
    if wanted not in ("COMPLETED", "FAILED", "TERMINATED"):
        raise TaskError(f"terminationStatus: expected COMPLETED, FAILED or TERMINATED, got {wanted!r}")
    status = WorkflowStatus(wanted)
    output = given.get("workflowOutput")
    if not isinstance(output, dict):
        output = {} if output is None else {"output": output}
    start.row(TaskStatus.COMPLETED, input=given, output=output)
    reason = None
    if status != WorkflowStatus.COMPLETED or given.get("terminationReason"):
        reason = str(given.get("terminationReason") or f"Workflow is {status} by TERMINATE task {start.node.ref}")
    failed = () if status == WorkflowStatus.COMPLETED else (start.node.ref,)
    start.pass_.end_run(status, output, reason, failed)


def start_workflow(start: Start) -> None:
    """Start another run and forget it; its id is known at once."""
    given = start.inputs()
    request = given.get("startWorkflow")
    if not isinstance(request, dict) or not isinstance(request.get("name"), str):
        raise TaskError("inputParameters.startWorkflow: expected an object with a name")
    run, child = start.pass_.state.workflow, start.pass_.state.new_id()
    payload = {
        "workflow_id": child,
        "starter_workflow_id": run.id,
        "ref": start.node.ref,
        "iteration": start.iteration,
        "attempt": start.attempt,
        "name": request["name"],
        "version": request.get("version"),
        "definition": request.get("workflowDef"),
        "input": request.get("input") or {},
        "correlation_id": request.get("correlationId") or run.correlation_id,
        "task_to_domain": request.get("taskToDomain") or run.task_to_domain,
        "priority": request.get("priority") or run.priority,
        "delay_seconds": start.initial_delay(),
    }
    effect = Effect("workflow.start", payload)
    start.settle(input=given, output={"workflowId": str(child)}, effects=(effect,))
