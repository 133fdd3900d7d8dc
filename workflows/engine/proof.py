"""How a run ends: the proof that it is complete, what it puts out, and what is missing when it is stuck. [INV-10]"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workflows.engine.blueprint import Block
from workflows.engine.expressions import resolve
from workflows.engine.rows import NeedRows, Row
from workflows.engine.scope import NodeScope
from workflows.engine.state import TaskStatus, WorkflowStatus

if TYPE_CHECKING:
    from workflows.engine.decider import Pass


def finish_if_proved(pass_: Pass) -> None:
    """INV-10: the last node of the root block has ended, nothing is open, nothing is left to consume.

    A branch that its join does not wait for proves nothing by that: such a definition is walked.
    """
    if not pass_.root_ended or pass_.again or pass_.book.any_open():
        return
    if pass_.blueprint.partial and _unended(pass_):
        return
    rows = pass_.book.find_all([node.ref for node in pass_.blueprint.permissive], None, "")
    bad = [row for row in [*rows.values(), *_permissive_branches(pass_)] if not row.status.successful]
    if bad:
        names = ", ".join(f"{row.ref} ({row.status}: {row.reason or 'no reason given'})" for row in bad)
        refs = tuple(row.ref for row in bad)
        pass_.end_run(WorkflowStatus.FAILED, output(pass_), f"Permissive tasks failed: {names}", refs)
    pass_.end_run(WorkflowStatus.COMPLETED, output(pass_))


def _permissive_branches(pass_: Pass) -> list[Row]:
    """The permissive tasks of dynamic forks, which no definition names; read only where a join saw a failure."""
    joins = [n.ref for n in pass_.blueprint.nodes.values() if n.fork is not None and n.fork.type == "FORK_JOIN_DYNAMIC"]
    seen = pass_.book.find_all(joins, None, "").values() if joins else ()
    failed = [row for row in seen if row.status == TaskStatus.COMPLETED_WITH_ERRORS]
    refs = [ref for row in failed for ref in (row.input or {}).get("joinOn") or []]
    return [row for row in pass_.book.find_all(refs, None, "").values() if (row.spec or {}).get("permissive")]


def output(pass_: Pass) -> Any:
    """The run's output: its outputParameters, or the output of the last task."""
    if pass_.blueprint.definition.get("outputParameters"):
        return resolve(pass_.blueprint.outputs, NodeScope(pass_, None, ""))
    last = pass_.last
    if last is None and pass_.blueprint.root.nodes:
        last = pass_.book.find(pass_.blueprint.root.nodes[-1].ref, None, "")
    return last.output if last is not None and last.output is not None else {}


def failure_workflow(definition: dict[str, Any], given: dict[str, Any] | None) -> dict[str, Any] | None:
    """The workflow to start when this one fails; its name may come from the input, as `$workflow.input.x`."""
    name = definition.get("failureWorkflow")
    if not isinstance(name, str) or not name:
        return None
    bare = name.removeprefix("${").removesuffix("}").removeprefix("$")
    if bare.startswith("workflow.input."):
        name = (given or {}).get(bare.removeprefix("workflow.input."))
        if not isinstance(name, str) or not name:
            return None
    return {"name": name, "version": definition.get("failureWorkflowVersion")}


def missing(pass_: Pass) -> tuple[str, ...]:
    """The refs at which a stuck run stands still: reached by its structure, and without a row that ended well.

    A run is stuck so rarely that this may cost something.
    """
    return _unended(pass_) or tuple(node.ref for node in pass_.blueprint.root.nodes[-1:])


def _unended(pass_: Pass) -> tuple[str, ...]:
    """The refs where the walk through the definition stops; reads the newest row of every ref once."""
    unread = frozenset(pass_.blueprint.nodes) - pass_.book.loaded
    if unread and not pass_.book.whole:
        raise NeedRows(unread)
    found: list[str] = []
    _walk(pass_, pass_.blueprint.root, "", found)
    return tuple(dict.fromkeys(found))


def _walk(pass_: Pass, block: Block, iteration: str, found: list[str]) -> bool:
    """Whether a block has ended; adds the refs where it has not."""
    for node in block.nodes:
        row = pass_.book.find(node.ref, node, iteration)
        inner = list(node.blocks.values()) if row is None or row.status != TaskStatus.SKIPPED else []
        if node.type in ("SWITCH", "DECISION"):
            inner = [b for b in inner if row is not None and b.key == (row.state or {}).get("block")]
        if row is None or not (row.status.successful or node.permissive):
            if row is None or not (node.type == "DO_WHILE" and not _walk(pass_, inner[0], _turn(row), found)):
                found.append(node.ref)
            return False
        if node.type != "DO_WHILE" and not _all_ended(pass_, inner, iteration, found):
            return False
    return True


def _all_ended(pass_: Pass, blocks: list[Block], iteration: str, found: list[str]) -> bool:
    ended = [_walk(pass_, block, iteration, found) for block in blocks]  # each, to find whatever is missing
    return all(ended)


def _turn(row: Row) -> str:
    turn = (row.state or {}).get("iteration", 1)
    return f"{row.iteration}.{turn}" if row.iteration else str(turn)
