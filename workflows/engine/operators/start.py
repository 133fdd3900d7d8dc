"""A node being started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workflows.engine.blueprint import Node
from workflows.engine.commands import Effect
from workflows.engine.masked_fields import carrying
from workflows.engine.rows import Row, TaskError
from workflows.engine.state import TaskStatus

if TYPE_CHECKING:
    from workflows.engine.decider import Pass


class Start:
    """A node being started: the pass, where, which attempt, and after which delay."""

    __slots__ = ("attempt", "delay", "given", "id", "iteration", "made", "node", "pass_", "retried")

    def __init__(
        self, pass_: Pass, node: Node, iteration: str, attempt: int, retried: Row | None, delay: float
    ) -> None:
        self.pass_ = pass_
        self.node = node
        self.iteration = iteration
        self.attempt = attempt
        self.retried = retried
        self.delay = delay
        self.id = pass_.state.new_id()
        self.given: dict[str, Any] | None = None
        self.made: Row | None = None

    def inputs(self) -> dict[str, Any]:
        """The node's resolved input, with its task definition's template where a key is absent or null.

        A retry resolves again; a branch made at run time keeps the input its fork gave it.
        """
        if self.given is not None:
            return self.given
        if self.node.dynamic and self.retried is not None:
            given = self.retried.input
        else:
            given = self.pass_.resolve(self.node.inputs, self)
            if self.node.given:
                given = {**given, **self.node.given}
        if not isinstance(given, dict):
            raise TaskError(f"inputParameters: expected an object, got {type(given).__name__}")
        template = self.node.template
        if template:
            said = {key: value for key, value in given.items() if value is not None or key not in template}
            given = {**template, **said}
        self.given = given
        wrong = self.node.takes.complaint(given, "input") if self.node.takes else None
        if wrong:
            raise TaskError(wrong)
        return given

    def initial_delay(self) -> float:
        """Seconds before it may run: the backoff of a retry, else the node's startDelay."""
        if self.retried is not None:
            return self.delay
        delay = self.node.spec.get("startDelay")
        return float(delay) if isinstance(delay, (int, float)) and delay > 0 else 0.0

    def row(self, status: TaskStatus, **fields: Any) -> Row:
        """The node's row."""
        schedule = fields.pop("schedule", {})
        if self.retried is not None:
            schedule = {**schedule, "retried_task_id": self.retried.id}
            fields["first_scheduled_at"] = self.retried.first_scheduled_at
        self.made = self.pass_.draft(
            self.node, self.iteration, status, self.attempt, id=self.id, schedule=schedule, **fields
        )
        return self.made

    def effect(self, topic: str, payload: dict[str, Any]) -> Effect:
        """What leaves the run with the node's row, and with the names that the run masks."""
        return Effect(topic, carrying(payload, self.pass_.blueprint.masked))

    def settle(self, **fields: Any) -> None:
        """An operator that is done when it is reached."""
        row = self.row(TaskStatus.COMPLETED, **fields)
        if not self.pass_.put_off(row):
            self.pass_.finished(self.node, self.iteration)

    def failed(self, reason: str) -> Row:
        """The row of a node that cannot be started, with the input as far as it was known."""
        given = {} if self.pass_.state.excess("task input", self.given) else self.given or {}
        row = self.made or self.row(TaskStatus.FAILED_WITH_TERMINAL_ERROR, input=given)
        row.status, row.reason, row.consumed = TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason, True
        row.timers, row.effects, row.schedule = (), (), {**row.schedule, "queue": None}
        return row
