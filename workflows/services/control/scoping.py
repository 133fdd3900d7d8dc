"""What a rerun takes back: the target and everything behind it in the graph, never what stands beside it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from uuid import UUID

from workflows.engine.blueprint import Blueprint, Node
from workflows.engine.state import TaskStatus
from workflows.managers.task import OutlineTask
from workflows.services.control.walking import Key


@dataclass(slots=True)
class Scope:
    """Rows to delete, and containers around the target to open again, as they shall be."""

    deletes: list[OutlineTask] = field(default_factory=list)
    reopens: dict[Key, OutlineTask] = field(default_factory=dict)


def scope(
    blueprint: Blueprint,
    rows: list[OutlineTask],
    latest: dict[Key, OutlineTask],
    target: OutlineTask,
    *,
    keep: bool = False,
) -> Scope:
    """What is taken back when `target` runs again; with `keep` its own row stays (it is opened again in place)."""
    return _Scoping(blueprint, rows, latest).run(target, keep)


class _Scoping:
    def __init__(self, blueprint: Blueprint, rows: list[OutlineTask], latest: dict[Key, OutlineTask]) -> None:
        self.blueprint = blueprint
        self.rows = rows
        self.latest = latest
        self.doomed: set[UUID] = set()
        self.reopens: dict[Key, OutlineTask] = {}

    def run(self, target: OutlineTask, keep: bool) -> Scope:
        path = target.path
        node = self.blueprint.nodes[fork_of(target) or target.ref]
        if target.dynamic:
            pass  # one branch of a fork: its row stays, since it alone knows what was to be done
        elif node.type == "JOIN" and node.fork is not None:
            self._reopen(node, path)
        elif not keep:
            self._delete(node, path)
        while True:
            for following in node.block.nodes[node.index + 1 :]:
                if following.fork is not None and not self._is_doomed(following.fork, path):
                    self._reopen(following, path)  # its fork's row stays, so the join must stay too
                else:
                    self._delete(following, path)
            owner = node.block.owner
            if owner is None:
                break
            if node.block.kind == "loop":
                path = self._back_to_turn(owner, path)
            node = owner
        deletes = [row for row in self.rows if row.id in self.doomed]
        return Scope(deletes, self.reopens)

    def _is_doomed(self, fork: Node, path: tuple[int, ...]) -> bool:
        row = self.latest.get((fork.ref, _text(path)))
        return row is None or row.id in self.doomed

    def _delete(self, node: Node, path: tuple[int, ...]) -> None:
        refs = {inside.ref for inside in _subtree(node)}
        for row in self.rows:
            if (row.ref in refs or fork_of(row) in refs) and row.path[: len(path)] == path:
                self.doomed.add(row.id)

    def _reopen(self, node: Node, path: tuple[int, ...]) -> None:
        row = self.latest.get((node.ref, _text(path)))
        if row is not None:
            self.reopens[(row.ref, row.iteration)] = opened(row)

    def _back_to_turn(self, loop: Node, path: tuple[int, ...]) -> tuple[int, ...]:
        """The loop goes back to the target's turn: later turns are taken back."""
        outer, turn = path[:-1], path[-1]
        refs = {inside.ref for inside in _subtree(loop)} - {loop.ref}
        for row in self.rows:
            at = row.path
            if (row.ref in refs or fork_of(row) in refs) and at[: len(outer)] == outer and at[len(outer)] > turn:
                self.doomed.add(row.id)
        own = self.latest.get((loop.ref, _text(outer)))
        if own is not None:
            state = {**(own.state or {}), "iteration": turn}
            self.reopens[(own.ref, own.iteration)] = opened(replace(own, state=state))
        return outer


def fork_of(row: OutlineTask) -> str | None:
    """The fork that made a task at run time."""
    return (row.state or {}).get("fork") if row.dynamic else None


def opened(row: OutlineTask) -> OutlineTask:
    """The row as it is once it is open again."""
    return replace(row, status=TaskStatus.IN_PROGRESS, ended=False, consumed=False)


def _subtree(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        for block in found.blocks.values():
            waiting.extend(block.nodes)


def _text(path: tuple[int, ...]) -> str:
    return ".".join(map(str, path))
