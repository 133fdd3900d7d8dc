"""Prometheus metrics of this process; under the supervisor those of all processes together."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector  # type: ignore[no-untyped-call]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"

LOOP_ITEMS = Counter("ostinato_loop_items_total", "Items that a loop's steps dealt with.", ["loop"])
LOOP_STEPS = Counter("ostinato_loop_steps_total", "Steps by outcome: worked, idle, failed.", ["loop", "outcome"])
LOOP_SECONDS = Histogram(
    "ostinato_loop_step_seconds",
    "Duration of a loop's steps that did something.",
    ["loop"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
LATENESS = Histogram(
    "ostinato_timer_lateness_seconds", "How long after its time a deadline fired.", ["kind"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600),
)  # fmt: skip
HTTP_REQUESTS = Counter("ostinato_http_requests_total", "HTTP requests by method and status.", ["method", "status"])


def render() -> bytes:
    """The text that `/metrics` answers with."""
    if _MULTIPROCESS not in os.environ:
        return generate_latest()
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
