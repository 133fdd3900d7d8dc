"""Definitions for tests, and the steps that drive their runs through the real services."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from dispatch.services import dispatching
from dispatch.services.dispatching import TaskReport
from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from outbox.services import relay
from tests.support import eventually
from workflows.managers.task import StartedTask
from workflows.models import Execution, Task, Timer
from workflows.services import definitions, evaluation, starting, timers
from workflows.services.starting import StartRequest

NAMESPACE = "default"


def simple(ref: str, name: str | None = None, **fields: Any) -> dict[str, Any]:
    """A SIMPLE task."""
    return {"name": name or ref, "taskReferenceName": ref, "type": "SIMPLE", **fields}


def fork(ref: str, *branches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A fork and its join `ref_join`, which waits for every branch."""
    return [
        {"name": ref, "taskReferenceName": ref, "type": "FORK_JOIN", "forkTasks": list(branches)},
        {"name": f"{ref}_join", "taskReferenceName": f"{ref}_join", "type": "JOIN", "joinOn": []},
    ]


def child(ref: str, name: str, **fields: Any) -> dict[str, Any]:
    """A SUB_WORKFLOW task."""
    return {
        "name": ref, "taskReferenceName": ref, "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": name}, **fields,
    }  # fmt: skip


def unique(prefix: str) -> str:
    """A name no other test uses."""
    return f"{prefix}_{new_id().hex[-12:]}"


def register(*tasks: dict[str, Any], name: str | None = None, **fields: Any) -> str:
    """Register a definition; returns its name."""
    name = name or unique("flow")
    definitions.register(NAMESPACE, {"name": name, "version": 1, "tasks": list(tasks), **fields}, overwrite=True)
    return name


def start(name: str, input: dict[str, Any] | None = None, **fields: Any) -> UUID:
    """Start a run."""
    return starting.start(StartRequest(name, input=input or {}, **fields))


def drain(limit: int = 1000) -> None:
    """Evaluate and deliver until nothing is left to do now."""
    for _ in range(limit):
        if not evaluation.evaluate_next_batch() + relay.deliver_next_batch():
            return
    raise AssertionError("the system does not come to rest")


def lease(queue: str, batch: int = 100, worker_id: str = "w", *, renewed: bool = False) -> list[StartedTask]:
    """Lease tasks of a queue."""
    return dispatching.lease_tasks(NAMESPACE, queue, batch=batch, worker_id=worker_id, renewed=renewed)


def lease_all(queue: str, count: int) -> list[StartedTask]:
    """Lease `count` tasks of a queue, as they become ready."""
    found: list[StartedTask] = []

    def enough() -> bool:
        found.extend(lease(queue, count - len(found)))
        return len(found) == count

    eventually(enough)
    return found


def complete(tasks: Iterable[StartedTask], output: dict[str, Any] | None = None, status: str = "COMPLETED") -> None:
    """Report tasks, all in one transaction."""
    reports = [
        TaskReport(task.id, task.workflow_id, status, lease_token=task.lease_token, output=output or {"by": task.ref})
        for task in tasks
    ]
    dispatching.report(reports, strict=True)


def finish(queues: Iterable[str], until: Callable[[], bool] | None = None) -> None:
    """Work queues off until nothing moves any more."""
    queues = list(queues)
    for _ in range(1000):
        drain()
        done = [task for queue in queues for task in lease(queue)]
        if not done:
            return
        complete(done)
    raise AssertionError("the run does not come to rest")


def hurry(timer: Timer) -> None:
    """Let a deadline come now: one that is released from quarantine is due at once."""
    with transaction():
        Timer.sql.record_failure(timer.id, "hurried", max_attempts=1)
        Timer.sql.release(timer.id)


def time_out() -> None:
    """Wait until a deadline has passed, and let it fire."""
    eventually(lambda: timers.fire_next_batch() + dispatching.reclaim_next_batch() > 0)
    drain()


def status(workflow_id: UUID) -> str:
    """The run's status."""
    return str(Execution.objects.get(id=workflow_id).status)


def statuses(workflow_id: UUID) -> dict[str, str]:
    """ref (with its iteration) -> status, of the newest attempts."""
    tasks = Task.objects.filter(workflow_id=workflow_id).order_by("attempt")
    return {task.ref + (f"@{task.iteration}" if task.iteration else ""): task.status for task in tasks}
