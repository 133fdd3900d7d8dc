"""Plans of the statements that the services send, on tables of real size: none may read a large table whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import psycopg

from dispatch.services import dispatching
from dispatch.services.dispatching import TaskReport
from orchestrator.bench.crew import QUEUE_NAME
from orchestrator.bench.worker import WORKER, work_once
from orchestrator.conf import conf
from orchestrator.db.sql import OBSERVERS, load
from outbox.services.relay import deliver_next_batch
from workflows.models import Execution, Task
from workflows.services import control
from workflows.services.evaluation import evaluate_next_batch
from workflows.services.starting import StartRequest, start
from workflows.services.timers import fire_next_batch

LARGE = 5000
"""Rows from which on a table may not be read whole; below, that can be the quickest way."""
_APPS = ("workflows", "dispatch", "outbox")
_INSTRUMENTS = {"invariants.sql", "measuring.sql"}


@dataclass(frozen=True, slots=True)
class Plan:
    """How a statement is run; `scanned` names the large tables that it reads whole."""

    statement: str
    cost: float
    scanned: tuple[str, ...]


def check_plans(admin: psycopg.Connection[Any]) -> list[Plan]:
    """The plan of every statement that the services sent, with the parameters of its last call."""
    sent = _sent_by(_exercise)
    large = {row[0] for row in admin.execute("SELECT relname FROM pg_class WHERE reltuples > %s", [LARGE])}
    return [_plan(admin, name, text, sent[name], large) for name, text in sorted(_statements()) if name in sent]


def _statements() -> Iterator[tuple[str, str]]:
    for app in _APPS:
        for path in files(app).joinpath("sql").iterdir():
            if path.name.endswith(".sql") and path.name not in _INSTRUMENTS:
                yield from ((found.name, found.text) for found in load(app, path.name).statements.values())


def _plan(admin: psycopg.Connection[Any], name: str, text: str, params: dict[str, Any], large: set[str]) -> Plan:
    row = psycopg.ClientCursor(admin).execute(f"EXPLAIN (FORMAT JSON) {text}", params).fetchone()
    assert row is not None
    root = (json.loads(row[0]) if isinstance(row[0], str) else row[0])[0]["Plan"]
    scanned = {node["Relation Name"] for node in _nodes(root) if node["Node Type"] == "Seq Scan"}
    return Plan(name, root["Total Cost"], tuple(sorted(scanned & large)))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _sent_by(act: Callable[[], None]) -> dict[str, dict[str, Any]]:
    sent: dict[str, dict[str, Any]] = {}

    def note(name: str, params: dict[str, Any]) -> None:
        sent[name] = params

    OBSERVERS.append(note)
    try:
        act()
    finally:
        OBSERVERS.remove(note)
    return sent


def _exercise() -> None:
    """What a system does all day: starts, passes, leases, heartbeats, reports, deadlines, children, controls."""
    namespace = conf().DEFAULT_NAMESPACE
    given = {"id": 1, "who": "Ann", "amount": 200, "text": "y"}
    for number in range(50):
        key = f"bench-{number}"
        start(StartRequest("bench_mixed", namespace=namespace, input=given, idempotency_key=key))
        start(StartRequest("bench_fan_100", namespace=namespace))
    for _ in range(10):
        evaluate_next_batch()
        deliver_next_batch()
        fire_next_batch()
        dispatching.reclaim_next_batch()
        work_once(QUEUE_NAME, 50)
    Task.sql.find_awaiting(namespace, "bench")
    held = dispatching.lease_tasks(namespace, QUEUE_NAME, batch=50, worker_id=WORKER)
    leases = [(task.id, task.lease_token) for task in held]
    dispatching.renew_leases(leases)
    first, *others = held
    waiting = TaskReport(first.id, first.workflow_id, "IN_PROGRESS", lease_token=first.lease_token, callback_seconds=60)
    dispatching.report([waiting], strict=True)
    dispatching.release_tasks(leases[1:])
    dispatching.ready([(namespace, QUEUE_NAME)])
    dispatching.find_tasks([first.id, *(task.id for task in others)])
    dispatching.append_logs(first.id, ["at work"])
    run = Execution.objects.filter(name="bench_fan_100", ended_at=None).order_by("-id").first()
    assert run is not None
    for action in ("pause", "resume", "terminate"):
        control.bulk(namespace, action, [run.id], actor="bench")
    evaluate_next_batch()
