"""`decide`: what one pass does to one run. Deterministic; deciding again on the applied result changes nothing.

A pass follows the ends of tasks through the structure of the definition: an ended task starts its successor, or
ends its block, and a block's end is known to its owner. Operators settle in the pass that reaches them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn
from uuid import UUID

from workflows.engine import compensation, state_changes
from workflows.engine.blueprint import Block, Blueprint, Node, dynamic_node
from workflows.engine.book import Book
from workflows.engine.commands import Alert, Command, Decision, EndRun, ScheduleTask
from workflows.engine.conditions import Evaluator
from workflows.engine.expressions import Template, resolve
from workflows.engine.operators import branch_ended, joined_ref_ended, resume_container, start_node, turn_ended
from workflows.engine.operators.start import Start
from workflows.engine.proof import failure_workflow, finish_if_proved, missing, output
from workflows.engine.retries import policy_of
from workflows.engine.rows import NeedOriginal, NeedRows, Row, RunEnded, TaskError
from workflows.engine.schemas import Schema
from workflows.engine.scope import NodeScope, workflow_document
from workflows.engine.state import State, TaskStatus, WorkflowStatus

__all__ = ["EvaluateScript", "NeedRows", "Pass", "RunEnded", "decide"]

EvaluateScript = Evaluator

MAX_STEPS = 500
"""Steps of one pass; a loop of operators alone goes on in the next pass."""

_MISTAKES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a value of the wrong shape raises in an operator: it would recur, so the task fails with it."""


def decide(blueprint: Blueprint, state: State, evaluate_script: Evaluator) -> Decision:
    """Decide one pass. Returns `needs` and nothing else when rows must be read first."""
    try:
        return Pass(blueprint, state, evaluate_script).run()
    except NeedRows as need:
        return Decision(needs=need.refs)
    except NeedOriginal as need:
        return Decision(original_after=need.after)


class Pass:
    """One pass over one run."""

    __slots__ = (
        "_document", "again", "alerts", "blueprint", "book", "consumed", "end", "evaluate_script", "last", "root_ended",
        "state", "steps", "stuck", "variables", "waiting",
    )  # fmt: skip

    def __init__(self, blueprint: Blueprint, state: State, evaluate_script: Evaluator) -> None:
        self.blueprint = blueprint
        self.state = state
        self.evaluate_script = evaluate_script
        self.book = Book(blueprint, state)
        self.consumed: list[Row] = []
        self.alerts: list[Alert] = []
        self.variables = state.workflow.variables
        self.root_ended = state.workflow.root_ended
        self.end: EndRun | None = None
        self.last: Row | None = None
        self.again = False
        self.steps = 0
        self.stuck: tuple[str, ...] = ()
        self.waiting: deque[Callable[[], None]] = deque()
        self._document: dict[str, Any] | None = None

    # The pass

    def run(self) -> Decision:
        try:
            undoing = self.book.open_row(compensation.REF, "")
            if undoing is not None:
                compensation.go_on(self, undoing)
            if not self.state.workflow.has_any_task:
                self.enter(self.blueprint.root, "")
            for row in self.book.unconsumed():
                row.consumed = True
                self.consumed.append(row)
                self.settle_ended(row)
                self.work()
            self.work()
            finish_if_proved(self)
            if not (self.again or self.book.open_leaf()):
                self.stuck = missing(self)
        except RunEnded:
            pass
        return self._decision()

    def work(self) -> None:
        """Take the steps that are queued."""
        while self.waiting:
            self.waiting.popleft()()

    def stop(self) -> NoReturn:
        """End this pass; what it has decided so far stands."""
        raise RunEnded

    def _decision(self) -> Decision:
        commands: list[Command] = []
        for row in self.book.order:
            command = row.command()
            if row.listeners and isinstance(command, ScheduleTask):
                run, masked = self.state.workflow, self.blueprint.masked
                command = state_changes.with_events(command, row.listeners, run, masked)
            if command is not None:
                commands.append(command)
        commands += self.alerts
        if self.end is not None:
            commands.append(self.end)
        return Decision(
            commands=tuple(commands),
            consumed=tuple(row.id for row in self.consumed if row.consumed),
            variables=self.variables if self.variables is not self.state.workflow.variables else None,
            root_ended=self.root_ended,
            stuck=self.stuck,
            again=self.again,
        )

    # Rows

    def _add(self, row: Row) -> None:
        self.book.add(row)

    def open_row(self, ref: str, iteration: str) -> Row | None:
        """The open row of an operator at an iteration."""
        return self.book.open_row(ref, iteration)

    def draft(self, node: Node, iteration: str, status: TaskStatus, attempt: int = 0, **fields: Any) -> Row:
        """A new row of this pass; one that is settled here is born consumed. Raises TaskError for payloads over a limit."""
        self.require("task input", fields.get("input"))
        self.require("task output", fields.get("output"))
        id_ = fields.pop("id", None) or self.state.new_id()
        row = Row(id_, node.ref, iteration, attempt, node.name, node.type, status, fields.pop("input", {}), **fields)
        if node.dynamic:
            fork = node.block.owner.ref if node.block.owner else ""
            row.spec, row.state = node.spec, {**(row.state or {}), "fork": fork}
        if node.block.kind == "undo":
            row.state = {**(row.state or {}), "undoes": node.block.key}
        if state_changes.FIELD in node.extras:
            row.listeners = self._listeners(node, iteration, id_)
        row.consumed = status.terminal
        self.book.add(row)
        if status.terminal:
            self.last = row
        return row

    def _listeners(self, node: Node, iteration: str, task_id: UUID) -> Any:
        """What a new task tells of its changes; a mistake in it is said in the history and harms no task."""
        try:
            found = resolve(node.extras[state_changes.FIELD], NodeScope(self, node, iteration, task_id))
            wrong = self.state.excess("task input", found) if found else None
        except _MISTAKES as error:
            found, wrong = None, f"{type(error).__name__}: {error}"
        if wrong:
            self.alerts.append(Alert("STATE_CHANGE", node.ref, f"nothing is told of its {state_changes.FIELD}: {wrong}"))
        return None if wrong else found

    def require(self, what: str, value: Any) -> None:
        """Raise TaskError for a value that is too large to be kept."""
        wrong = self.state.excess(what, value)
        if wrong:
            raise TaskError(wrong)

    def put_out(self, node: Node, row: Row, output: Any) -> bool:
        """Give an open operator its output; one over the limit fails the task instead, and False is returned."""
        wrong = self.state.excess("task output", output)
        row.changed = True
        if wrong:
            row.status, row.reason, row.consumed = TaskStatus.FAILED_WITH_TERMINAL_ERROR, wrong, True
            self.fail(node, row)
            return False
        row.output = output
        return True

    def node(self, row: Row) -> Node:
        """The node of a row; one made at run time carries its own definition. Ends the run when there is none."""
        if compensation.undoes(row) is not None:
            return compensation.node_of(self.blueprint, row)
        node = self.blueprint.nodes.get(row.ref)
        if row.spec is not None:
            owner = self.blueprint.nodes.get((row.state or {}).get("fork", ""))
            node = dynamic_node(self.blueprint, row.spec, owner) if owner else None
        if node is None:
            reason = f"Task {row.id} ({row.ref}) is not in the definition of this run"
            self.end_run(WorkflowStatus.FAILED, None, reason, (row.ref,))
        return node

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
        start = Start(self, node, iteration, attempt, retried, delay)
        try:
            if node.broken:
                raise TaskError(node.broken)
            start_node(start)
        except TaskError as error:
            self.fail(node, start.failed(str(error)))
        except _MISTAKES as error:
            self.fail(node, start.failed(f"{type(error).__name__}: {error}"))

    def finished(self, node: Node, iteration: str) -> None:
        """A node has finally ended well, or its failure does not matter: go on behind it."""
        for join, ref in node.joined_by:
            joined_ref_ended(self, join, ref, iteration)
        following = node.next
        if following is not None:
            self.later(lambda: self.start(following, iteration))
        else:
            self.later(lambda: self.leave(node.block, iteration))

    def leave(self, block: Block, iteration: str) -> None:
        """A block has ended: its owner learns of it."""
        owner = block.owner
        if block.kind == "undo":
            compensation.undone(self, block.nodes[0])
        elif owner is None:
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

    def settle_ended(self, row: Row) -> None:
        """Go on behind a task that has ended well, or deal with its failure."""
        node = self.node(row)
        if node.gives is not None and row.status == TaskStatus.COMPLETED:
            self._check_output(node.gives, row)
        if not row.status.successful:
            self.fail(node, row)
            return
        self.last = row
        if row.type in ("SWITCH", "DECISION", "FORK") and row.status != TaskStatus.SKIPPED:
            resume_container(self, node, row)
        else:
            self.finished(node, row.iteration)

    def _check_output(self, schema: Schema, row: Row) -> None:
        """A result that violates its schema is a failure of the attempt."""
        wrong = schema.complaint(row.output or {}, "output")
        if wrong:
            row.status, row.reason, row.changed = TaskStatus.FAILED, wrong, True
            self.alerts.append(Alert("OUTPUT_SCHEMA", row.ref, wrong))

    def fail(self, node: Node, row: Row) -> None:
        """An attempt has ended badly: retry it, pass over it, or end the run."""
        policy = policy_of(self.blueprint, node, row.name)
        timed_out = row.status == TaskStatus.TIMED_OUT
        fatal = timed_out and row.cause in ("TASK_TIMEOUT", "POLL_TIMEOUT") and policy.timeout_policy == "TIME_OUT_WF"
        if row.status.retriable and not fatal and row.cause != "TOTAL_TIMEOUT" and row.attempt < policy.retry_count:
            delay = policy.delay(row.attempt, row.id)
            if not self._past_total(policy.total_timeout_seconds, row, delay):
                self.start(node, row.iteration, row.attempt + 1, row, delay)
                return
        if fatal or not (node.optional or node.permissive):
            if node.block.kind == "undo":
                compensation.undoing_failed(self, node, row)
            self._end_failed(row)
        if self.put_off(row):
            return
        if node.optional:
            row.status, row.changed = TaskStatus.COMPLETED_WITH_ERRORS, True
            self.last = row
        self.finished(node, row.iteration)

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
        self, status: WorkflowStatus, result: Any, reason: str | None = None, failed_refs: tuple[str, ...] = ()
    ) -> NoReturn:
        """End the run and this pass; without a result it puts out what its outputParameters give by now."""
        if result is None and self.blueprint.definition.get("outputParameters"):
            result = output(self)
        wrong = self._complaint(result) if status == WorkflowStatus.COMPLETED else None
        too_large = self.state.excess("workflow output", result)
        if wrong or too_large:
            status = WorkflowStatus.FAILED if status == WorkflowStatus.COMPLETED else status
            reason = "; ".join(said for said in (reason, too_large or wrong) if said)
            result = None if too_large else result
        definition, given = self.blueprint.definition, self.state.workflow.input
        failure = None if status == WorkflowStatus.COMPLETED else failure_workflow(definition, given)
        # Every failure goes this way: tasks, expressions, conditions, a TERMINATE that says FAILED. [INV-11]
        undoable = self.blueprint.undoable if status in (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT) else None
        self.end = EndRun(status, {} if result is None else result, reason, failed_refs, failure, undoable)
        raise RunEnded

    def _complaint(self, result: Any) -> str | None:
        schema = self.blueprint.gives
        return schema.complaint({} if result is None else result, "output") if schema else None

    # Values

    def resolve(self, template: Template, start: Start) -> Any:
        """The value of a template for a node being started."""
        return resolve(template, NodeScope(self, start.node, start.iteration, start.id))

    def workflow_document(self) -> dict[str, Any]:
        """What `${workflow...}` sees; made once per pass."""
        if self._document is None:
            self._document = workflow_document(self.state.workflow, self.variables, self.state.env, self.blueprint)
        return self._document

    def set_variables(self, values: dict[str, Any]) -> None:
        """Merge variables, visible at once."""
        self.variables = {**self.variables, **values}
        self._document = None
