"""What each type of node does when it is reached, and how containers learn that their parts have ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from workflows.engine.blueprint import SYSTEM_TASKS, Block, Node
from workflows.engine.commands import Effect, TimerSpec
from workflows.engine.durations import parse_duration, parse_until
from workflows.engine.rows import Row, TaskError
from workflows.engine.state import TaskStatus, WorkflowStatus

if TYPE_CHECKING:
    from workflows.engine.decider import Pass


class Start:
    """A node being started: the pass, where, and which attempt."""

    __slots__ = ("attempt", "delay", "id", "iteration", "node", "pass_", "retried")

    def __init__(self, pass_: Pass, node: Node, iteration: str, attempt: int, retried: Row | None, delay: float) -> None:
        self.pass_ = pass_
        self.node = node
        self.iteration = iteration
        self.attempt = attempt
        self.retried = retried
        self.delay = delay
        self.id = pass_.state.new_id()

    def inputs(self) -> dict[str, Any]:
        """The node's resolved input, with the task definition's template under it."""
        given = self.pass_.resolve(self.node.inputs, self.node, self.iteration, self.id)
        definition = self.node.spec.get("taskDefinition") or self.pass_.blueprint.task_definitions.get(self.node.name)
        template = (definition or {}).get("inputTemplate")
        if not template:
            return given if isinstance(given, dict) else {}
        return {**template, **{key: value for key, value in given.items() if value is not None or key not in template}}

    def row(self, status: TaskStatus, **fields: Any) -> Row:
        first = self.retried.first_scheduled_at if self.retried else None
        schedule = dict(fields.pop("schedule", {}))
        if self.retried is not None:
            schedule["retried_task_id"] = self.retried.id
        return self.pass_.draft(
            self.node, self.iteration, status, self.attempt, id=self.id, first_scheduled_at=first, schedule=schedule, **fields
        )

    def settle(self, **fields: Any) -> None:
        """An operator that is done when it is reached."""
        row = self.row(TaskStatus.COMPLETED, **fields)
        if not self.pass_.put_off(row):
            self.pass_.finished(self.node, self.iteration)

    def error(self, message: str) -> Exception:
        return TaskError(message)


def start_node(pass_: Pass, node: Node, iteration: str, attempt: int, retried: Row | None, delay: float) -> None:
    """Make the row of a node and do what its type does."""
    start = Start(pass_, node, iteration, attempt, retried, delay)
    _STARTS.get(node.type, _queued)(start)


# Work for workers


def _queued(start: Start) -> None:
    """SIMPLE, system tasks and every type that somebody's workers serve."""
    node, state = start.node, start.pass_.state
    name, type_ = node.name, node.type
    given = start.inputs()
    if type_ == "DYNAMIC":
        parameter = str(node.spec.get("dynamicTaskNameParam") or "")
        chosen = given.get(parameter)
        if not isinstance(chosen, str) or not chosen:
            raise start.error(f"the dynamic task name is missing: expected a text in input {parameter!r}, got {chosen!r}")
        name = chosen
        type_ = name if name in SYSTEM_TASKS else "SIMPLE"
    domain = None
    queue = type_
    if type_ not in SYSTEM_TASKS:
        domain = _domain(state.workflow.task_to_domain, name)
        queue = f"{domain}:{name}" if domain else name
    policy = node.policy
    first = start.retried.first_scheduled_at if start.retried else None
    delay = start.delay or float(node.spec.get("startDelay") or 0 if not start.retried else 0)
    timers = []
    if policy.poll_timeout_seconds:
        timers.append(TimerSpec("POLL", state.now + timedelta(seconds=policy.poll_timeout_seconds + delay)))
    if policy.total_timeout_seconds:
        timers.append(TimerSpec("TOTAL", (first or state.now) + timedelta(seconds=policy.total_timeout_seconds)))
    schedule = {
        "queue": queue,
        "domain": domain,
        "delay_seconds": delay,
        "response_seconds": policy.response_seconds,
        "timeout_seconds": policy.timeout_seconds,
    }
    row = start.row(TaskStatus.SCHEDULED, input=given, schedule=schedule, timers=tuple(timers))
    row.name, row.type = name, type_


def _domain(domains: dict[str, str], name: str) -> str | None:
    """The first domain a run chose for a task; NO_DOMAIN means none."""
    choice = domains.get(name) or domains.get("*")
    first = str(choice).split(",")[0].strip() if choice else ""
    return None if first in ("", "NO_DOMAIN") else first


# Operators that settle at once


def _noop(start: Start) -> None:
    start.settle(input=start.inputs(), output={})


def _set_variable(start: Start) -> None:
    given = start.inputs()
    start.pass_.variables = {**start.pass_.variables, **given}
    start.settle(input=given, output={})


def _terminate(start: Start) -> None:
    given = start.inputs()
    try:
        status = WorkflowStatus(str(given.get("terminationStatus")))
    except ValueError:
        status = WorkflowStatus.RUNNING
    if status not in (WorkflowStatus.COMPLETED, WorkflowStatus.FAILED, WorkflowStatus.TERMINATED):
        raise start.error(
            f"terminationStatus: expected COMPLETED, FAILED or TERMINATED, got {given.get('terminationStatus')!r}"
        )
    output = given.get("workflowOutput")
    if not isinstance(output, dict):
        output = {} if output is None else {"output": output}
    start.row(TaskStatus.COMPLETED, input=given, output=output)
    reason = None
    if status != WorkflowStatus.COMPLETED or given.get("terminationReason"):
        reason = str(given.get("terminationReason") or f"Workflow is {status} by TERMINATE task {start.node.ref}")
    failed = () if status == WorkflowStatus.COMPLETED else (start.node.ref,)
    start.pass_.end_run(status, output, reason, failed)


def _start_workflow(start: Start) -> None:
    given = start.inputs()
    request = given.get("startWorkflow")
    if not isinstance(request, dict) or not isinstance(request.get("name"), str):
        raise start.error("inputParameters.startWorkflow: expected an object with a name")
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
    }
    effect = Effect("workflow.start", payload)
    start.settle(input=given, output={"workflowId": str(child)}, effects=(effect,))


def _switch(start: Start) -> None:
    pass_, node, spec = start.pass_, start.node, start.node.spec
    given = start.inputs()
    case = _case(start, spec, given)
    block = node.blocks.get(f"case:{case}")
    if block is None or (node.type == "DECISION" and not block.nodes):
        block = node.blocks["default"]
    row = start.row(
        TaskStatus.COMPLETED,
        input={**given, "case": case},
        output={"evaluationResult": [case], "selectedCase": case, "caseOutput": [case]} if node.type == "DECISION"
        else {"evaluationResult": [case], "selectedCase": case},
        state={"block": block.key},
    )  # fmt: skip
    if not pass_.put_off(row):
        pass_.enter(block, start.iteration)


def _case(start: Start, spec: dict[str, Any], given: dict[str, Any]) -> str:
    script = spec.get("caseExpression")
    if spec.get("type") == "DECISION" and not script:
        return _case_text(given.get(str(spec.get("caseValueParam"))))
    evaluator = spec.get("evaluatorType") if spec.get("type") == "SWITCH" else "javascript"
    expression = str(script or spec.get("expression") or "")
    if evaluator == "value-param":
        return _case_text(given.get(expression))
    try:
        return _case_text(start.pass_.evaluate_script(expression, given))
    except Exception as error:
        raise start.error(f"the {evaluator} expression failed: {error}") from error


def _case_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else str(value)


# Operators that stay open


def _wait(start: Start) -> None:
    given = start.inputs()
    duration, until = given.get("duration"), given.get("until")
    if duration not in (None, "") and until not in (None, ""):
        raise start.error("WAIT takes a duration or an until, not both")
    now = start.pass_.state.now
    try:
        due = None
        if duration not in (None, ""):
            due = now + parse_duration(duration)
        elif until not in (None, ""):
            due = parse_until(until)
    except ValueError as error:
        raise start.error(str(error)) from error
    if due is not None and due <= now:
        start.settle(input=given, output={})
    else:
        start.row(TaskStatus.IN_PROGRESS, input=given, timers=() if due is None else (TimerSpec("WAIT", due),))


def _human(start: Start) -> None:
    start.row(TaskStatus.IN_PROGRESS, input=start.inputs())


def _sub_workflow(start: Start) -> None:
    pass_, node = start.pass_, start.node
    given = start.inputs()
    template = node.extras.get("subWorkflowParam")
    param = pass_.resolve(template, node, start.iteration, start.id) if template else None
    if not isinstance(param, dict) or not (param.get("name") or param.get("workflowDefinition")):
        raise start.error("subWorkflowParam: expected a name or a workflowDefinition")
    definition = param.get("workflowDefinition")
    if definition is not None and not isinstance(definition, dict):
        raise start.error("subWorkflowParam.workflowDefinition: expected an object")
    version = param.get("version")
    if isinstance(version, str) and version.isdigit():
        version = int(version)
    run, child = pass_.state.workflow, pass_.state.new_id()
    payload = {
        "child_id": child,
        "parent_workflow_id": run.id,
        "parent_task_id": start.id,
        "ref": node.ref,
        "iteration": start.iteration,
        "attempt": start.attempt,
        "name": param.get("name") or definition.get("name"),  # type: ignore[union-attr]
        "version": version or None,
        "definition": definition,
        "input": given,
        "correlation_id": run.correlation_id,
        "task_to_domain": param.get("taskToDomain") or run.task_to_domain,
        "priority": param.get("priority") or run.priority,
        "depth": run.depth + 1,
        "delay_seconds": start.delay,
    }
    shown = {"subWorkflowName": payload["name"], "subWorkflowVersion": payload["version"], "workflowInput": given}
    start.row(
        TaskStatus.IN_PROGRESS,
        input=shown,
        output={"subWorkflowId": str(child)},
        sub_workflow_id=child,
        effects=(Effect("workflow.start_child", payload),),
    )


# FORK and JOIN


def _fork(start: Start) -> None:
    pass_, node = start.pass_, start.node
    if node.join is None:
        raise start.error(f"FORK_JOIN {node.ref} is not followed by a JOIN")
    branches = list(node.blocks.values())
    row = start.row(TaskStatus.COMPLETED, input=start.inputs(), output={})
    row.type = "FORK"
    join_on = node.join.spec.get("joinOn") or []
    inside = {ref for ref in join_on if (n := pass_.blueprint.nodes.get(ref)) is not None and node.ref in n.under}
    state: dict[str, Any] = {"left": len(branches)}
    if join_on:
        state["pending"] = sorted(inside)
    join = pass_.draft(node.join, start.iteration, TaskStatus.IN_PROGRESS, state=state, input={"joinOn": join_on})
    for block in branches:
        pass_.enter(block, start.iteration)
    _close_if_joined(pass_, node.join, join)


def joined_ref_ended(pass_: Pass, join: Node, ref: str, iteration: str) -> None:
    """A ref that a JOIN waits for has finally ended."""
    row = pass_.open_row(join.ref, iteration)
    if row is not None and row.state and ref in row.state.get("pending", ()):
        row.state = {**row.state, "pending": [r for r in row.state["pending"] if r != ref]}
        row.changed = True
        _close_if_joined(pass_, join, row)


def branch_ended(pass_: Pass, fork: Node, block: Block, iteration: str) -> None:
    """A branch has ended: counted once, since what ended it is consumed once."""
    join = fork.join
    row = pass_.open_row(join.ref, iteration) if join else None
    if join is None or row is None or row.state is None:
        return
    state = {**row.state, "left": row.state["left"] - 1}
    if "pending" in state:
        nodes = pass_.blueprint.nodes
        state["pending"] = [ref for ref in state["pending"] if nodes[ref].under.get(fork.ref) != block.key]
    row.state, row.changed = state, True
    _close_if_joined(pass_, join, row)


def _close_if_joined(pass_: Pass, join: Node, row: Row) -> None:
    state = row.state or {}
    if state["pending"] if "pending" in state else state["left"]:
        return
    pass_.later(lambda: _close_join(pass_, join, row))


def _close_join(pass_: Pass, join: Node, row: Row) -> None:
    if row.status.terminal:
        return
    joined = pass_.find_all(_joined_refs(join), join, row.iteration)
    row.output = {ref: found.output or {} for ref, found in joined.items()}
    bad = any(found.status == TaskStatus.COMPLETED_WITH_ERRORS or not found.status.successful for found in joined.values())
    row.status = TaskStatus.COMPLETED_WITH_ERRORS if bad else TaskStatus.COMPLETED
    row.consumed, row.changed = True, True
    pass_.last = row
    if not pass_.put_off(row):
        pass_.finished(join, row.iteration)


def _joined_refs(join: Node) -> list[str]:
    """The refs whose outputs a join collects: the named ones, or the last task of each branch."""
    named = join.spec.get("joinOn")
    if named:
        return [ref for ref in named if isinstance(ref, str)]
    fork = join.fork
    return [block.nodes[-1].ref for block in fork.blocks.values() if block.nodes] if fork else []


def _lone_join(start: Start) -> None:
    """A JOIN that no fork opened has nothing to wait for."""
    joined = start.pass_.find_all(_joined_refs(start.node), start.node, start.iteration)
    start.settle(input=start.inputs(), output={ref: row.output or {} for ref, row in joined.items()})


# DO_WHILE


def _do_while(start: Start) -> None:
    pass_, node = start.pass_, start.node
    given = start.inputs()
    items = _items(start, given)
    if items is not None and not items:
        start.settle(input=given, output={"iteration": 0})
        return
    output: dict[str, Any] = {"iteration": 1}
    state: dict[str, Any] = {"iteration": 1}
    if items is not None:
        state["items"] = items
        output |= {"loopItem": items[0], "loopIndex": 0}
    start.row(TaskStatus.IN_PROGRESS, input=given, output=output, state=state)
    pass_.enter(node.blocks["loop"], _inner(start.iteration, 1))


def _items(start: Start, given: dict[str, Any]) -> list[Any] | None:
    template = start.node.extras.get("items")
    if template is not None:
        value = start.pass_.resolve(template, start.node, start.iteration, start.id)
    elif "_items" in given:
        value = given["_items"]
    else:
        return None
    return value if isinstance(value, list) else [] if value is None else [value]


def turn_ended(pass_: Pass, loop: Node, iteration: str) -> None:
    """A turn of a loop has ended: go round again, or end the loop."""
    outer, _, last = iteration.rpartition(".")
    row = pass_.open_row(loop.ref, outer)
    if row is None or row.state is None:
        return
    turn = int(last)
    rows = pass_.find_all([node.ref for node in loop.members], loop.members[0] if loop.members else loop, iteration)
    ran = {ref: found.output or {} for ref, found in rows.items() if found.iteration == iteration}
    output = {**(row.output or {}), str(turn): ran, "iteration": turn}
    keep = (row.input or {}).get("keepLastN")
    if isinstance(keep, int) and keep > 0:
        output.pop(str(turn - keep), None)
    row.output, row.changed = output, True
    items = row.state.get("items")
    try:
        again = _goes_on(pass_, loop, row, ran) and (items is None or turn < len(items))
    except Exception as error:
        row.status, row.reason, row.consumed = TaskStatus.FAILED_WITH_TERMINAL_ERROR, f"loopCondition failed: {error}", True
        pass_.fail(loop, row)
        return
    if not again:
        row.status, row.consumed = TaskStatus.COMPLETED, True
        pass_.last = row
        if not pass_.put_off(row):
            pass_.finished(loop, outer)
        return
    row.state = {**row.state, "iteration": turn + 1}
    row.output = {**output, "iteration": turn + 1}
    if items is not None:
        row.output |= {"loopItem": items[turn], "loopIndex": turn}
    pass_.enter(loop.blocks["loop"], _inner(outer, turn + 1))


def _goes_on(pass_: Pass, loop: Node, row: Row, ran: dict[str, Any]) -> bool:
    condition = loop.spec.get("loopCondition")
    if not condition:
        return "items" in (row.state or {})
    scope = {**(row.input or {}), loop.ref: row.output, **ran}
    if "items" in (row.state or {}):
        scope |= {"loopIndex": row.output.get("loopIndex"), "loopItem": row.output.get("loopItem")}
    value = pass_.evaluate_script(str(condition), scope)
    return value if isinstance(value, bool) else isinstance(value, (int, float)) and value > 0


def _inner(outer: str, turn: int) -> str:
    return f"{outer}.{turn}" if outer else str(turn)


def resume_container(pass_: Pass, node: Node, row: Row) -> None:
    """A container that the last pass settled and put off: go on where it stopped."""
    if row.type == "FORK":
        return
    pass_.enter(node.blocks[(row.state or {}).get("block", "default")], row.iteration)


_STARTS: dict[str, Callable[[Start], None]] = {
    "NOOP": _noop,
    "SET_VARIABLE": _set_variable,
    "TERMINATE": _terminate,
    "START_WORKFLOW": _start_workflow,
    "SWITCH": _switch,
    "DECISION": _switch,
    "WAIT": _wait,
    "HUMAN": _human,
    "SUB_WORKFLOW": _sub_workflow,
    "FORK_JOIN": _fork,
    "JOIN": _lone_join,
    "DO_WHILE": _do_while,
}
