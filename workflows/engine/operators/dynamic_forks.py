"""FORK_JOIN_DYNAMIC: branches made at run time, one task each.

The refs of the branches stand in the join's input, which is written once; its state is a counter, so that
ten thousand branches cost ten thousand small writes.
"""

from __future__ import annotations

from typing import Any

from workflows.engine import state_changes
from workflows.engine.blueprint import CONTAINERS, OPERATORS, SYSTEM_TASKS, Node, dynamic_node
from workflows.engine.operators.forks import close_if_joined
from workflows.engine.operators.start import Start
from workflows.engine.rows import TaskError
from workflows.engine.state import TaskStatus

Branch = tuple[dict[str, Any], dict[str, Any]]
"""(the task, input over its own inputParameters)."""


def dynamic_fork(start: Start) -> None:
    """Start a branch for each task that the input describes."""
    pass_, node, join = start.pass_, start.node, start.node.join
    if join is None:
        raise TaskError(f"FORK_JOIN_DYNAMIC {node.ref} is not followed by a JOIN")
    given = start.inputs()
    branches = _branches(start, given)
    refs = [str(task["taskReferenceName"]) for task, _ in branches]
    _refuse_duplicates(start, refs)
    nodes = [_branch_node(start, task, over) for task, over in branches]
    shown = {**given, "forkedTasks": refs}
    start.row(TaskStatus.COMPLETED, input=shown, output={}).type = "FORK"
    state = {"left": len(nodes)}
    row = pass_.draft(join, start.iteration, TaskStatus.IN_PROGRESS, state=state, input={"joinOn": refs})
    for branch in nodes:
        pass_.enter(branch.block, start.iteration)
    close_if_joined(pass_, join, row)


def _branches(start: Start, given: dict[str, Any]) -> list[Branch]:
    spec = start.node.spec
    if isinstance(given.get("forkTaskInputs"), list):
        return _from_inputs(start, given)
    if spec.get("dynamicForkTasksParam"):
        return _from_tasks(spec, given)
    if spec.get("dynamicForkJoinTasksParam"):
        return _from_legacy(str(spec["dynamicForkJoinTasksParam"]), given)
    raise TaskError("expected a list in inputParameters.forkTaskInputs, or a dynamicForkTasksParam")


def _from_inputs(start: Start, given: dict[str, Any]) -> list[Branch]:
    """One task for many inputs."""
    node, child = start.node, given.get("forkTaskWorkflow")
    type_ = "SUB_WORKFLOW" if child else str(given.get("forkTaskType") or "SIMPLE")
    name = given.get("forkTaskName") or child or (type_ if type_ in OPERATORS | SYSTEM_TASKS else node.ref)
    stem = f"_{node.ref}_{name}" if node.prefixed else f"_{name}"
    found: list[Branch] = []
    for index, element in enumerate(given["forkTaskInputs"]):
        values = dict(element) if isinstance(element, dict) else {} if element is None else {"input": element}
        task: dict[str, Any] = {"name": name, "taskReferenceName": f"{stem}_{index}", "type": type_}
        if child:
            version = given.get("forkTaskWorkflowVersion")
            task["subWorkflowParam"] = {"name": child} | ({"version": version} if version is not None else {})
            if isinstance(values.get("taskToDomain"), dict):
                task["subWorkflowParam"]["taskToDomain"] = values.pop("taskToDomain")
        if node.optional:
            task["optional"] = True
        found.append((task, {**values, "__index": index}))
    return found


def _from_tasks(spec: dict[str, Any], given: dict[str, Any]) -> list[Branch]:
    """A list of tasks, and a map from their refs to inputs."""
    tasks_name, inputs_name = str(spec["dynamicForkTasksParam"]), str(spec.get("dynamicForkTasksInputParamName") or "")
    tasks, inputs = given.get(tasks_name), given.get(inputs_name)
    if not isinstance(tasks, list):
        raise TaskError(f"input {tasks_name!r}: expected a list of tasks, got {type(tasks).__name__}")
    if inputs is not None and not isinstance(inputs, dict):
        raise TaskError(f"input {inputs_name!r}: expected an object of inputs by ref, got {type(inputs).__name__}")
    found: list[Branch] = []
    for index, task in enumerate(tasks):
        if not isinstance(task, dict) or not isinstance(task.get("taskReferenceName"), str):
            raise TaskError(f"input {tasks_name!r}: element {index} is no task with a taskReferenceName")
        over = (inputs or {}).get(task["taskReferenceName"]) or {}
        found.append((task, over if isinstance(over, dict) else {"input": over}))
    return found


def _from_legacy(name: str, given: dict[str, Any]) -> list[Branch]:
    """The older form, with its own names for a task's fields."""
    holder = given.get(name)
    listed = holder.get("dynamicTasks") if isinstance(holder, dict) else None
    if not isinstance(listed, list):
        raise TaskError(f"input {name!r}: expected an object with a list of dynamicTasks")
    found: list[Branch] = []
    for index, item in enumerate(listed):
        if not isinstance(item, dict) or not item.get("referenceName"):
            raise TaskError(f"input {name!r}: element {index} has no referenceName")
        task: dict[str, Any] = {
            "name": item.get("taskName") or item.get("workflowName") or item["referenceName"],
            "taskReferenceName": str(item["referenceName"]),
            "type": item.get("type") or "SIMPLE",
        }
        if task["type"] == "SUB_WORKFLOW":
            task["subWorkflowParam"] = {"name": item.get("workflowName") or item.get("taskName")}
        over = item.get("input")
        found.append((task, over if isinstance(over, dict) else {}))
    return found


def _refuse_duplicates(start: Start, refs: list[str]) -> None:
    """A ref names one task of a run, whoever made it."""
    blueprint = start.pass_.blueprint
    seen: set[str] = set()
    for ref in refs:
        if ref in seen or ref in blueprint.nodes:
            raise TaskError(f"the dynamic fork makes a task with the duplicate task reference name {ref!r}")
        seen.add(ref)
    others = [n for n in blueprint.nodes.values() if n.type == "FORK_JOIN_DYNAMIC" and n is not start.node]
    if others and not start.pass_.book.whole:
        rows = start.pass_.book.find_all(refs, start.node, start.iteration)
        for ref, row in rows.items():
            if row.iteration == start.iteration:
                raise TaskError(f"the dynamic fork makes a task with the duplicate task reference name {ref!r}")


def _branch_node(start: Start, task: dict[str, Any], over: dict[str, Any]) -> Node:
    """The node of a branch; the input given for it is a value, in which nothing is resolved again."""
    type_ = str(task.get("type") or "SIMPLE")
    if type_ in CONTAINERS:
        raise TaskError(f"a branch of a dynamic fork is one task; {type_} holds others: put it into a SUB_WORKFLOW")
    wrong = next(state_changes.problems(task.get(state_changes.FIELD), state_changes.FIELD, task["taskReferenceName"]), None)
    if wrong:
        raise TaskError(f"{task['taskReferenceName']}: {wrong.path}: {wrong.message}")
    if not task.get("name"):
        task = {**task, "name": task["taskReferenceName"]}
    node = dynamic_node(start.pass_.blueprint, task, start.node)
    node.given = over
    return node
