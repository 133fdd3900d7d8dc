"""A jump forward in an open run: what stands between is skipped, as an operator would skip it task by task."""

from __future__ import annotations

from uuid import UUID

from orchestrator.errors import Invalid, NotFound
from workflows.engine.blueprint import Node
from workflows.engine.state import TaskStatus
from workflows.managers.execution import LockedExecution
from workflows.managers.task import OpenTask
from workflows.models import Task
from workflows.services.control.acting import note, perform, refuse, require
from workflows.services.control.tasks import SETTLED_AT_ONCE, end_as_operator, skipped
from workflows.services.revisions import blueprint_for
from workflows.transitions import make_tasks


def jump(namespace: str, workflow_id: UUID, ref: str, *, actor: str) -> None:
    """Let a run go on with a later task of its outermost level; open tasks before it end SKIPPED, the others never start.

    Raises NotFound for an unknown reference, Invalid where a fork, a loop or a switch stands in the way: what to skip
    inside these is not for us to guess. Going back is what `rerun` does.
    """

    def body(run: LockedExecution) -> None:
        require(run, "skip_task")
        between = _between(run, ref)
        rows = {row.ref for row in Task.sql.outline(run.id)}
        if ref in rows:
            refuse(run, "skip_task", f"{ref} has started already; terminate the workflow and rerun it from there")
        open_tasks = {task.ref: task for task in Task.sql.find_open(run.id)}
        waiting = [node for node in between if node.ref not in rows]
        _check([*waiting, *(node for node in between if node.ref in open_tasks)])
        # Those to come are put in place before the open ones end: the next pass must already find them.
        make_tasks([(run.id, run.namespace, run.priority, skipped(node, "", None, None)) for node in waiting])
        for node in between:
            task: OpenTask | None = open_tasks.get(node.ref)
            if task is not None:
                end_as_operator(run, task, TaskStatus.SKIPPED, None, f"{actor} jumped to {ref}.", None)
        note(run.id, "workflow.jumped", actor, ref, skipped=[node.ref for node in between if node.ref not in rows])

    perform("jump", namespace, workflow_id, actor, body, detail={"ref": ref})


def _between(run: LockedExecution, ref: str) -> list[Node]:
    """The nodes of the outermost level before a reference."""
    blueprint = blueprint_for([run.revision_id])[run.revision_id]
    node = blueprint.nodes.get(ref)
    if node is None:
        raise NotFound(f"Workflow {run.id} has no task with the reference {ref}", ref=ref)
    if node.block is not blueprint.root:
        raise Invalid(problems=[("taskReferenceName", f"{ref} stands inside another task: jump to that one instead")])
    return blueprint.root.nodes[: node.index]


def _check(nodes: list[Node]) -> None:
    problems = [
        ("taskReferenceName", f"{node.ref}, a {node.type}, stands in the way")
        for node in nodes
        if node.type in SETTLED_AT_ONCE or node.blocks
    ]
    if problems:
        raise Invalid(problems=problems)
