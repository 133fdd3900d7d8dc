"""Operators that are done when they are reached: NOOP, SET_VARIABLE, TERMINATE."""

from __future__ import annotations

from workflows.engine.operators.start import Start
from workflows.engine.rows import TaskError
from workflows.engine.state import TaskStatus, WorkflowStatus


def noop(start: Start) -> None:
    start.settle(input=start.inputs(), output={})


def set_variable(start: Start) -> None:
    """Merge the inputs into the run's variables, visible to whatever comes next, in this pass too."""
    given = start.inputs()
    start.pass_.require("workflow variables", {**start.pass_.variables, **given})
    start.settle(input=given, output={})  # first: an input over the limit changes no variable
    start.pass_.set_variables(given)


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
