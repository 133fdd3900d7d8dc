"""Replays a recorded run through the engine: the same ends of tasks must give the same tasks and the same end.

The history says what ended in which order, the rows with which output. What ended between two passes is replayed one
after the other, so a value that depends on such an order may differ.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from orchestrator.db.transactions import transaction
from orchestrator.errors import IllegalState, NotFound
from orchestrator.masking import mask
from workflows.engine.book import ENDED_BY_PASSES
from workflows.engine.commands import Decision
from workflows.engine.state import TaskStatus, TaskView, WorkflowStatus
from workflows.managers.history import Event
from workflows.models import Execution, HistoryEvent, Task
from workflows.services.revisions import blueprint_for
from workflows.services.simulation import Simulation
from workflows.services.starting import StartRequest

_ACTIONS = frozenset(
    {"workflow.retried", "workflow.rerun", "workflow.restarted", "workflow.variables_updated", "task.skip_requested"}
)
"""Interventions that make, wipe or change what the engine alone decides."""
_READ = 1000
Identity = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the replay and the record part: `what` of a task or of the run."""

    where: str
    what: str
    recorded: Any
    replayed: Any


def replay(workflow_id: UUID) -> list[Difference]:
    """The differences between a run and its replay, none when the engine decides the same again.

    Raises NotFound, or IllegalState for a run in which somebody intervened.
    """
    with transaction():
        run = Execution.objects.filter(id=workflow_id).first()
        if run is None:
            raise NotFound(f"No such workflow found by id: {workflow_id}", workflow_id=workflow_id)
        events = _events(workflow_id)
        rows = {_identity(task): task for task in Task.objects.filter(workflow_id=workflow_id)}
        blueprint = blueprint_for([run.revision_id]).get(run.revision_id)
    if blueprint is None:
        raise NotFound(f"The revision of workflow {workflow_id} does not exist", workflow_id=workflow_id)
    acted = sorted({event.type for event in events} & _ACTIONS)
    if acted:
        raise IllegalState(f"Workflow {workflow_id} cannot be replayed: its history has {', '.join(acted)}.")
    request = StartRequest(
        run.name, run.version, run.input, run.namespace, run.correlation_id, run.priority, created_by=run.created_by
    )
    found = _Replay(run, Simulation(request, blueprint, {}), rows, events).differences()
    return [_shown(difference, blueprint.masked) for difference in found]


def _shown(found: Difference, masked: frozenset[str]) -> Difference:
    """A difference as readers see it: that payloads differ is told, not in what they hide."""
    return replace(found, recorded=mask(found.recorded, masked), replayed=mask(found.replayed, masked))


def _events(workflow_id: UUID) -> list[Event]:
    found: list[Event] = []
    while True:
        page = HistoryEvent.sql.read(workflow_id, after=found[-1].seq if found else 0, batch=_READ)
        found += page
        if len(page) < _READ:
            return found


def _identity(task: Task | TaskView) -> Identity:
    return task.ref, task.iteration, task.attempt


class _Replay:
    """Drives a simulation by what was recorded."""

    def __init__(self, run: Execution, simulation: Simulation, rows: dict[Identity, Task], events: list[Event]) -> None:
        self.run = run
        self.simulation = simulation
        self.rows = rows
        self.ends = deque(event for event in events if event.task_id is not None and _terminal(event))
        self.found: list[Difference] = []
        self.made: set[Identity] = set()
        simulation.now = run.created_at
        simulation.view = replace(
            simulation.view, id=run.id, input=run.input, task_to_domain=run.task_to_domain, depth=run.depth,
            parent_workflow_id=run.parent_workflow_id, parent_task_id=run.parent_task_id, created_at=run.created_at,
        )  # fmt: skip

    def differences(self) -> list[Difference]:
        simulation = self.simulation
        while simulation.end is None:
            decision = simulation.step()
            self._match()
            if simulation.end is None and not self._goes_on(decision) and not self._feed():
                break
        for identity in self.rows.keys() - self.made:
            self._differ(identity, "task", "made", "not made")
        for task in simulation.tasks.values():
            self._compare_end(task)
        self._compare_run()
        return sorted(self.found, key=lambda found: (found.where, found.what))

    def _goes_on(self, decision: Decision) -> bool:
        begun, self.simulation.undoing = self.simulation.undoing, False
        return begun or decision.again

    def _feed(self) -> bool:
        """End the next task that something other than a pass ended; whether there was one."""
        while self.ends:
            event = self.ends.popleft()
            task = self.simulation.tasks.get(event.task_id) if event.task_id else None
            if task is None or task.status.terminal or task.type in ENDED_BY_PASSES:
                continue
            row = self.rows[_identity(task)]
            self.simulation.now = event.at
            self.simulation.tasks[task.id] = replace(
                task, status=TaskStatus(event.data["status"]), output=row.output, reason=row.reason, cause=row.cause,
                started_at=row.started_at, ended_at=row.ended_at, worker_id=row.worker_id,
            )  # fmt: skip
            return True
        return False

    def _match(self) -> None:
        """Give the tasks that a pass made the ids of the recorded ones, and compare what they were made with."""
        for task in [task for task in self.simulation.tasks.values() if _identity(task) not in self.made]:
            identity = _identity(task)
            self.made.add(identity)
            row = self.rows.get(identity)
            if row is None:
                self._differ(identity, "task", "not made", "made")
                continue
            for name in ("name", "type"):
                if getattr(row, name) != getattr(task, name):
                    self._differ(identity, name, getattr(row, name), getattr(task, name))
            ids = {str(task.id): str(row.id), str(task.sub_workflow_id): str(row.sub_workflow_id)}
            given, output = _renamed(task.input, ids), _renamed(task.output, ids)
            if given != row.input:
                self._differ(identity, "input", row.input, given)
            del self.simulation.tasks[task.id]
            self.simulation.tasks[row.id] = replace(
                task, id=row.id, input=given, output=output, sub_workflow_id=row.sub_workflow_id,
                scheduled_at=row.scheduled_at, first_scheduled_at=row.first_scheduled_at,
            )  # fmt: skip

    def _compare_end(self, task: TaskView) -> None:
        row = self.rows.get(_identity(task))
        if row is None or not task.status.terminal:
            return
        if row.status != task.status.value and row.status != TaskStatus.CANCELED:
            self._differ(_identity(task), "status", row.status, task.status.value)
        if task.output != row.output and row.status == task.status.value:
            self._differ(_identity(task), "output", row.output, task.output)

    def _compare_run(self) -> None:
        end, status = self.simulation.end, self.run.status
        if end is None:
            if status in (WorkflowStatus.COMPLETED, WorkflowStatus.FAILED):
                self.found.append(Difference("run", "status", status, WorkflowStatus.RUNNING.value))
            return  # another end may have come from outside
        if end.status.value != status:
            self.found.append(Difference("run", "status", status, end.status.value))
        elif end.output != self.run.output:
            self.found.append(Difference("run", "output", self.run.output, end.output))
        if self.simulation.view.variables != self.run.variables:
            self.found.append(Difference("run", "variables", self.run.variables, self.simulation.view.variables))

    def _differ(self, identity: Identity, what: str, recorded: Any, replayed: Any) -> None:
        ref, iteration, attempt = identity
        where = f"task {ref}" + (f", turn {iteration}" if iteration else "") + f", attempt {attempt}"
        self.found.append(Difference(where, what, recorded, replayed))


def _terminal(event: Event) -> bool:
    try:
        return TaskStatus(str(event.data.get("status"))).terminal
    except ValueError:
        return False


def _renamed(value: Any, ids: dict[str, str]) -> Any:
    """A value in which newly minted ids are the recorded ones."""
    text = json.dumps(value)
    for minted, recorded in ids.items():
        text = text.replace(minted, recorded) if minted != "None" else text
    return json.loads(text)
