"""FORK_JOIN and JOIN. A join counts branches, it does not poll: what ends a branch is consumed exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workflows.engine.blueprint import Block, Node
from workflows.engine.operators.start import Start
from workflows.engine.rows import Row, TaskError
from workflows.engine.state import TaskStatus

if TYPE_CHECKING:
    from workflows.engine.decider import Pass


def fork(start: Start) -> None:
    """Start every branch, and the join that counts them."""
    pass_, node, join = start.pass_, start.node, start.node.join
    if join is None:
        raise TaskError(f"FORK_JOIN {node.ref} is not followed by a JOIN")
    branches = list(node.blocks.values())
    start.row(TaskStatus.COMPLETED, input=start.inputs(), output={}).type = "FORK"
    state: dict[str, Any] = {"left": len(branches)}
    named = join.spec.get("joinOn") or []
    if not join.waits_for_all:
        nodes = pass_.blueprint.nodes
        state["pending"] = sorted({ref for ref in named if ref in nodes and node.ref in nodes[ref].under})
    row = pass_.draft(join, start.iteration, TaskStatus.IN_PROGRESS, state=state, input={"joinOn": named})
    for block in branches:
        pass_.enter(block, start.iteration)
    close_if_joined(pass_, join, row)


def branch_ended(pass_: Pass, fork_: Node, block: Block, iteration: str) -> None:
    """A branch has ended; a ref that never ran in it (an untaken case) is no longer waited for."""
    join = fork_.join
    row = pass_.open_row(join.ref, iteration) if join else None
    if join is None or row is None or row.state is None:
        return
    state = {**row.state, "left": row.state["left"] - 1}
    if "pending" in state:
        nodes = pass_.blueprint.nodes
        state["pending"] = [ref for ref in state["pending"] if nodes[ref].under.get(fork_.ref) != block.key]
    row.state, row.changed = state, True
    close_if_joined(pass_, join, row)


def close_if_joined(pass_: Pass, join: Node, row: Row) -> None:
    """End a join that has nothing left to wait for."""
    state = row.state or {}
    if not (state["pending"] if "pending" in state else state["left"]):
        pass_.later(lambda: _close(pass_, join, row))


def _close(pass_: Pass, join: Node, row: Row) -> None:
    if row.status.terminal:
        return
    joined = pass_.book.find_all(_joined_refs(join, row.input), join, row.iteration)
    if not pass_.put_out(join, row, {ref: found.output or {} for ref, found in joined.items()}):
        return
    statuses = {found.status for found in joined.values()}
    bad = any(status == TaskStatus.COMPLETED_WITH_ERRORS or not status.successful for status in statuses)
    row.status = TaskStatus.COMPLETED_WITH_ERRORS if bad else TaskStatus.COMPLETED
    row.consumed = True
    pass_.last = row
    if not pass_.put_off(row):
        pass_.finished(join, row.iteration)


def _joined_refs(join: Node, given: Any) -> list[str]:
    """The refs whose outputs a join collects: the named ones, or the last task of each branch."""
    if join.fork is not None and join.fork.type == "FORK_JOIN_DYNAMIC":
        return list((given or {}).get("joinOn") or [])
    named = join.spec.get("joinOn")
    if named:
        return [ref for ref in named if isinstance(ref, str)]
    blocks = join.fork.blocks.values() if join.fork else ()
    return [block.nodes[-1].ref for block in blocks if block.nodes]


def lone_join(start: Start) -> None:
    """A JOIN that no fork opened has nothing to wait for."""
    joined = start.pass_.book.find_all(_joined_refs(start.node, None), start.node, start.iteration)
    start.settle(input=start.inputs(), output={ref: row.output or {} for ref, row in joined.items()})
