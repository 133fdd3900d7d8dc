"""The few threads in which the hot paths talk to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connections

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 3
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="hot")


async def in_thread(job: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a blocking job with a healthy connection of its own."""

    def run() -> R:
        close_old_connections()
        return job(*args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(_pool, run)


async def close() -> None:
    """End the threads and their connections."""
    await asyncio.gather(*(in_thread(connections.close_all) for _ in range(THREADS)))
    _pool.shutdown(wait=False)
