"""HTTP_POLL: one request for each time the task is handed out, until its condition holds.

Between requests the task waits in its queue with what it last saw as output: nothing is lost with this process.
"""

from __future__ import annotations

import math
from typing import Any

from dispatch.system_tasks.http import run_http
from dispatch.system_tasks.outcome import Outcome, failed, later
from orchestrator.scripts import ScriptError, evaluate_script
from workflows.engine.conditions import is_true

_STRATEGIES = ("FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF")
_LONGEST = 30 * 24 * 3600
"""Seconds between two requests, whatever a backoff comes to."""


def run_http_poll(given: dict[str, Any], before: Any) -> Outcome:
    """Make the next request; `before` is the output of the last one. The condition sees the input and `$.output`."""
    request = given.get("http_request") if isinstance(given.get("http_request"), dict) else given
    assert isinstance(request, dict)
    condition, strategy = request.get("terminationCondition"), request.get("pollingStrategy") or "FIXED"
    if not isinstance(condition, str) or not condition.strip():
        return failed(f"terminationCondition: expected a script, got {condition!r}", terminal=True)
    if strategy not in _STRATEGIES:
        return failed(f"pollingStrategy: expected one of {', '.join(_STRATEGIES)}, got {strategy!r}", terminal=True)
    outcome = run_http(given)
    if outcome.status != "COMPLETED":
        return outcome
    count = (before.get("pollCount") or 0) + 1 if isinstance(before, dict) else 1
    output = {**outcome.output, "pollCount": count}
    try:
        done = is_true(evaluate_script(condition, {**given, "output": output, "response": output["response"]}))
    except ScriptError as error:
        return failed(f"the terminationCondition failed: {error}", output, terminal=True)
    if done:
        return Outcome("COMPLETED", output)
    most = request.get("maxPollCount")
    if isinstance(most, int) and 0 < most <= count:
        return failed(f"the terminationCondition did not hold after {count} requests", output, terminal=True)
    return later(_interval(request, strategy, count), output)


def _interval(request: dict[str, Any], strategy: str, count: int) -> int:
    """Seconds before the request after the one numbered `count`."""
    given = request.get("pollingInterval")
    seconds = float(given) if isinstance(given, (int, float)) and given > 0 else 60.0
    if strategy == "LINEAR_BACKOFF":
        seconds *= count
    elif strategy == "EXPONENTIAL_BACKOFF":
        seconds *= 2.0 ** min(count - 1, 40)
    return math.ceil(min(seconds, _LONGEST))
