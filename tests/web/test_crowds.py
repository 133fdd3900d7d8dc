"""One web process under a crowd: parked polls cost memory and nothing else, and every websocket sees a whole history."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar
from uuid import UUID

import aiohttp
import psutil
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections

from dispatch.models import WorkerPoll
from dispatch.native.threads import THREADS
from tests import flows
from tests.processes import Processes
from tests.support import eventually
from workflows.models import HistoryEvent

pytestmark = [pytest.mark.e2e, pytest.mark.stress, pytest.mark.timeout(180)]
T = TypeVar("T")
POLLS, QUEUES = 1000, 10
SOCKETS, STEPS = 500, 8
MOST_BYTES = 150 * 1024 * 1024


@pytest.fixture
def web(committed: None) -> Iterator[Processes]:
    with Processes(OSTINATO_DEMO_OPEN="true") as processes:
        processes.start_web()
        yield processes


def in_thread(job: Callable[..., T], *given: Any) -> Awaitable[T]:
    """A step of the test itself, in the one thread that `played` closes the connection of."""
    return sync_to_async(job, thread_sensitive=True)(*given)


def played(crowd: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def play() -> T:
        try:
            return await crowd()
        finally:
            await in_thread(connections.close_all)

    return asyncio.run(play())


def resident(web: Processes) -> int:
    """Bytes of the process that serves."""
    return max(child.memory_info().rss for child in psutil.Process(web.running["web"].pid).children(recursive=True))


def backends() -> tuple[int, int]:
    """Connections to the database beside ours, and how many of them are in a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%') FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        found: tuple[int, int] = cursor.fetchone()
    return found


def session(web: Processes) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        f"http://127.0.0.1:{web.port}", connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=90)
    )


def test_a_thousand_parked_polls(web: Processes, record_property: Callable[[str, object], None]) -> None:
    names = [flows.unique("parked") for _ in range(QUEUES)]
    width = POLLS // QUEUES
    definitions = [flows.register(*flows.fork("f", *[[flows.simple(f"b{i}", q)] for i in range(width)])) for q in names]
    idle = resident(web)

    def release() -> None:
        for name in definitions:
            flows.start(name)
        flows.drain()

    async def crowd() -> tuple[list[str], dict[str, object]]:
        async with session(web) as client:

            async def poll(number: int) -> str:
                path = f"/api/tasks/poll/batch/{names[number % QUEUES]}?workerid=w{number}&count=1&timeout=30000"
                async with client.get(path) as answer:
                    (task,) = await answer.json()
                    return str(task["taskId"])

            before, _ = await in_thread(backends)
            polls = [asyncio.create_task(poll(number)) for number in range(POLLS)]
            await in_thread(eventually, lambda: WorkerPoll.objects.count() == POLLS, 25)
            assert not any(task.done() for task in polls)
            parked, (connections, held) = resident(web), await in_thread(backends)
            assert connections <= before + THREADS, "threads have connections, polls have none"
            assert held == 0
            begun = time.monotonic()
            await in_thread(release)
            started = time.monotonic()
            found = await asyncio.gather(*polls)
            seconds = {"started": round(started - begun, 2), "answered": round(time.monotonic() - started, 2)}
            return found, {"idle_mb": idle >> 20, "parked_mb": parked >> 20, "connections": connections, **seconds}

    found, figures = played(crowd)
    figures["after_mb"] = resident(web) >> 20
    print(f"\n{POLLS} parked polls: {figures}")
    record_property("parked", str(figures))
    assert len(set(found)) == POLLS, "each got a task of its own"
    assert resident(web) < MOST_BYTES


def test_five_hundred_websockets_on_one_run(web: Processes, record_property: Callable[[str, object], None]) -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(*[flows.simple(f"t{number}", queue) for number in range(STEPS)]))
    flows.drain()
    opened = asyncio.Event()
    waiting = {"sockets": SOCKETS}

    def step() -> None:
        flows.complete(flows.lease_all(queue, 1))
        flows.drain()

    async def watch(client: aiohttp.ClientSession, after: int) -> tuple[list[int], int | None]:
        """The seqs that a reader saw, and the code that the server closed with."""
        address = f"/ws/executions/{run}/?after={after}"
        async with client.ws_connect(address, headers={"Origin": f"http://127.0.0.1:{web.port}"}) as socket:
            seen = []
            async for message in socket:
                seen.append(int(message.json()["seq"]))
                if len(seen) == 1:
                    waiting["sockets"] -= 1
                    if not waiting["sockets"]:
                        opened.set()
            return seen, socket.close_code

    async def crowd() -> tuple[list[tuple[list[int], int | None]], dict[str, object]]:
        async with session(web) as client:
            begun = time.monotonic()
            readers = [asyncio.create_task(watch(client, number % 2)) for number in range(SOCKETS)]
            await asyncio.wait_for(opened.wait(), 60)
            ready = time.monotonic()
            for _ in range(STEPS):
                await in_thread(step)
            stepped = time.monotonic()
            found = await asyncio.gather(*readers)
            figures: dict[str, object] = {
                "opened_s": round(ready - begun, 2), "stepped_s": round(stepped - ready, 2),
                "closed_s": round(time.monotonic() - stepped, 2), "mb": resident(web) >> 20,
            }  # fmt: skip
            return found, figures

    found, figures = played(crowd)
    last = _last_seq(run)
    print(f"\n{SOCKETS} websockets, {last} events each: {figures}")
    record_property("websockets", str(figures))
    assert flows.status(run) == "COMPLETED"
    for number, (seen, code) in enumerate(found):
        assert (seen, code) == (list(range(number % 2 + 1, last + 1)), 1000)


def _last_seq(run: UUID) -> int:
    return int(HistoryEvent.objects.filter(workflow_id=run).order_by("-seq").values_list("seq", flat=True)[0])
