"""A run in memory on mocked results: the same engine, no database rows, no workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import Invalid
from orchestrator.scripts import evaluate_script
from orchestrator.services import environment
from workflows import payloads
from workflows.engine import compensation
from workflows.engine.blueprint import Blueprint
from workflows.engine.commands import Decision, EndRun, ScheduleTask, UpdateTask
from workflows.engine.decider import decide
from workflows.engine.state import State, TaskStatus, TaskView, WorkflowStatus, WorkflowView
from workflows.services.definitions import check
from workflows.services.revisions import blueprint_for, resolve_revision
from workflows.services.starting import StartRequest

MOST_PASSES = 2000


def simulate(request: StartRequest, given: dict[str, Any]) -> dict[str, Any]:
    """Conductor's WorkflowTestRequest: mocks by ref, one after the other; a task without a mock stays open."""
    problems = check(request.namespace, request.definition) if request.definition is not None else []
    if problems:
        raise Invalid(problems=[(f"workflowDef.{path}", message) for path, message in problems])
    with transaction():
        revision_id, _ = resolve_revision(request.namespace, request.name, request.version, request.definition)
        blueprint = blueprint_for([revision_id])[revision_id]
    mocks = _mocks(given.get("taskRefToMockOutput") or {})
    return Simulation(request, blueprint, mocks).run()


def _mocks(given: Any) -> dict[str, list[Any]]:
    """Mocks by ref; raises Invalid for another shape."""
    if not isinstance(given, dict):
        raise Invalid(problems=[("taskRefToMockOutput", f"expected an object, got {type(given).__name__}")])
    problems = [
        (f"taskRefToMockOutput.{ref}", "expected a list of objects whose output is an object")
        for ref, found in given.items()
        if not isinstance(found, list)
        or not all(isinstance(mock, dict) and isinstance(mock.get("output") or {}, dict) for mock in found)
    ]
    if problems:
        raise Invalid(problems=problems)
    return {ref: list(found) for ref, found in given.items()}


class Simulation:
    """A run in memory, driven step by step."""

    def __init__(self, request: StartRequest, blueprint: Blueprint, mocks: dict[str, list[Any]]) -> None:
        self.blueprint = blueprint
        self.mocks = mocks
        self.tasks: dict[UUID, TaskView] = {}
        self.end: EndRun | None = None
        self.undoing = False
        self.now = datetime.now(UTC)
        self.env = environment.values([request.namespace]).get(request.namespace, {})
        self.view = WorkflowView(
            id=new_id(), namespace=request.namespace, name=blueprint.name, version=request.version or 1,
            status=WorkflowStatus.RUNNING, input={**(blueprint.definition.get("inputTemplate") or {}), **request.input},
            output=None, variables=blueprint.definition.get("variables") or {}, correlation_id=request.correlation_id,
            priority=request.priority, parent_workflow_id=None, parent_task_id=None, task_to_domain={}, created_at=self.now,
            root_ended=False, has_any_task=False, depth=0, reason=None, created_by=request.created_by,
        )  # fmt: skip

    def run(self) -> dict[str, Any]:
        for _ in range(MOST_PASSES):
            decision = self.step()
            begun, self.undoing = self.undoing, False
            if self.end is not None or not (begun or self._answer() or decision.again):
                break
        status = self.end.status if self.end else WorkflowStatus.RUNNING
        return {
            "workflowId": str(self.view.id),
            "workflowName": self.view.name,
            "workflowVersion": self.view.version,
            "workflowDefinition": self.blueprint.definition,
            "status": status.value,
            "input": self.view.input,
            "output": self.end.output if self.end else {},
            "variables": self.view.variables,
            "reasonForIncompletion": (self.end.reason or "") if self.end else "",
            "tasks": [_shown(task) for task in self.tasks.values()],
        }

    def step(self) -> Decision:
        """One pass, applied."""
        decision = self._decide()
        self._apply(decision)
        return decision

    def _decide(self) -> Decision:
        loaded: frozenset[str] = frozenset()
        originals: dict[UUID, TaskView | None] = {}
        while True:
            rows = tuple(self.tasks.values())
            state = State(self.view, rows, loaded, self.now, self.env, new_id, originals, payloads.excess)
            decision = decide(self.blueprint, state, evaluate_script)
            if decision.original_after is not None:
                after = decision.original_after
                originals[after] = compensation.choose(rows, self.blueprint.undoable or (), after)
            elif not decision.needs:
                return decision
            loaded |= decision.needs

    def _apply(self, decision: Decision) -> None:
        for task_id in decision.consumed:
            self.tasks[task_id] = replace(self.tasks[task_id], consumed=True)
        for command in decision.commands:
            if isinstance(command, ScheduleTask):
                self.tasks[command.id] = _made(command, self.now)
            elif isinstance(command, UpdateTask):
                old = self.tasks[command.id]
                output = old.output if command.output is None else command.output
                self.tasks[command.id] = replace(
                    old, status=command.status, output=output, state=command.state or old.state,
                    consumed=command.consumed, reason=command.reason,
                )  # fmt: skip
            elif isinstance(command, EndRun):
                self._end(command)
        variables = self.view.variables if decision.variables is None else decision.variables
        self.view = replace(
            self.view, variables=variables, root_ended=decision.root_ended, has_any_task=bool(self.tasks)
        )

    def _end(self, command: EndRun) -> None:
        """The end of the run, or the beginning of its undoing."""
        undoable = command.undoable
        if undoable is None or compensation.choose(self.tasks.values(), undoable, compensation.NEWEST) is None:
            self.end = command
            return
        for task in list(self.tasks.values()):
            if not task.status.terminal:
                self.tasks[task.id] = replace(task, status=TaskStatus.CANCELED, consumed=True, ended_at=self.now)
        marker = compensation.marker(new_id(), command)
        self.tasks[marker.id] = _made(marker, self.now)
        self.undoing = True

    def _answer(self) -> bool:
        """Give each open task its next mock; whether any had one."""
        answered = False
        for task in list(self._open()):
            mocks = self.mocks.get(task.ref)
            if not mocks:
                continue
            mock = mocks.pop(0) if len(mocks) > 1 else mocks[0]
            self.now += timedelta(milliseconds=1)
            try:
                status = TaskStatus(str(mock.get("status") or "COMPLETED"))
            except ValueError:
                message = f"expected a task status, got {mock.get('status')!r}"
                raise Invalid(problems=[(f"taskRefToMockOutput.{task.ref}", message)]) from None
            self.tasks[task.id] = replace(
                task, status=status, output=mock.get("output") or {}, started_at=self.now, ended_at=self.now
            )
            answered = True
        return answered

    def _open(self) -> Iterable[TaskView]:
        return (t for t in self.tasks.values() if not t.status.terminal and t.type not in ("JOIN", "DO_WHILE", "COMPENSATION"))


def _made(c: ScheduleTask, now: datetime) -> TaskView:
    return TaskView(
        id=c.id, ref=c.ref, iteration=c.iteration, attempt=c.attempt, name=c.name, type=c.type, status=c.status,
        consumed=c.consumed, input=c.input, output=c.output, reason=c.reason, cause=c.cause, state=c.state, spec=c.spec,
        scheduled_at=now, started_at=None, ended_at=now if c.status.terminal else None, first_scheduled_at=now,
        sub_workflow_id=c.sub_workflow_id, worker_id=None, domain=c.domain, poll_count=0,
    )  # fmt: skip


def _shown(task: TaskView) -> dict[str, Any]:
    return {
        "taskId": str(task.id), "referenceTaskName": task.ref, "taskDefName": task.name,
        "taskType": task.name if task.type == "SIMPLE" else task.type, "status": task.status.value,
        "inputData": task.input or {}, "outputData": task.output or {}, "retryCount": task.attempt,
    }  # fmt: skip
