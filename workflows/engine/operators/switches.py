"""SWITCH and DECISION: one of several blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workflows.engine.blueprint import Node
from workflows.engine.conditions import as_case
from workflows.engine.operators.start import Start
from workflows.engine.rows import Row, TaskError
from workflows.engine.state import TaskStatus

if TYPE_CHECKING:
    from workflows.engine.decider import Pass


def switch(start: Start) -> None:
    """Choose a block; its key is kept in the row's state, so that what was taken can be read later."""
    pass_, node = start.pass_, start.node
    given = start.inputs()
    case = _case(start, given)
    block = node.blocks.get(f"case:{case}")
    if block is None or (node.type == "DECISION" and not block.nodes):
        block = node.blocks["default"]
    output: dict[str, Any] = {"evaluationResult": [case], "selectedCase": case}
    if node.type == "DECISION":
        output["caseOutput"] = [case]
    row = start.row(TaskStatus.COMPLETED, input={**given, "case": case}, output=output, state={"block": block.key})
    if not pass_.put_off(row):
        pass_.enter(block, start.iteration)


def resume_container(pass_: Pass, node: Node, row: Row) -> None:
    """A container that an earlier pass settled and put off goes on where it stopped; a fork never stops half way."""
    if row.type != "FORK":
        pass_.enter(node.blocks[(row.state or {}).get("block", "default")], row.iteration)


def _case(start: Start, given: dict[str, Any]) -> str:
    spec = start.node.spec
    if start.node.type == "DECISION":
        evaluator: Any = "javascript" if spec.get("caseExpression") else "value-param"
        expression = str(spec.get("caseExpression") or spec.get("caseValueParam") or "")
    else:
        evaluator = spec.get("evaluatorType")
        expression = str(spec.get("expression") or "")
    if evaluator == "value-param":
        return as_case(given.get(expression))
    if evaluator not in ("javascript", "graaljs"):
        raise TaskError(f"evaluatorType: expected value-param, javascript or graaljs, got {evaluator!r}")
    try:
        return as_case(start.pass_.evaluate_script(expression, given))
    except Exception as error:
        raise TaskError(f"the {evaluator} expression failed: {error}") from error
