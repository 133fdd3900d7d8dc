"""Fills the tables: real runs, made once by the services, copied with new ids and times as often as is asked.

The copies are what the engine wrote, so they keep its invariants by construction, at the speed of COPY.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from dispatch.services.dispatching import TaskReport, lease_tasks, report
from orchestrator.bench import definitions
from orchestrator.bench.crew import QUEUE_NAME
from orchestrator.bench.worker import WORKER
from orchestrator.conf import conf
from workflows.services.evaluation import evaluate_next_batch
from workflows.services.starting import StartRequest, start

STEPS = 10
NAMES = 4
SPAN = timedelta(days=28)
"""The runs are spread over this time before now; partitions reach back so far."""
TABLES = {
    "workflows_execution": "id",
    "workflows_task": "workflow_id",
    "workflows_historyevent": "workflow_id",
    "dispatch_queuedtask": "workflow_id",
}
"""Filled tables, and the column that holds the run."""
_CHUNK = 1000
_NUMBER = "@" * 12
_TIME = "#" * 8 + "-" + "#" * 4
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00")
STATES = ("COMPLETED",) * 97 + ("FAILED",) * 2 + ("RUNNING",)


@dataclass(frozen=True, slots=True)
class Sample:
    """A run that was made, to be looked for."""

    id: UUID
    name: str
    correlation_id: str


@dataclass(frozen=True, slots=True)
class Template:
    """The rows of a run as COPY text by table; ids and the correlation id are blank where copies differ."""

    rows: dict[str, str]
    began: datetime

    def at(self, moment: datetime) -> dict[str, str]:
        """The rows of a run that began then; only its number is still blank."""
        shift = moment - self.began
        millis = f"{int(moment.timestamp() * 1000):012x}"
        prefix = f"{millis[:8]}-{millis[8:]}"

        def moved(found: re.Match[str]) -> str:
            return str(datetime.fromisoformat(found[0] + ":00") + shift)

        return {table: _STAMP.sub(moved, text).replace(_TIME, prefix) for table, text in self.rows.items()}


def fill(
    admin: psycopg.Connection[Any],
    runs: int,
    say: Callable[[str], None],
    *,
    first: datetime | None = None,
    states: Sequence[str] = STATES,
) -> list[Sample]:
    """Copy so many runs of ten tasks into the tables, oldest first; returns some of them, from all times.

    They are spread over 28 days from `first` (default: the last 28), and take turns in their `states`.
    """
    admin.execute("SET TIME ZONE 'UTC'")
    templates = {
        (state, number): _make_template(admin, state, f"bench_filled_{number}")
        for number in range(NAMES)
        for state in dict.fromkeys(states)
    }
    begun, first = time.monotonic(), first or datetime.now(UTC) - SPAN
    samples: list[Sample] = []
    every = max(1, runs // 50)
    for low in range(0, runs, _CHUNK):
        numbers = range(low, min(runs, low + _CHUNK))
        moment = first + SPAN * low / runs
        blocks = {key: template.at(moment) for key, template in templates.items()}
        for table in TABLES:
            with admin.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
                for number in numbers:
                    copy.write(blocks[_key(number, states)][table].replace(_NUMBER, f"{number:012x}"))
        samples += [_sample(number, moment) for number in numbers if number % every == 0]
        if low // _CHUNK % 20 == 19 or numbers.stop == runs:
            rate = numbers.stop / (time.monotonic() - begun)
            say(f"{numbers.stop:,} of {runs:,} runs, {rate:,.0f} runs/s")
    for table in TABLES:
        admin.execute(f"VACUUM (ANALYZE) {table}")
    return samples


def _key(number: int, states: Sequence[str]) -> tuple[str, int]:
    return states[number % len(states)], number % NAMES


def _sample(number: int, moment: datetime) -> Sample:
    millis = f"{int(moment.timestamp() * 1000):012x}"
    return Sample(
        UUID(f"{millis}7000" + f"8000{number:012x}"), f"bench_filled_{number % NAMES}", f"order-{number:012x}"
    )


def _make_template(admin: psycopg.Connection[Any], state: str, name: str) -> Template:
    """Make the run by the services, take its rows out, and remove it."""
    namespace = conf().DEFAULT_NAMESPACE
    definitions.register_one({**definitions.chain(STEPS), "name": name})
    run = start(StartRequest(name, namespace=namespace, correlation_id=f"order-{_NUMBER}", input={"order": "A-1"}))
    for step in range({"COMPLETED": STEPS, "FAILED": STEPS // 2, "RUNNING": STEPS // 3}[state]):
        _evaluate()
        (task,) = lease_tasks(namespace, QUEUE_NAME, batch=1, worker_id=WORKER)
        last = state == "FAILED" and step == STEPS // 2 - 1
        ended = TaskReport(
            task.id, run, "FAILED_WITH_TERMINAL_ERROR" if last else "COMPLETED", lease_token=task.lease_token,
            output={"ok": not last}, reason="card declined" if last else None,
        )  # fmt: skip
        report([ended], strict=True)
    _evaluate()
    made = admin.execute("SELECT status, created_at FROM workflows_execution WHERE id = %s", [run]).fetchone()
    assert made is not None
    assert made[0] == state, f"the template of {state} runs is {made[0]}"
    rows = {table: _take_out(admin, table, column, run) for table, column in TABLES.items()}
    return Template({table: _blank(text, run, rows) for table, text in rows.items()}, made[1])


def _take_out(admin: psycopg.Connection[Any], table: str, column: str, run: UUID) -> str:
    names = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
    taken = sql.SQL("COPY (SELECT * FROM {table} WHERE {column} = %s ORDER BY id) TO STDOUT").format(**names)
    with admin.cursor() as cursor, cursor.copy(taken, [run]) as copy:
        text = b"".join(copy).decode()
    admin.execute(sql.SQL("DELETE FROM {table} WHERE {column} = %s").format(**names), [run])
    return text


def _blank(text: str, run: UUID, rows: dict[str, str]) -> str:
    """Every id of the run replaced by one of the copy's time, the id's place among them, and the copy's number."""
    lines = (rows["workflows_task"] + rows["workflows_historyevent"]).splitlines()
    for place, identifier in enumerate([str(run), *(line.split("\t", 1)[0] for line in lines)]):
        text = text.replace(identifier, f"{_TIME}-7{place:03x}-8000-{_NUMBER}")
    return text


def _evaluate() -> None:
    while evaluate_next_batch():
        pass
