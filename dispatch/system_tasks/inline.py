"""INLINE and LAMBDA: JavaScript in the sandbox; `$` is the task's input."""

from __future__ import annotations

from typing import Any

from dispatch.system_tasks.outcome import Outcome, completed, failed
from orchestrator.scripts.javascript import ScriptError, call_script, evaluate_script


def run_inline(given: dict[str, Any]) -> Outcome:
    """The value of the script's last expression as `result`."""
    evaluator = given.get("evaluatorType") or "javascript"
    expression = given.get("expression")
    if not isinstance(expression, str):
        return failed(f"expression: expected a text, got {expression!r}", terminal=True)
    if evaluator == "value-param":
        return completed({"result": given.get(expression)})
    if evaluator not in ("javascript", "graaljs"):
        message = f"evaluatorType: expected javascript, graaljs or value-param, got {evaluator!r}"
        return failed(message, terminal=True)
    return _run(evaluate_script, expression, given)


def run_lambda(given: dict[str, Any]) -> Outcome:
    """The value a function body returns as `result`."""
    return _run(call_script, str(given.get("scriptExpression") or ""), given)


def _run(evaluate: Any, source: str, given: dict[str, Any]) -> Outcome:
    try:
        return completed({"result": evaluate(source, given)})
    except ScriptError as error:
        return failed(str(error), {"error": str(error)}, terminal=True)
