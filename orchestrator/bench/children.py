"""The processes of a crew; they import nothing of Django before they have set it up."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from typing import Any

_HTTP_WORKER = "bench-http"
IDLE_SECONDS = 0.5


def decide(gate: Any, ready: Any) -> None:
    """A decider: the loop of `run_decider`, still while the gate is shut."""
    _set_up()
    from orchestrator.db.hints import DECIDE
    from workflows.services.evaluation import evaluate_next_batch

    _run("decider", evaluate_next_batch, DECIDE, gate, ready)


def relay(gate: Any, ready: Any) -> None:
    """A relay: the loop of `run_relay`."""
    _set_up()
    from orchestrator.db.hints import OUTBOX
    from outbox.services.relay import deliver_next_batch

    _run("relay", deliver_next_batch, OUTBOX, gate, ready)


def work(gate: Any, ready: Any, queue: str, batch: int) -> None:
    """A worker."""
    _set_up()
    from orchestrator.bench.worker import work_once
    from orchestrator.db.hints import QUEUE

    _run("worker", lambda: work_once(queue, batch), QUEUE, gate, ready)


def work_over_http(url: str, queue: str, connections: int, batch: int, stop: Any) -> None:
    """Workers that poll and update over HTTP, a connection each; `batch` 1 is how the SDKs do it."""
    asyncio.run(_http_workers(url, queue, connections, batch, stop))


async def _http_workers(url: str, queue: str, connections: int, batch: int, stop: Any) -> None:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=connections)
    async with aiohttp.ClientSession(url, connector=connector) as session:
        polled = f"/api/tasks/poll/batch/{queue}?count={batch}&timeout=500&workerid={_HTTP_WORKER}"

        async def one_worker() -> None:
            while not stop.is_set():
                async with session.get(polled) as answer:
                    results = [_result(task) for task in await answer.json()]
                if not results:
                    continue
                path, body = ("/api/tasks", results[0]) if batch == 1 else ("/api/tasks/batch", results)
                async with session.post(path, json=body) as answer:
                    await answer.read()

        await asyncio.gather(*(one_worker() for _ in itertools.repeat(None, connections)))


def _result(task: dict[str, Any]) -> dict[str, Any]:
    return {
        "taskId": task["taskId"],
        "workflowInstanceId": task["workflowInstanceId"],
        "workerId": _HTTP_WORKER,
        "status": "COMPLETED",
        "outputData": {"ok": True},
    }


def _run(name: str, step: Callable[[], int], channel: str, gate: Any, ready: Any) -> None:
    """The loop that the command of this role has; its log is written, but goes nowhere."""
    from orchestrator.runtime.loop import Loop, run_loops
    from orchestrator.runtime.wakeup import Wakeup

    warm = False

    def gated() -> int:
        nonlocal warm
        if warm:
            return step() if gate.is_set() else 0
        step()
        warm = True
        ready.release()
        return 0

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    run_loops([Loop(name, gated, Wakeup(channel), idle_seconds=IDLE_SECONDS)])


def _set_up() -> None:
    import django

    django.setup()
