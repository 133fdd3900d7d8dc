"""The bare pipeline: the least that any orchestrator on PostgreSQL writes, in its quickest shape.

The same rows, durability, payloads and batches as the engine, with no language, no checks and no product around them:
what is measured beside it is read as a ratio, which other load on the machine does not move.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import psycopg

from orchestrator.bench.meters import Figures, Meter
from orchestrator.db.sql import load

_SPAWN = multiprocessing.get_context("spawn")
_SQL = {name: statement.text for name, statement in load("orchestrator.bench", "bare.sql").statements.items()}
_MADE, _DONE = 1, 3
_PAUSE = 0.001


@dataclass(frozen=True, slots=True)
class Shape:
    """What each run does: `steps` one after the other, or `fan` at once and then one that joins them."""

    runs: int
    steps: int = 5
    fan: int = 0
    payload: int = 40

    @property
    def refs(self) -> list[str]:
        return [f"f{i}" for i in range(self.fan)] + ["join"] if self.fan else [f"s{i}" for i in range(self.steps)]

    def next(self, known: dict[str, int]) -> list[str] | None:
        """The refs to make now; None when the run is complete."""
        refs = self.refs
        done = sum(status == _DONE for status in known.values())
        if done == len(refs):
            return None
        if not self.fan:
            return refs[done : done + 1] if len(known) == done else []
        if not known:
            return refs[:-1]
        return refs[-1:] if done == self.fan and len(known) == self.fan else []


def run(url: str, shape: Shape, *, batch: int, processes: int) -> Figures:
    """Run the shape to its end with `processes` deciders and as many workers."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(_SQL["drop"])
        admin.execute(_SQL["create"])
        admin.execute(_SQL["seed"], {"count": shape.runs})
        admin.execute("ANALYZE")
        stop, ready = _SPAWN.Event(), _SPAWN.Barrier(2 * processes + 1)
        targets: list[Callable[..., None]] = [_decide, _work] * processes
        children = [_SPAWN.Process(target=target, args=(url, shape, batch, stop, ready)) for target in targets]
        for child in children:
            child.start()
        try:
            ready.wait(60)
            with Meter(admin, {"bare": [child.pid or 0 for child in children]}) as meter:
                while admin.execute(_SQL["left"]).fetchone() != (0,):
                    if any(child.exitcode for child in children):
                        raise RuntimeError("a process of the bare pipeline died")
                    time.sleep(0.01)
        finally:
            stop.set()
            for child in children:
                child.join(30)
            admin.execute(_SQL["drop"])
    return meter.figures(shape.runs * len(shape.refs))


def starts(url: str, count: int, *, batch: int = 1) -> Figures:
    """Runs and their gates, `batch` in each commit, from this process."""
    with psycopg.connect(url, autocommit=True) as client, psycopg.connect(url, autocommit=True) as admin:
        admin.execute(_SQL["drop"])
        admin.execute(_SQL["create"])
        with Meter(admin, {}) as meter:
            for _ in range(count // batch):
                client.execute(_SQL["seed"], {"count": batch})
        admin.execute(_SQL["drop"])
    return meter.figures(count)


def _connect(url: str) -> psycopg.Connection[Any]:
    db = psycopg.connect(url, autocommit=True, prepare_threshold=0)
    db.execute("SET plan_cache_mode = force_custom_plan")
    return db


def _decide(url: str, shape: Shape, batch: int, stop: Any, ready: Any) -> None:
    most = batch * max(1, shape.fan)
    payload = "x" * shape.payload
    ids: list[int] = []
    with _connect(url) as db:
        ready.wait(60)
        while not stop.is_set():
            if len(ids) < min(most, shape.runs * len(shape.refs)):
                ids += [row[0] for row in db.execute(_SQL["take_ids"], {"count": max(1000, 2 * most)})]
            with db.pipeline():
                db.execute("BEGIN")
                runs = [row[0] for row in db.execute(_SQL["claim"], {"batch": batch}).fetchall()]
                if not runs:
                    db.execute("COMMIT")
            if not runs:
                time.sleep(_PAUSE)
                continue
            known: dict[int, dict[str, int]] = {found: {} for found in runs}
            for run_id, ref, status in db.execute(_SQL["frontier"], {"ids": runs}):
                known[run_id][ref] = status
            _write(db, {run_id: shape.next(tasks) for run_id, tasks in known.items()}, ids, payload)


def _write(db: psycopg.Connection[Any], decided: dict[int, list[str] | None], ids: list[int], payload: str) -> None:
    made: list[dict[str, Any]] = []
    history: list[dict[str, Any]] = []
    effects: list[dict[str, Any]] = []
    for run_id, refs in decided.items():
        for ref in refs or ():
            made.append({"id": ids.pop(), "run_id": run_id, "ref": ref, "input": {"k": ref, "p": payload}})
            history.append({"run_id": run_id, "kind": 1, "data": {"ref": ref}})
        if refs is None:
            history.append({"run_id": run_id, "kind": 3, "data": {}})
        if refs is None or refs:
            topic = "run.completed" if refs is None else "task.scheduled"
            effects.append({"topic": topic, "run_id": run_id, "data": {"refs": refs}})
    with db.pipeline():
        for verbs, rows in ((("make", "enqueue"), made), (("remember",), history), (("publish",), effects)):
            document = orjson.dumps(rows).decode()
            for verb in verbs if rows else ():
                db.execute(_SQL[verb], {"rows": document})
        statuses = [1 if refs is None else 0 for refs in decided.values()]
        db.execute(_SQL["settle"], {"ids": list(decided), "statuses": statuses})
        db.execute("COMMIT")


def _work(url: str, shape: Shape, batch: int, stop: Any, ready: Any) -> None:
    held: list[tuple[Any, ...]] = []
    with _connect(url) as db:
        ready.wait(60)
        while not stop.is_set():
            with db.pipeline():
                db.execute("BEGIN")
                if held:
                    db.execute(_SQL["end"], {"ids": [row[0] for row in held], "tokens": [row[1] for row in held]})
                leased = db.execute(_SQL["lease"], {"batch": batch})
                db.execute("COMMIT")
                held = leased.fetchall()
            if not held:
                time.sleep(_PAUSE)
