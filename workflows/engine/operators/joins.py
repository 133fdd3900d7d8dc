"""Tells joins of the refs they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workflows.engine.blueprint import Node
from workflows.engine.operators.exclusive_joins import close_exclusive
from workflows.engine.operators.forks import close_if_joined

if TYPE_CHECKING:
    from workflows.engine.decider import Pass


def joined_ref_ended(pass_: Pass, join: Node, ref: str, iteration: str) -> None:
    """A ref that a join waits for by name has finally ended."""
    row = pass_.open_row(join.ref, iteration)
    if row is None or ref not in (row.state or {}).get("pending", ()):
        return
    if join.type == "EXCLUSIVE_JOIN":
        pass_.later(lambda: close_exclusive(pass_, join, row))
        return
    state = row.state or {}
    row.state, row.changed = {**state, "pending": [name for name in state["pending"] if name != ref]}, True
    close_if_joined(pass_, join, row)
