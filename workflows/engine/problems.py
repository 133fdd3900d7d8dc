"""Problems of definitions, and how the expressions in a definition are checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workflows.engine.expressions import Expression, ExpressionError, compile_template, expressions

ROOTS = frozenset({"workflow", "CPEWF_TASK_ID", "COMPENSATION"})
WORKFLOW_FIELDS = frozenset(
    {"input", "output", "variables", "status", "workflowId", "workflowType", "version", "correlationId", "priority",
     "parentWorkflowId", "parentWorkflowTaskId", "reasonForIncompletion", "schemaVersion", "createTime", "createdBy",
     "taskToDomain", "env", "secrets"}
)  # fmt: skip


MOST = 2**31 - 1
"""The largest whole number of a definition: what the database's integers and the calendar can hold."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem; `path` is like `tasks[2].inputParameters.x`."""

    path: str
    message: str


def references(value: Any, path: str, refs: dict[str, str]) -> Iterator[Problem]:
    """Problems of the expressions in a value: syntax with its position, and roots that do not exist."""
    for at, text in _texts(value, path):
        try:
            found = list(expressions(compile_template(text)))
        except ExpressionError as error:
            yield Problem(at, f"{error} (at character {error.position})")
            continue
        for expression in found:
            problem = _unknown(expression, refs)
            if problem:
                yield Problem(at, f"{expression.text} (at character {expression.position}): {problem}")


def _unknown(expression: Expression, refs: dict[str, str]) -> str | None:
    """What is wrong with the root of an expression."""
    first = expression.path.steps[0] if expression.path.steps else None
    if expression.root == "workflow":
        return f"a workflow has no {first!r}" if isinstance(first, str) and first not in WORKFLOW_FIELDS else None
    if expression.root in refs or expression.root in ROOTS:
        return None
    return f"there is no task {expression.root!r}"


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
