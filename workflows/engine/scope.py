"""What the expressions of a node see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from workflows.engine.blueprint import Blueprint, Node
from workflows.engine.state import WorkflowView

if TYPE_CHECKING:
    from workflows.engine.decider import Pass


class NodeScope:
    """The roots of a node's expressions at an iteration; `task_id` is the task being made."""

    __slots__ = ("iteration", "node", "null_text", "pass_", "task_id")

    def __init__(self, pass_: Pass, node: Node | None, iteration: str, task_id: UUID | None = None) -> None:
        self.pass_ = pass_
        self.node = node
        self.iteration = iteration
        self.task_id = task_id
        self.null_text = pass_.blueprint.null_text

    def root(self, name: str) -> Any:
        if name == "workflow":
            return self.pass_.workflow_document()
        if name == "CPEWF_TASK_ID":
            return str(self.task_id or "")
        row = self.pass_.book.find(name, self.node, self.iteration)
        return row.document(self.pass_.state.workflow.id) if row else None


    def field(self, name: str, field: str) -> Any:
        """One field of a root; the common ones without building the document."""
        if name == "workflow":
            run = self.pass_.state.workflow
            if field == "input":
                return run.input
            return self.pass_.variables if field == "variables" else self.pass_.workflow_document().get(field)
        row = self.pass_.book.find(name, self.node, self.iteration) if name != "CPEWF_TASK_ID" else None
        if row is None:
            return None
        if field == "output":
            return row.output
        return row.input if field == "input" else row.document(self.pass_.state.workflow.id).get(field)


def workflow_document(
    run: WorkflowView, variables: dict[str, Any], env: dict[str, Any], blueprint: Blueprint
) -> dict[str, Any]:
    """What `${workflow...}` sees."""
    return {
        "input": run.input,
        "output": run.output,
        "variables": variables,
        "status": run.status.value,
        "workflowId": str(run.id),
        "workflowType": run.name,
        "version": run.version,
        "correlationId": run.correlation_id,
        "priority": run.priority,
        "parentWorkflowId": str(run.parent_workflow_id) if run.parent_workflow_id else None,
        "parentWorkflowTaskId": str(run.parent_task_id) if run.parent_task_id else None,
        "reasonForIncompletion": run.reason,
        "schemaVersion": blueprint.definition.get("schemaVersion", 2),
        "createTime": int(run.created_at.timestamp() * 1000),
        "createdBy": run.created_by,
        "taskToDomain": run.task_to_domain,
        "env": env,
    }
