"""Plans of retry, rerun and revival, made from a run's rows without changing anything; also what a preview shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from orchestrator.errors import Invalid
from workflows.engine import compensation
from workflows.engine.blueprint import Blueprint
from workflows.engine.state import TaskStatus
from workflows.managers.task import OutlineTask
from workflows.services.control.scoping import fork_of, opened, scope
from workflows.services.control.walking import Key, Plan, newest, walk


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action would do; references carry their iteration as `ref@2.1`.

    `runs_again` start or run anew at once, `reopened` go on where they were, `deleted` are taken back and run again
    when their turn comes, `kept` are the tasks whose results stay.
    """

    workflow_id: UUID
    runs_again: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    revived: tuple[UUID, ...] = ()


def undone(rows: list[OutlineTask]) -> bool:
    """Whether a run has undone its completed tasks: there is nothing it could go on from."""
    return any(row.type == compensation.REF for row in rows)


def plan_retry(blueprint: Blueprint, rows: list[OutlineTask], open_again: Iterable[OutlineTask] = ()) -> Plan:
    """What failed or was cancelled runs again as new attempts; containers around it go on.

    Failed permissive tasks are retried only where they alone ended the run, and then with what came behind them.
    """
    again = [opened(row) for row in open_again]
    plan = walk(blueprint, newest(rows), again)
    if plan.moves or plan.terminated_by:
        return plan
    failed = [
        row
        for row in newest(rows).values()
        if (node := blueprint.nodes.get(row.ref)) and node.permissive and row.ended and not row.status.successful
    ]
    return _taken_back(blueprint, rows, failed, keep=True) if failed else plan


def plan_rerun(blueprint: Blueprint, rows: list[OutlineTask], target: OutlineTask) -> Plan:
    """The target and everything behind it run again."""
    if (fork_of(target) or target.ref) not in blueprint.nodes:
        raise Invalid(problems=[("reRunFromTaskId", f"{target.ref} is not in the definition of this run")])
    if target.dynamic:
        newer = newest(rows)[(target.ref, target.iteration)]
        return _taken_back(blueprint, rows, [newer], again=newer)
    return _taken_back(blueprint, rows, [target])


def plan_revival(blueprint: Blueprint, rows: list[OutlineTask], task: OutlineTask) -> Plan:
    """A parent goes on waiting for a child that runs again: what followed the child's success is taken back."""
    if task.status == TaskStatus.COMPLETED and task.ref in blueprint.nodes:
        return _taken_back(blueprint, rows, [task], keep=True, also=[opened(task)])
    return plan_retry(blueprint, rows, [task])


def _taken_back(
    blueprint: Blueprint,
    rows: list[OutlineTask],
    targets: Iterable[OutlineTask],
    *,
    keep: bool = False,
    also: Iterable[OutlineTask] = (),
    again: OutlineTask | None = None,
) -> Plan:
    latest = newest(rows)
    deletes: dict[UUID, OutlineTask] = {}
    reopens: dict[Key, OutlineTask] = {(row.ref, row.iteration): row for row in also}
    for target in targets:
        found = scope(blueprint, rows, latest, target, keep=keep)
        deletes |= {row.id: row for row in found.deletes}
        for key, row in found.reopens.items():
            before = reopens.get(key)
            # Two targets in one loop: it goes back to the earlier turn.
            if before is None or _turn(row) < _turn(before):
                reopens[key] = row
    left = [row for row in rows if row.id not in deletes]
    open_again = [row for row in reopens.values() if row.id not in deletes]
    plan = walk(blueprint, newest(left), open_again, permissive=keep, again=again)
    plan.deletes += deletes.values()
    return plan


def _turn(row: OutlineTask) -> int:
    return int((row.state or {}).get("iteration", 0))


def preview(workflow_id: UUID, rows: list[OutlineTask], plan: Plan, revived: Iterable[UUID] = ()) -> Preview:
    """The plan in names."""
    again = [named(*key) for key in plan.starts] + [named(row.ref, row.iteration) for row in plan.remakes]
    reopened = [named(row.ref, row.iteration) for row in plan.reopens]
    deleted = dict.fromkeys(named(row.ref, row.iteration) for row in plan.deletes)
    gone = {*again, *reopened, *deleted}
    kept = dict.fromkeys(named(row.ref, row.iteration) for row in rows)
    return Preview(
        workflow_id,
        tuple(again),
        tuple(reopened),
        tuple(name for name in deleted if name not in again),
        tuple(name for name in kept if name not in gone),
        tuple(revived),
    )


def named(ref: str, iteration: str) -> str:
    """A reference with its iteration."""
    return f"{ref}@{iteration}" if iteration else ref
