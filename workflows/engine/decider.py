"""`decide`: what one pass does to one run. Deterministic; deciding again on the applied result changes nothing.

A pass follows the ends of tasks through the structure of the definition: an ended task starts its successor, or
ends its block, and a block's end is known to its owner. Operators settle in the pass that reaches them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from workflows.engine.blueprint import OPERATORS, Block, Blueprint, Node, node_of
from workflows.engine.commands import Alert, Command, Decision, EndRun
from workflows.engine.expressions import Template, resolve
from workflows.engine.operators import branch_ended, joined_ref_ended, resume_container, start_node, turn_ended
from workflows.engine.rows import NeedRows, Row, RunEnded, TaskError
from workflows.engine.state import State, TaskStatus, WorkflowStatus

EvaluateScript = Callable[[str, dict[str, Any]], Any]
"""(source, scope) -> value of the script; raises an exception whose text is the reason."""

MAX_STEPS = 500
"""Steps of one pass; a loop of operators alone goes on in the next pass."""


def decide(blueprint: Blueprint, state: State, evaluate_script: EvaluateScript) -> Decision:
    """Decide one pass. Returns `needs` and nothing else when rows must be read first."""
    pass_ = Pass(blueprint, state, evaluate_script)
    try:
        return pass_.run()
    except NeedRows as need:
        return Decision(needs=need.refs)


class Scope:
    """What expressions of a node see at an iteration."""

    def __init__(self, pass_: Pass, node: Node | None, iteration: str, task_id: str = "") -> None:
        self.pass_ = pass_
        self.node = node
        self.iteration = iteration
        self.task_id = task_id
        self.null_text = pass_.blueprint.null_text

    def root(self, name: str) -> Any:
        if name == "workflow":
            return self.pass_.workflow_document()
        if name == "CPEWF_TASK_ID":
            return self.task_id
        row = self.pass_.find(name, self.node, self.iteration)
        return row.document(self.pass_.state.workflow.id) if row else None


class Pass:
    """One pass over one run."""

    def __init__(self, blueprint: Blueprint, state: State, evaluate_script: EvaluateScript) -> None:
        self.blueprint = blueprint
        self.state = state
        self.evaluate_script = evaluate_script
        self.rows: dict[str, list[Row]] = {}
        self.order: list[Row] = []
        self.consumed: list[Row] = []
        self.alerts: list[Alert] = []
        self.variables = state.workflow.variables
        self.root_ended = state.workflow.root_ended
        self.end: EndRun | None = None
        self.last: Row | None = None
        self.again = False
        self.steps = 0
        self.waiting: deque[Callable[[], None]] = deque()
        for view in state.tasks:
            self._add(Row.of(view))

    # The pass

    def run(self) -> Decision:
        try:
            if not self.state.workflow.has_any_task:
                self.enter(self.blueprint.root, "")
            for row in self._unconsumed():
                row.consumed = True
                self.consumed.append(row)
                self._settle_ended(row)
                self._work()
            self._work()
            self._finish_if_proved()
        except RunEnded:
            pass
        return self._decision()

    def _unconsumed(self) -> list[Row]:
        found = [row for row in self.order if row.view and row.status.terminal and not row.consumed]
        return sorted(found, key=lambda row: (row.view.ended_at is None, row.view.ended_at, row.id))  # type: ignore[union-attr]

    def _work(self) -> None:
        while self.waiting:
            self.waiting.popleft()()

    def _decision(self) -> Decision:
        commands: list[Command] = []
        for row in self.order:
            command = row.command()
            if command is not None:
                commands.append(command)
        commands += self.alerts
        if self.end is not None:
            commands.append(self.end)
        stuck: tuple[str, ...] = ()
        if self.end is None and not self.root_ended and not commands and not self.again and not self._open():
            stuck = self._missing()
        return Decision(
            commands=tuple(commands),
            consumed=tuple(row.id for row in self.consumed if row.consumed),
            variables=self.variables if self.variables is not self.state.workflow.variables else None,
            root_ended=self.root_ended,
            stuck=stuck,
            again=self.again,
        )

    def _open(self) -> bool:
        return any(not row.status.terminal for row in self.order)

    def _missing(self) -> tuple[str, ...]:
        """Root tasks that have no row that ended well: where the run stopped."""
        seen = {row.ref for row in self.order if row.status.successful}
        return tuple(node.ref for node in self.blueprint.root.nodes if node.ref not in seen)

    def _finish_if_proved(self) -> None:
        """INV-10: the last node of the root block has ended, nothing is open, nothing is left to consume."""
        if not self.root_ended or self._open() or self.again:
            return
        failed = [(node, self.find(node.ref, None, "")) for node in self.blueprint.permissive]
        bad = [row for _, row in failed if row is not None and not row.status.successful]
        output = self.output()
        if bad:
            names = ", ".join(f"{row.ref} ({row.status}: {row.reason or 'no reason'})" for row in bad)
            self.end_run(WorkflowStatus.FAILED, output, f"Permissive tasks failed: {names}", tuple(row.ref for row in bad))
        self.end_run(WorkflowStatus.COMPLETED, output)

    def output(self) -> Any:
        """The run's output: its outputParameters, or the output of the last task."""
        if self.blueprint.definition.get("outputParameters"):
            return resolve(self.blueprint.outputs, Scope(self, None, ""))
        if self.last is None and self.blueprint.root.nodes:
            self.last = self.find(self.blueprint.root.nodes[-1].ref, None, "")
        return self.last.output if self.last and self.last.output is not None else {}

    # Rows

    def _add(self, row: Row) -> None:
        self.rows.setdefault(row.ref, []).append(row)
        self.order.append(row)

    def draft(self, node: Node, iteration: str, status: TaskStatus, attempt: int = 0, **fields: Any) -> Row:
        """A new row of this pass; one that is settled here is born consumed."""
        id_ = fields.pop("id", None) or self.state.new_id()
        row = Row(id_, node.ref, iteration, attempt, node.name, node.type, status, fields.pop("input", {}), **fields)
        row.consumed = status.terminal
        self._add(row)
        if status.terminal:
            self.last = row
        return row

    def find(self, ref: str, node: Node | None, iteration: str) -> Row | None:
        """The row a reference means: newest visible iteration, ended attempts before pending ones, newest attempt.

        Raises NeedRows when it was not read.
        """
        target = self.blueprint.nodes.get(ref)
        common = _common_loops(node, target)
        prefix = tuple(map(int, iteration.split(".")))[:common] if iteration else ()
        best: Row | None = None
        best_key: tuple[Any, ...] = ()
        for row in self.rows.get(ref, ()):
            path = row.path
            if path[:common] != prefix:
                continue
            key = (path, row.status.terminal, row.attempt)
            if best is None or key > best_key:
                best, best_key = row, key
        known = not self.state.workflow.has_any_task or ref in self.state.loaded
        if known or (best is not None and (best.view is None or best.status.terminal or _first_and_whole(best))):
            return best
        raise NeedRows([ref])

    def find_all(self, refs: Iterable[str], node: Node | None, iteration: str) -> dict[str, Row]:
        """The rows of several refs; asks for all that were not read at once."""
        found: dict[str, Row] = {}
        missing: set[str] = set()
        for ref in refs:
            try:
                row = self.find(ref, node, iteration)
            except NeedRows as need:
                missing |= need.refs
                continue
            if row is not None:
                found[ref] = row
        if missing:
            raise NeedRows(missing)
        return found

    def open_row(self, ref: str, iteration: str) -> Row | None:
        """The open row of an operator at an iteration."""
        for row in self.rows.get(ref, ()):
            if row.iteration == iteration and not row.status.terminal:
                return row
        return None

    def node(self, row: Row) -> Node:
        """The node of a row; one made at run time carries its own definition."""
        if row.spec is not None:
            return node_of(self.blueprint, row.spec, self.blueprint.nodes.get(row.ref))
        return self.blueprint.nodes[row.ref]

    # Movement through the structure

    def later(self, step: Callable[[], None]) -> None:
        """Queue a step: no recursion, however long the chain of operators."""
        self.waiting.append(step)

    def enter(self, block: Block, iteration: str) -> None:
        """Start a block, or end it when it is empty."""
        if block.nodes:
            self.later(lambda: self.start(block.nodes[0], iteration))
        else:
            self.later(lambda: self.leave(block, iteration))

    def start(self, node: Node, iteration: str, attempt: int = 0, retried: Row | None = None, delay: float = 0) -> None:
        """Make a node's row; a mistake in it fails the task, not the pass."""

        self.steps += 1
        try:
            if node.broken:
                raise TaskError(node.broken)
            start_node(self, node, iteration, attempt, retried, delay)
        except TaskError as error:
            row = self.draft(node, iteration, TaskStatus.FAILED_WITH_TERMINAL_ERROR, attempt, reason=str(error))
            self.fail(node, row)

    def finished(self, node: Node, iteration: str) -> None:
        """A node has finally ended well, or its failure does not matter: go on behind it."""

        for join in node.joined_by:
            joined_ref_ended(self, join, node.ref, iteration)
        following = node.next
        if following is not None:
            self.later(lambda: self.start(following, iteration))
        else:
            self.later(lambda: self.leave(node.block, iteration))

    def leave(self, block: Block, iteration: str) -> None:
        """A block has ended: its owner learns of it."""

        owner = block.owner
        if owner is None:
            self.root_ended = True
        elif block.kind == "case":
            self.finished(owner, iteration)
        elif block.kind == "branch":
            branch_ended(self, owner, block, iteration)
        else:
            turn_ended(self, owner, iteration)

    def put_off(self, row: Row) -> bool:
        """Whether this pass has done enough: the row is left for the next one."""
        if self.steps < MAX_STEPS:
            return False
        row.consumed = False
        self.again = True
        return True

    # Ends of tasks

    def _settle_ended(self, row: Row) -> None:
        node = self.node(row)
        if row.status.successful:
            self.last = row
            if row.type == "DO_WHILE":
                self.finished(node, row.iteration)
            elif row.type in ("SWITCH", "DECISION", "FORK"):

                resume_container(self, node, row)
            else:
                self.finished(node, row.iteration)
        else:
            self.fail(node, row)

    def fail(self, node: Node, row: Row) -> None:
        """An attempt has ended badly: retry it, pass over it, or end the run."""
        policy = node.policy
        timed_out = row.status == TaskStatus.TIMED_OUT
        fatal = timed_out and row.cause in ("TASK_TIMEOUT", "POLL_TIMEOUT") and policy.timeout_policy == "TIME_OUT_WF"
        if row.status.retriable and not fatal and row.cause != "TOTAL_TIMEOUT" and row.attempt < policy.retry_count:
            delay = policy.delay(row.attempt, row.id)
            if not self._past_total(policy.total_timeout_seconds, row, delay):
                self.start(node, row.iteration, row.attempt + 1, row, delay)
                return
        if fatal:
            self._end_failed(row)
        elif node.optional:
            row.status, row.changed = TaskStatus.COMPLETED_WITH_ERRORS, True
            self.last = row
            self.finished(node, row.iteration)
        elif node.permissive:
            self.finished(node, row.iteration)
        else:
            self._end_failed(row)

    def _past_total(self, total_seconds: int, row: Row, delay: float) -> bool:
        if not total_seconds or row.first_scheduled_at is None:
            return False
        return (self.state.now - row.first_scheduled_at).total_seconds() + delay >= total_seconds

    def _end_failed(self, row: Row) -> None:
        status = {
            TaskStatus.CANCELED: WorkflowStatus.TERMINATED,
            TaskStatus.TIMED_OUT: WorkflowStatus.TIMED_OUT,
        }.get(row.status, WorkflowStatus.FAILED)
        reason = f"Task {row.id} ({row.ref}) ended {row.status}: {row.reason or 'no reason given'}"
        self.end_run(status, None, reason, (row.ref,))

    def end_run(
        self, status: WorkflowStatus, output: Any, reason: str | None = None, failed_refs: tuple[str, ...] = ()
    ) -> None:
        """End the run and this pass."""
        if output is None and self.blueprint.definition.get("outputParameters"):
            output = self._partial_output()
        failure = None if status == WorkflowStatus.COMPLETED else self._failure_workflow()
        self.end = EndRun(status, {} if output is None else output, reason, failed_refs, failure)
        raise RunEnded

    def _partial_output(self) -> Any:
        """outputParameters of a run that fails, as far as they can be resolved."""
        return resolve(self.blueprint.outputs, Scope(self, None, ""))

    def _failure_workflow(self) -> dict[str, Any] | None:
        name = self.blueprint.definition.get("failureWorkflow")
        if not isinstance(name, str) or not name:
            return None
        bare = name.removeprefix("${").removesuffix("}").removeprefix("$")
        if bare.startswith("workflow.input."):
            name = (self.state.workflow.input or {}).get(bare.removeprefix("workflow.input."))
            if not isinstance(name, str) or not name:
                return None
        return {"name": name, "version": self.blueprint.definition.get("failureWorkflowVersion")}

    # Values

    def resolve(self, template: Template, node: Node, iteration: str, task_id: Any = "") -> Any:
        return resolve(template, Scope(self, node, iteration, str(task_id)))

    def workflow_document(self) -> dict[str, Any]:
        """What `${workflow...}` sees."""
        run = self.state.workflow
        return {
            "input": run.input,
            "output": run.output,
            "variables": self.variables,
            "status": run.status.value,
            "workflowId": str(run.id),
            "workflowType": run.name,
            "version": run.version,
            "correlationId": run.correlation_id,
            "priority": run.priority,
            "parentWorkflowId": str(run.parent_workflow_id) if run.parent_workflow_id else None,
            "parentWorkflowTaskId": str(run.parent_task_id) if run.parent_task_id else None,
            "reasonForIncompletion": run.reason,
            "schemaVersion": self.blueprint.definition.get("schemaVersion", 2),
            "createTime": int(run.created_at.timestamp() * 1000),
            "createdBy": run.created_by,
            "taskToDomain": run.task_to_domain,
            "env": self.state.env,
        }


def _common_loops(node: Node | None, target: Node | None) -> int:
    """How many enclosing loops two nodes share."""
    if node is None or target is None:
        return 0
    count = 0
    for ours, theirs in zip(node.loops, target.loops):
        if ours != theirs:
            break
        count += 1
    return count


def _first_and_whole(row: Row) -> bool:
    """An operator's open row is read with its payload, and its first attempt hides no earlier one."""
    return row.type in OPERATORS and row.attempt == 0
