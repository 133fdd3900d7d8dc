"""Python task functions: `@task("name")`, and the worker that leases, runs, renews and reports them in batches."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import getpid
from typing import Any
from uuid import UUID

import structlog
from django.db import DataError, connections

from dispatch.handing_out import REFUSED, opened, refusal
from dispatch.services import dispatching
from dispatch.services.dispatching import TaskReport
from dispatch.services.polling import note_polls
from orchestrator.conf import conf
from orchestrator.errors import Invalid, NotFound
from workflows.managers.task import StartedTask

log = structlog.get_logger(__name__)


class NonRetryable(Exception):
    """Raised by a task function: the task ends FAILED_WITH_TERMINAL_ERROR and is not tried again."""


class InProgress(Exception):
    """Raised by a task function: hand the task out again after `callback_seconds`, keeping `output`."""

    def __init__(self, callback_seconds: int = 30, output: dict[str, Any] | None = None) -> None:
        super().__init__(f"in progress, call back in {callback_seconds} s")
        self.callback_seconds = callback_seconds
        self.output = output


@dataclass(frozen=True, slots=True)
class TaskFunction:
    """A registered function; it takes the task's input as keyword arguments, or the whole task."""

    name: str
    run: Callable[..., Any]
    domain: str | None = None
    whole: bool = False
    concurrency: int | None = None

    @property
    def queue(self) -> str:
        return f"{self.domain}:{self.name}" if self.domain else self.name

    def call(self, started: StartedTask) -> Any:
        result = self.run(started) if self.whole else self.run(**(started.input or {}))
        return asyncio.run(result) if inspect.iscoroutine(result) else result


REGISTRY: dict[str, TaskFunction] = {}


def task(
    name: str, *, domain: str | None = None, concurrency: int | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function, plain or async, as the worker of a task; `concurrency` bounds it in each process.

    It gets the input as keyword arguments, or the StartedTask if its only parameter is annotated so. A dict it
    returns is the output; any other value becomes {"result": value}. An exception fails the attempt.
    """
    if concurrency is not None and concurrency < 1:
        raise ValueError(f"concurrency of task {name!r}: expected 1 or more, got {concurrency}")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = list(inspect.signature(function).parameters.values())
        whole = len(parameters) == 1 and parameters[0].annotation in (StartedTask, "StartedTask")
        found = TaskFunction(name, function, domain, whole, concurrency)
        REGISTRY[found.queue] = found
        return function

    return register


def run_task(started: StartedTask, call: Callable[[StartedTask], Any]) -> TaskReport:
    """Run a task and say how it ended; whatever it raises becomes a report."""
    common: dict[str, Any] = {
        "task_id": started.id,
        "workflow_id": started.workflow_id,
        "lease_token": started.lease_token,
    }
    try:
        result = call(opened(started))
    except REFUSED as error:
        return refusal(started, error)
    except InProgress as progress:
        return TaskReport(
            status="IN_PROGRESS", callback_seconds=progress.callback_seconds, output=progress.output, **common
        )
    except NonRetryable as error:
        return TaskReport(status="FAILED_WITH_TERMINAL_ERROR", reason=_reason(error), output={}, **common)
    except Exception as error:
        # The message may hold a secret; it goes to the run's record, where secrets are taken out.
        log.warning("task_failed", task=started.name, task_id=str(started.id), error=type(error).__name__)
        return TaskReport(status="FAILED", reason=_reason(error), output={}, **common)
    if isinstance(result, TaskReport):
        return result
    return TaskReport(status="COMPLETED", output=result if isinstance(result, dict) else {"result": result}, **common)


def _reason(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:500]


class Worker:
    """Leases from queues, runs tasks in threads, renews their leases, and reports results together."""

    def __init__(
        self,
        lease: Callable[[int, str], list[StartedTask]],
        call: Callable[[StartedTask], Any],
        *,
        threads: int = 8,
        batch: int | None = None,
        worker_id: str | None = None,
        on_ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.lease = lease
        self.call = call
        self.threads = threads
        self.batch = batch or threads
        self.on_ended = on_ended
        self.worker_id = worker_id or f"{socket.gethostname()}-{getpid()}"
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="task")
        self._running: dict[UUID, tuple[StartedTask, Future[TaskReport]]] = {}
        self._bell = threading.Event()
        self._renewed = time.monotonic()

    def step(self) -> int:
        """Report what has ended, lease what there is room for; returns how much it did. `on_ended` asks for the next."""
        done = self._report()
        room = min(self.batch, self.threads - len(self._running))
        started = self.lease(room, self.worker_id) if room > 0 else []
        for one in started:
            future = self._pool.submit(self._run, one)
            self._running[one.id] = (one, future)
            future.add_done_callback(self._ring)
        self._renew()
        return done + len(started)

    def running(self) -> Counter[str]:
        """Queue -> its tasks that run here now."""
        return Counter(_queue(one) for one, _ in self._running.values())

    def drain(self) -> None:
        """Let running tasks end and report them; nothing new is leased."""
        while self._running:
            self._bell.wait(0.1)
            self._bell.clear()
            self._report()
            self._renew()
        self._pool.shutdown()

    def _run(self, started: StartedTask) -> TaskReport:
        try:
            return run_task(started, self.call)
        finally:
            connections.close_all()

    def _ring(self, _: Future[TaskReport]) -> None:
        """Once the result can be read: rung earlier, the loop could look, find nothing and wait."""
        self._bell.set()
        self.on_ended()

    def _report(self) -> int:
        ended = [(one, future) for one, future in self._running.values() if future.done()]
        if not ended:
            return 0
        reports = [future.result() for _, future in ended]
        try:
            dispatching.report(reports, strict=False)
        except (NotFound, Invalid, DataError):
            for report in reports:
                _report_alone(report)
        for one, _ in ended:
            del self._running[one.id]
        return len(ended)

    def _renew(self) -> None:
        """Renew at a third of the lease. A lost lease needs nothing here: its late result will be refused."""
        if not self._running or time.monotonic() - self._renewed < conf().LEASE_SECONDS / 3:
            return
        self._renewed = time.monotonic()
        dispatching.renew_leases([(one.id, one.lease_token) for one, _ in self._running.values()])


def _report_alone(report: TaskReport) -> None:
    """One result that cannot be kept must not hold up the others of its batch. [INV-13]"""
    try:
        dispatching.report([report], strict=False)
    except NotFound:
        log.warning("task_gone", task_id=str(report.task_id))  # its run was removed while it worked
    except (Invalid, DataError) as error:
        reason = f"The result cannot be kept: {error}"[:500]
        log.warning("result_refused", task_id=str(report.task_id), error=reason)
        ended = replace(report, status="FAILED_WITH_TERMINAL_ERROR", output={}, reason=reason, logs=())
        dispatching.report([ended], strict=False)


def lease_registered(
    namespace: str, room: int, worker_id: str, running: Counter[str], queues: Sequence[str] | None = None
) -> list[StartedTask]:
    """Lease for the registered functions, one queue after the other, starting with another one each time.

    `running` counts what a function's `concurrency` bounds; `queues` leaves the other functions out.
    """
    functions = [function for queue, function in REGISTRY.items() if queues is None or queue in queues]
    note_polls(namespace, [(function.name, function.domain) for function in functions], worker_id)
    first = int(time.monotonic() * 10) % max(1, len(functions))
    found: list[StartedTask] = []
    for function in functions[first:] + functions[:first]:
        free = room - len(found)
        if function.concurrency is not None:
            free = min(free, function.concurrency - running[function.queue])
        if free > 0:
            found += dispatching.lease_tasks(namespace, function.queue, batch=free, worker_id=worker_id, renewed=True)
    return found


def call_registered(started: StartedTask) -> Any:
    """Run the function registered for a task."""
    return REGISTRY[_queue(started)].call(started)


def _queue(started: StartedTask) -> str:
    return f"{started.domain}:{started.name}" if started.domain else started.name
