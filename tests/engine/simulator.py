"""Applies decisions to a run in memory, so that the engine can be driven without a database.

After every pass it checks that no identity is made twice, and that deciding again changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import quickjs

from workflows import payloads
from workflows.engine import compensation
from workflows.engine.blueprint import compile
from workflows.engine.commands import Decision, EndRun, ScheduleTask, UpdateTask
from workflows.engine.decider import decide
from workflows.engine.state import State, TaskStatus, TaskView, WorkflowStatus, WorkflowView

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_ENDED_BY_PASSES = ("JOIN", "DO_WHILE", "COMPENSATION")


def evaluate(source: str, scope: dict[str, Any]) -> Any:
    """A script's value in a fresh context."""
    import json

    context = quickjs.Context()
    context.eval(f"globalThis.$ = {json.dumps(scope)}")
    return context.eval(source)


class Run:
    """A run of a definition."""

    def __init__(
        self, definition: dict[str, Any], input: dict[str, Any] | None = None, tasks: dict[str, Any] | None = None
    ) -> None:
        self.blueprint = compile(definition, tasks or {})
        self.numbers = count(1)
        self.now = EPOCH
        self.tasks: dict[UUID, TaskView] = {}
        self.made: list[ScheduleTask] = []
        self.queued: set[UUID] = set()
        self.passes = 0
        self.reads = 0
        self.end: EndRun | None = None
        self.stuck: tuple[str, ...] = ()
        self.view = WorkflowView(
            self.new_id(), "default", definition.get("name", "w"), 1, WorkflowStatus.RUNNING, input or {}, None,
            definition.get("variables") or {}, None, 0, None, None, {}, self.now, False, False, 0, None, None,
        )  # fmt: skip
        self.step()

    def new_id(self) -> UUID:
        return UUID(int=next(self.numbers))

    # Passes

    def _decide(self) -> Decision:
        loaded: frozenset[str] = frozenset()
        originals: dict[UUID, TaskView | None] = {}
        around: list[str] = []
        while True:
            frontier = [self._as_read(t) for t in self.tasks.values() if not t.status.terminal or not t.consumed]
            extra = [self._newest(ref) for ref in loaded]
            extra += [t for t in self.tasks.values() if t.iteration in around and t.status.terminal]
            rows = {t.id: t for t in [*frontier, *(t for t in extra if t)]}
            state = State(self.view, tuple(rows.values()), loaded, self.now, {}, self.new_id, originals, payloads.excess)
            decision = decide(self.blueprint, state, evaluate)
            if decision.original_after is not None:
                after = decision.original_after
                assert after not in originals, f"asked for the task before {after} twice"
                original = compensation.choose(self.tasks.values(), self.blueprint.undoable or (), after)
                originals[after] = original
                around += compensation.turns_around(original.iteration) if original and original.iteration else []
                continue
            if not decision.needs:
                return decision
            assert not decision.needs <= loaded, f"asked for {decision.needs} twice"
            self.reads += 1
            loaded |= decision.needs

    def _as_read(self, task: TaskView) -> TaskView:
        """Open tasks that are queued come without their payloads."""
        if task.status.terminal or task.id not in self.queued:
            return task
        return replace(task, input=None, output=None)

    def _newest(self, ref: str) -> TaskView | None:
        rows = [t for t in self.tasks.values() if t.ref == ref]
        key = lambda t: ([int(n) for n in t.iteration.split(".") if n], t.status.terminal, t.attempt)  # noqa: E731
        return max(rows, key=key, default=None)

    def step(self) -> None:
        """One pass, and more while one is asked for."""
        while True:
            decision = self._decide()
            self.passes += 1
            self.undoing = False
            self._apply(decision)
            if not (decision.again or self.undoing) or self.end:
                break
        if self.end is None:
            second = self._decide()
            assert second.noop or second.stuck, f"deciding again changes the run: {second}"
        self.stuck = decision.stuck

    def _apply(self, decision: Decision) -> None:
        for task_id in decision.consumed:
            self.tasks[task_id] = replace(self.tasks[task_id], consumed=True)
        for command in decision.commands:
            if isinstance(command, ScheduleTask):
                self._make(command)
            elif isinstance(command, UpdateTask):
                old = self.tasks[command.id]
                self.tasks[command.id] = replace(
                    old, status=command.status, output=command.output if command.output is not None else old.output,
                    reason=command.reason, state=command.state or old.state, consumed=command.consumed,
                    ended_at=self.now if command.status.terminal else None,
                )  # fmt: skip
            elif isinstance(command, EndRun):
                self._end(command)
        self.view = replace(
            self.view, root_ended=decision.root_ended, has_any_task=bool(self.tasks),
            variables=decision.variables if decision.variables is not None else self.view.variables,
        )  # fmt: skip

    def _end(self, command: EndRun) -> None:
        undoable = command.undoable
        if undoable is None or compensation.choose(self.tasks.values(), undoable, compensation.NEWEST) is None:
            self.end = command
            return
        for task in list(self.tasks.values()):
            if not task.status.terminal:
                self.tasks[task.id] = replace(task, status=TaskStatus.CANCELED, consumed=True, ended_at=self.now)
        self._make(compensation.marker(self.new_id(), command))
        self.undoing = True

    def _make(self, c: ScheduleTask) -> None:
        identity = (c.ref, c.iteration, c.attempt)
        assert identity not in {(t.ref, t.iteration, t.attempt) for t in self.tasks.values()}, f"{identity} made twice"
        self.made.append(c)
        if c.queue is not None:
            self.queued.add(c.id)
        self.tasks[c.id] = TaskView(
            c.id, c.ref, c.iteration, c.attempt, c.name, c.type, c.status, c.consumed, c.input, c.output, c.reason,
            c.cause, c.state, c.spec, self.now, None, self.now if c.status.terminal else None,
            c.first_scheduled_at or self.now,
            c.sub_workflow_id, None, c.domain, 0,
        )  # fmt: skip

    # What workers and people do

    def finish(
        self, ref: str, output: Any = None, status: str = "COMPLETED", iteration: str | None = None,
        cause: str | None = None, reason: str | None = None, decide: bool = True,
    ) -> None:  # fmt: skip
        """End the open task of a ref, and decide."""
        task = self.open(ref, iteration)
        self.now += timedelta(milliseconds=1)
        self.tasks[task.id] = replace(
            task, status=TaskStatus(status), output={} if output is None else output, ended_at=self.now, cause=cause,
            reason=reason,
        )  # fmt: skip
        if decide:
            self.step()

    def open(self, ref: str, iteration: str | None = None) -> TaskView:
        found = [
            t for t in self.tasks.values()
            if t.ref == ref and not t.status.terminal and (iteration is None or t.iteration == iteration)
        ]  # fmt: skip
        assert len(found) == 1, f"{ref}: {len(found)} open; open are {self.open_refs()}"
        return found[0]

    def open_refs(self) -> list[str]:
        """ref@iteration of open tasks that are no containers."""
        return sorted(
            t.ref + (f"@{t.iteration}" if t.iteration else "")
            for t in self.tasks.values()
            if not t.status.terminal and t.type not in _ENDED_BY_PASSES
        )

    def drain(self, outputs: dict[str, Any] | None = None, limit: int = 10_000) -> None:
        """Complete whatever is open until the run ends."""
        for _ in range(limit):
            if self.end:
                return
            ready = [t for t in self.tasks.values() if not t.status.terminal and t.type not in _ENDED_BY_PASSES]
            if not ready:
                assert self.stuck, "nothing is open and the run is not reported stuck"
                return
            for task in ready:
                if not self.end:
                    self.finish(task.ref, (outputs or {}).get(task.ref, {"of": task.ref}), iteration=task.iteration)
        raise AssertionError("the run does not end")

    def count(self, ref: str) -> int:
        return sum(t.ref == ref for t in self.tasks.values())

    def status(self, ref: str) -> str:
        task = self._newest(ref)
        return task.status.value if task else "-"

    def output(self, ref: str) -> Any:
        task = self._newest(ref)
        return task.output if task else None

    @property
    def ended(self) -> str:
        return self.end.status.value if self.end else "RUNNING"
