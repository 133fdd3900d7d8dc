"""A workflow, one run of it, and what workers and people do to it, told by references."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from dispatch.handing_out import opened
from dispatch.services import dispatching
from dispatch.system_tasks import RUNNERS, run_system_task
from tests import flows
from workflows.managers.task import StartedTask
from workflows.models import Execution, Task
from workflows.services import control, definitions, timers

ANN = {"actor": "ann"}
Spec = dict[str, Any]


def of(type_: str, ref: str, **fields: Any) -> Spec:
    """A task of a type."""
    return {"name": ref, "taskReferenceName": ref, "type": type_, **fields}


def wait(ref: str, **given: Any) -> Spec:
    return of("WAIT", ref, inputParameters=given)


def inline(ref: str, expression: str, **given: Any) -> Spec:
    return of("INLINE", ref, inputParameters={"evaluatorType": "javascript", "expression": expression, **given})


def switch(ref: str, value: str, cases: dict[str, list[Spec]], default: list[Spec] | None = None) -> Spec:
    return of(
        "SWITCH", ref, evaluatorType="value-param", expression="v", inputParameters={"v": value}, decisionCases=cases,
        defaultCase=default or [],
    )  # fmt: skip


def fork(ref: str, *branches: list[Spec], join: list[str] | None = None) -> list[Spec]:
    """A fork and its join `j`."""
    return [of("FORK_JOIN", ref, forkTasks=list(branches)), of("JOIN", "j", joinOn=join or [])]


def loop(ref: str, condition: str, *body: Spec, **fields: Any) -> Spec:
    return of("DO_WHILE", ref, loopCondition=condition, loopOver=list(body), **fields)


def times(ref: str, count: int, *body: Spec) -> Spec:
    return loop(ref, f"$.{ref}['iteration'] < {count}", *body)


class Story:
    """A registered workflow of these tasks and a run of it; SIMPLE tasks have queues of their own in each story."""

    def __init__(self, *tasks: Spec, input: Spec | None = None, policies: Spec | None = None, **fields: Any) -> None:
        self.tag = flows.unique("")
        for ref, policy in (policies or {}).items():
            definitions.register_tasks(flows.NAMESPACE, [{"name": self.queue(ref), "retryCount": 0, **policy}])
        self.name = flows.register(*[self._named(task) for task in tasks], **fields)
        self.run = flows.start(self.name, input)
        self.rest()

    def task(self, ref: str, **fields: Any) -> Spec:
        return of("SIMPLE", ref, **fields)

    def queue(self, ref: str) -> str:
        return f"{ref}{self.tag}"

    def _named(self, task: Spec) -> Spec:
        if task["type"] == "SIMPLE":
            return {**task, "name": self.queue(task["name"])}
        inner = {key: [self._named(t) for t in task[key]] for key in ("loopOver", "defaultCase") if key in task}
        if "decisionCases" in task:
            inner["decisionCases"] = {k: [self._named(t) for t in v] for k, v in task["decisionCases"].items()}  # type: ignore[assignment]
        if "forkTasks" in task:
            inner["forkTasks"] = [[self._named(t) for t in branch] for branch in task["forkTasks"]]  # type: ignore[list-item]
        return {**task, **inner}

    def rest(self) -> None:
        """Let the system come to rest: passes, deliveries, and our own workers' tasks."""
        for _ in range(100):
            flows.drain()
            if not self._work():
                return
        raise AssertionError("the run does not come to rest")

    def _work(self) -> int:
        found = dispatching.lease_system_tasks(sorted(RUNNERS), batch=100, worker_id="system")
        if found:
            dispatching.report([run_system_task(opened(task)) for task in found], strict=True)
        return len(found)

    def poll(self, ref: str, worker_id: str = "w") -> list[StartedTask]:
        """What a worker of this task is given."""
        return flows.lease(self.queue(ref), worker_id=worker_id)

    def end(self, ref: str, output: Spec | None = None, status: str = "COMPLETED") -> StartedTask:
        """A worker takes the one task that waits and ends it."""
        (task,) = self.poll(ref)
        dispatching.report(
            [
                dispatching.TaskReport(
                    task.id,
                    task.workflow_id,
                    status,
                    lease_token=task.lease_token,
                    output=output or {},
                    reason=f"{ref} broke",
                )
            ],
            strict=True,
        )
        self.rest()
        return task

    def fail(self, ref: str, *, terminal: bool = False) -> StartedTask:
        return self.end(ref, status="FAILED_WITH_TERMINAL_ERROR" if terminal else "FAILED")

    def signal(self, ref: str, output: Spec | None = None, *, iteration: str | None = None) -> UUID | None:
        """A person ends the open task of a reference."""
        ended = control.complete_task(flows.NAMESPACE, self.run, ref, "COMPLETED", output, iteration=iteration, **ANN)
        self.rest()
        return ended

    def fire(self) -> None:
        """A timekeeper fires what is due."""
        timers.fire_next_batch()
        self.rest()

    def execution(self) -> Execution:
        return Execution.objects.get(id=self.run)

    @property
    def status(self) -> str:
        return flows.status(self.run)

    def rows(self, ref: str | None = None) -> list[Task]:
        """Attempts in the order they were made."""
        found = Task.objects.filter(workflow_id=self.run).order_by("id")
        return list(found.filter(ref=ref) if ref else found)

    def row(self, ref: str) -> Task:
        """The newest attempt of a reference."""
        return self.rows(ref)[-1]

    def said(self) -> list[str]:
        """ref@iteration:status of every attempt, in the order they were made."""
        return [f"{t.ref}{'@' + t.iteration if t.iteration else ''}:{t.status}" for t in self.rows()]

    def open(self) -> set[str]:
        """What has not ended."""
        return {
            f"{t.ref}{'@' + t.iteration if t.iteration else ''}"
            for t in self.rows()
            if t.status in ("SCHEDULED", "IN_PROGRESS")
        }

    def child(self, ref: str) -> Execution:
        """The run that a SUB_WORKFLOW task waits for."""
        return Execution.objects.get(id=self.row(ref).sub_workflow_id)
