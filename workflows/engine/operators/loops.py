"""DO_WHILE: turns by condition, or one per item of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workflows.engine.blueprint import Node
from workflows.engine.conditions import is_true
from workflows.engine.operators.start import Start
from workflows.engine.rows import Row, TaskError
from workflows.engine.state import TaskStatus

if TYPE_CHECKING:
    from workflows.engine.decider import Pass


def do_while(start: Start) -> None:
    """Begin the first turn; an empty list has none."""
    pass_, node = start.pass_, start.node
    given = start.inputs()
    body = node.blocks["loop"]
    if not body.nodes:
        raise TaskError("loopOver is empty: there is nothing to repeat")
    items = _items(start, given)
    if items is not None and not items:
        start.settle(input=given, output={"iteration": 0})
        return
    output: dict[str, Any] = {"iteration": 1}
    state: dict[str, Any] = {"iteration": 1}
    if items is not None:
        pass_.require("task input", items)
        state["items"] = items
        output |= {"loopItem": items[0], "loopIndex": 0}
    start.row(TaskStatus.IN_PROGRESS, input=given, output=output, state=state)
    pass_.enter(body, _inner(start.iteration, 1))


def _items(start: Start, given: dict[str, Any]) -> list[Any] | None:
    template = start.node.extras.get("items")
    if template is not None:
        value = start.pass_.resolve(template, start)
    elif "_items" in given:
        value = given["_items"]
    elif "items" in given and not start.node.spec.get("loopCondition"):
        value = given["items"]  # what is neither a list to go through nor a condition would repeat nothing
    else:
        return None
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def turn_ended(pass_: Pass, loop: Node, iteration: str) -> None:
    """A turn of a loop has ended: go round again, or end the loop."""
    outer, _, last = iteration.rpartition(".")
    row = pass_.open_row(loop.ref, outer)
    if row is None or row.state is None:
        return
    turn = int(last)
    ran = _outputs(pass_, loop, iteration)
    output = {**(row.output or {}), str(turn): ran, "iteration": turn}
    keep = (row.input or {}).get("keepLastN")
    if isinstance(keep, int) and keep > 0:
        output.pop(str(turn - keep), None)
    if not pass_.put_out(loop, row, output):
        return
    items = row.state.get("items")
    try:
        again = _goes_on(pass_, loop, row, ran) and (items is None or turn < len(items))
    except Exception as error:  # whatever an interpreter raises would recur
        row.status, row.consumed = TaskStatus.FAILED_WITH_TERMINAL_ERROR, True
        row.reason = f"loopCondition failed: {error}"
        pass_.fail(loop, row)
        return
    if not again:
        row.status, row.consumed = TaskStatus.COMPLETED, True
        pass_.last = row
        if not pass_.put_off(row):
            pass_.finished(loop, outer)
        return
    row.state = {**row.state, "iteration": turn + 1}
    item = {} if items is None else {"loopItem": items[turn], "loopIndex": turn}
    if not pass_.put_out(loop, row, {**output, "iteration": turn + 1, **item}):
        return
    pass_.enter(loop.blocks["loop"], _inner(outer, turn + 1))


def _outputs(pass_: Pass, loop: Node, iteration: str) -> dict[str, Any]:
    """What the tasks of a turn put out; those of a case that was not taken are absent."""
    rows = pass_.book.find_all([node.ref for node in loop.members], loop.members[0], iteration)
    return {ref: found.output or {} for ref, found in rows.items() if found.iteration == iteration}


def _goes_on(pass_: Pass, loop: Node, row: Row, ran: dict[str, Any]) -> bool:
    listed = "items" in (row.state or {})
    condition = loop.spec.get("loopCondition")
    if not condition:
        return listed
    scope = {**(row.input or {}), loop.ref: row.output, **ran}
    if listed:
        scope |= {"loopIndex": row.output.get("loopIndex"), "loopItem": row.output.get("loopItem")}
    return is_true(pass_.evaluate_script(str(condition), scope))


def _inner(outer: str, turn: int) -> str:
    return f"{outer}.{turn}" if outer else str(turn)
