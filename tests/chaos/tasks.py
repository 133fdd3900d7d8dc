"""Task functions with a side effect that can be counted: one line for each hand-out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dispatch.services.dispatching import TaskReport
from dispatch.worker import task
from tests.engine.interpreter import Plan, work
from workflows.managers.task import StartedTask

_LEDGER = Path(os.environ["CHAOS_LEDGER"])


def note(started: StartedTask) -> None:
    """Write down which hand-out of which attempt this is."""
    line = f"{started.id} {started.attempt} {started.lease_token}\n"
    with open(_LEDGER, "a") as ledger:
        ledger.write(line)


@task("chaos_step")
def step(started: StartedTask) -> dict[str, Any]:
    """Count on."""
    note(started)
    return {"n": int((started.input or {}).get("n", 0)) + 1}


@task("chaos_flaky")
def flaky(started: StartedTask) -> dict[str, Any]:
    """Fail the first attempt."""
    if started.attempt == 0:
        raise RuntimeError("the first attempt fails")
    return step(started)  # type: ignore[no-any-return]


@task("chaos_planned")
def planned(started: StartedTask) -> TaskReport:
    """End as the plan in the input says, with the output that the reference interpreter expects."""
    note(started)
    turn = tuple(int(number) for number in started.iteration.split(".") if number)
    return TaskReport(
        started.id, started.workflow_id, Plan(**started.input["plan"]).status(turn, started.attempt),
        lease_token=started.lease_token, output=work(started.ref, turn, started.input),
    )  # fmt: skip
