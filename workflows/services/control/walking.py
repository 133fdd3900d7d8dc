"""Where a run has to go on: its definition walked along the rows it has. Pure.

One walk serves retry, rerun and the revival of a parent; they differ only in the rows they let it see.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from workflows.engine.blueprint import Block, Blueprint, Node
from workflows.engine.state import TaskStatus
from workflows.managers.task import OutlineTask

Key = tuple[str, str]
"""(ref, iteration)."""


@dataclass(slots=True)
class Plan:
    """What makes an ended run go on. `waiting` are ended tasks that no pass has consumed yet."""

    starts: list[Key] = field(default_factory=list)
    remakes: list[OutlineTask] = field(default_factory=list)
    reopens: list[OutlineTask] = field(default_factory=list)
    turns: list[tuple[Key, str]] = field(default_factory=list)
    joins: list[Key] = field(default_factory=list)
    deletes: list[OutlineTask] = field(default_factory=list)
    waiting: list[OutlineTask] = field(default_factory=list)
    terminated_by: OutlineTask | None = None
    root_ended: bool = False

    @property
    def moves(self) -> bool:
        """Whether anything would go on."""
        return bool(self.starts or self.remakes or self.reopens or self.waiting)


def newest(rows: Iterable[OutlineTask]) -> dict[Key, OutlineTask]:
    """The newest attempt of each reference and iteration."""
    found: dict[Key, OutlineTask] = {}
    for row in rows:
        key = (row.ref, row.iteration)
        if key not in found or row.attempt > found[key].attempt:
            found[key] = row
    return found


def inner(iteration: str, turn: int) -> str:
    """The iteration path of a turn of a loop that stands at `iteration`."""
    return f"{iteration}.{turn}" if iteration else str(turn)


def walk(
    blueprint: Blueprint,
    rows: dict[Key, OutlineTask],
    open_again: Iterable[OutlineTask] = (),
    *,
    permissive: bool = False,
    again: OutlineTask | None = None,
) -> Plan:
    """Plan how a run goes on; `open_again` are rows (as they shall be) that are reopened whatever their status says.

    `permissive` retries failed permissive tasks too, which are otherwise passed over as the run itself did; `again` is
    a task made at run time that runs anew though it had ended well.
    """
    walker = _Walker(blueprint, rows, {(row.ref, row.iteration): row for row in open_again}, permissive, again)
    walker.plan.root_ended = walker.block(blueprint.root, "")
    return walker.plan


class _Walker:
    def __init__(
        self,
        blueprint: Blueprint,
        rows: dict[Key, OutlineTask],
        open_again: dict[Key, OutlineTask],
        permissive: bool,
        again: OutlineTask | None,
    ) -> None:
        self.again = again
        self.permissive = permissive
        self.blueprint = blueprint
        self.rows = rows
        self.open_again = open_again
        self.plan = Plan()
        self.branches: dict[Key, set[str]] = {}
        self.done: set[Key] = set()

    def block(self, block: Block, iteration: str) -> bool:
        """Whether the block has ended; what it waits for is planned."""
        return all(self.node(node, iteration) for node in block.nodes)

    def node(self, node: Node, iteration: str) -> bool:
        done = self._node(node, iteration)
        if done:
            self.done.add((node.ref, iteration))
        return done

    def _node(self, node: Node, iteration: str) -> bool:
        key = (node.ref, iteration)
        again = self.open_again.get(key)
        row = again or self.rows.get(key)
        if row is None:
            self.plan.starts.append(key)
            return False
        if row.ended and not row.consumed and again is None:
            self.plan.waiting.append(row)
            return False
        if row.status.successful and row.ended and again is None:
            return self._passed(node, row)
        if node.type == "JOIN" and node.fork is not None:
            self._join(node, row)
        elif node.type == "DO_WHILE" and row.state:
            self._loop(node, row)
        elif again is not None:
            self.plan.reopens.append(row)
        elif row.ended and not self.permissive and self._passed_over(node, row):
            return True
        elif row.ended:
            self.plan.remakes.append(row)
        return False

    def _passed_over(self, node: Node, row: OutlineTask) -> bool:
        """Whether the run went on behind a failed permissive task."""
        if not node.permissive or node.optional or row.status == TaskStatus.CANCELED:
            return False
        return node.next is None or (node.next.ref, row.iteration) in self.rows

    def _passed(self, node: Node, row: OutlineTask) -> bool:
        if node.type == "TERMINATE":
            self.plan.terminated_by = row
            return False
        if node.type in ("SWITCH", "DECISION"):
            block = node.blocks.get((row.state or {}).get("block", "default"))
            return block is None or self.block(block, row.iteration)
        if node.type == "FORK_JOIN_DYNAMIC":
            return self._dynamic_fork(node, row)
        if node.type == "FORK_JOIN":
            ended = {key for key, block in node.blocks.items() if self.block(block, row.iteration)}
            self.branches[(node.ref, row.iteration)] = ended
        return True

    def _dynamic_fork(self, node: Node, row: OutlineTask) -> bool:
        """Its branches are known from the join. A fork that was cut short while it made them is made anew."""
        key = (node.join.ref if node.join else "", row.iteration)
        join = self.open_again.get(key) or self.rows.get(key)
        refs = (join.joins if join else None) or []
        branches = [self.rows.get((ref, row.iteration)) for ref in refs]
        if any(branch is None for branch in branches):
            self.plan.deletes += [r for r in (row, join, *branches) if r is not None]
            self.plan.starts.append((node.ref, row.iteration))
            return False
        self.branches[(node.ref, row.iteration)] = {b.ref for b in branches if b is not None and self._branch(b)}
        return True

    def _branch(self, row: OutlineTask) -> bool:
        if row.ended and not row.consumed:
            self.plan.waiting.append(row)
        elif row.ended and (row == self.again or not row.status.successful):
            self.plan.remakes.append(row)
        else:
            return row.ended
        return False

    def _join(self, node: Node, row: OutlineTask) -> None:
        """Reopened with its books made anew from the rows, so that nothing is counted twice or not at all."""
        fork = node.fork
        if fork is None:
            return
        ended = self.branches.get((fork.ref, row.iteration), set())
        count = len(row.joins or []) if fork.type == "FORK_JOIN_DYNAMIC" else len(fork.blocks)
        state: dict[str, Any] = {"left": count - len(ended)}
        if not node.waits_for_all:
            state["pending"] = [
                ref for ref in self._named(node, fork) if not self._final(node, fork, ref, row.iteration, ended)
            ]
        self.plan.reopens.append(replace(row, state=state))
        if not (state["pending"] if "pending" in state else state["left"]):
            self.plan.joins.append((node.ref, row.iteration))

    def _named(self, join: Node, fork: Node) -> list[str]:
        nodes = self.blueprint.nodes
        return sorted({ref for ref in join.spec.get("joinOn") or [] if ref in nodes and fork.ref in nodes[ref].under})

    def _final(self, join: Node, fork: Node, ref: str, iteration: str, ended: set[str]) -> bool:
        """Whether a named task has had its last word; one in a loop, when the loop has."""
        named = self.blueprint.nodes[ref]
        deeper = named.loops[len(join.loops) :]
        return named.under[fork.ref] in ended or (deeper[0] if deeper else ref, iteration) in self.done

    def _loop(self, node: Node, row: OutlineTask) -> None:
        self.plan.reopens.append(row)
        turn = inner(row.iteration, (row.state or {})["iteration"])
        if self.block(node.blocks["loop"], turn):
            self.plan.turns.append(((node.ref, row.iteration), turn))
