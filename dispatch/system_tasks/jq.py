"""JSON_JQ_TRANSFORM: jq over the task's input, in a child process with limits of its own."""

from __future__ import annotations

import threading
from typing import Any

from dispatch.system_tasks.outcome import Outcome, completed, failed
from orchestrator.scripts.jq_process import JqError, JqProcess

_threads = threading.local()


def run_jq(given: dict[str, Any]) -> Outcome:
    """The program's first result as `result`, all of them as `resultList`."""
    program = given.get("queryExpression")
    if not isinstance(program, str) or not program:
        return failed(f"queryExpression: expected a text, got {program!r}", terminal=True)
    try:
        results = _process().run(program, given)
    except JqError as error:
        return failed(str(error), {"error": str(error)}, terminal=False)
    return completed({"result": results[0] if results else None, "resultList": results})


def _process() -> JqProcess:
    """This thread's child: one slow program holds up nobody else."""
    process: JqProcess | None = getattr(_threads, "jq", None)
    if process is None:
        process = _threads.jq = JqProcess()
    return process
