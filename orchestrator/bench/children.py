"""The processes of a workload; they import nothing of Django before they have set it up."""

from __future__ import annotations

import resource
import time
from typing import Any


def decide(_: Any, batch: int, stop: Any, ready: Any, cpu: Any) -> None:
    """A decider, until it is stopped; then its CPU seconds."""
    _prepare(batch)
    from workflows.services.evaluation import evaluate_next_batch

    ready.wait(60)
    before = cpu_seconds()
    while not stop.is_set():
        if not evaluate_next_batch():
            time.sleep(0.001)
    cpu.put(cpu_seconds() - before)


def work(queue: str, batch: int, stop: Any, ready: Any, cpu: Any) -> None:
    """A worker, until it is stopped; then its CPU seconds."""
    _prepare(batch)
    from dispatch.services.dispatching import TaskReport, lease_tasks, report
    from orchestrator.conf import conf

    ready.wait(60)
    before = cpu_seconds()
    while not stop.is_set():
        tasks = lease_tasks(conf().DEFAULT_NAMESPACE, queue, batch=batch, worker_id="bench")
        if not tasks:
            time.sleep(0.001)
            continue
        done = {"ok": True}
        report(
            [TaskReport(t.id, t.workflow_id, "COMPLETED", lease_token=t.lease_token, output=done) for t in tasks],
            strict=False,
        )
    cpu.put(cpu_seconds() - before)


def cpu_seconds() -> float:
    """CPU this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _prepare(batch: int) -> None:
    import django

    django.setup()
    from orchestrator.conf import conf

    object.__setattr__(conf(), "DECIDE_BATCH", batch)
