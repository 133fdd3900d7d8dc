"""Task functions with a side effect that can be counted: one line for each hand-out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dispatch.worker import task
from workflows.managers.task import StartedTask

_LEDGER = Path(os.environ["CHAOS_LEDGER"])


@task("chaos_step")
def step(started: StartedTask) -> dict[str, Any]:
    """Write down which hand-out of which attempt this is."""
    line = f"{started.id} {started.attempt} {started.lease_token}\n"
    with open(_LEDGER, "a") as ledger:
        ledger.write(line)
    return {"n": int((started.input or {}).get("n", 0)) + 1}


@task("chaos_flaky")
def flaky(started: StartedTask) -> dict[str, Any]:
    """Fail the first attempt."""
    if started.attempt == 0:
        raise RuntimeError("the first attempt fails")
    return step(started)  # type: ignore[no-any-return]
