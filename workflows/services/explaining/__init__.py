"""Why is this run not moving? One answer for the API, the operators' page and the sweeper.

Each thing that is waited for becomes a reason: a code for programs, a sentence for people, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from orchestrator.db.transactions import snapshot
from orchestrator.errors import NotFound
from orchestrator.masking import MASK, NOTHING, Names, mask
from workflows import masking
from workflows.engine.state import WorkflowStatus
from workflows.managers.explaining import DeadEventPicture, ExplainQueries, OpenPicture, RunPicture, TimerPicture
from workflows.services.explaining.limits import limit_pictures
from workflows.services.explaining.reasons import Code, Reason, duration, moment
from workflows.services.explaining.tasks import Surroundings, why_lost, why_open

__all__ = ["Code", "Explanation", "Reason", "explain"]

_MOST = 200
"""Open tasks that one answer speaks of."""
_LATE_SECONDS = 10
"""A request that waits longer than this has no decider to take it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a run waits for, most important first; `more` counts open tasks that were left out."""

    workflow_id: UUID
    status: str
    reasons: tuple[Reason, ...]
    at: datetime
    more: bool = False

    @property
    def bugs(self) -> tuple[Reason, ...]:
        """Reasons that a healthy system never has."""
        return tuple(reason for reason in self.reasons if reason.code.is_bug)


def explain(namespace: str, workflow_id: UUID) -> Explanation:
    """What a run waits for now, in one snapshot; raises NotFound. It locks nothing and changes nothing."""
    queries = ExplainQueries()
    with snapshot():
        run = queries.run(namespace, workflow_id)
        if run is None:
            raise NotFound(f"No such workflow found by id: {workflow_id}", workflow_id=workflow_id)
        lost = queries.dead_events(namespace, workflow_id, batch=_MOST)
        if WorkflowStatus(run.status).terminal:
            return Explanation(workflow_id, run.status, (_ended(run), *map(why_lost, lost)), run.now)
        tasks = _shown(workflow_id, queries.open_tasks(workflow_id, batch=_MOST + 1))
        timers = queries.timers(workflow_id, batch=_MOST)
        around = _surroundings(queries, namespace, workflow_id, run, tasks[:_MOST], timers, lost)
        reasons = [*_of_run(run), *_of_deadline(run, timers)]
        reasons += [why_open(task, around) for task in tasks[:_MOST]]
        if not _may_wake(reasons):
            reasons.append(_nothing_wakes_it(queries.unseen_tasks(workflow_id)))
        said = {reason.event_id for reason in reasons}
        reasons += [why_lost(dead) for dead in lost if dead.event_id not in said]
    return Explanation(workflow_id, run.status, tuple(reasons), run.now, len(tasks) > _MOST)


def _shown(workflow_id: UUID, tasks: list[OpenPicture]) -> list[OpenPicture]:
    """The tasks with what they wait for as readers see it."""
    hidden = masking.names_of_run(workflow_id) if any(task.awaits for task in tasks) else NOTHING
    return [replace(task, awaits=_masked(task.awaits, hidden)) for task in tasks] if hidden else tasks


def _masked(awaits: dict[str, Any] | None, hidden: Names) -> Any:
    paths = awaits.get("matches") if awaits and "matches" in hidden else None
    return {**mask(awaits, hidden), **({"matches": dict.fromkeys(paths, MASK)} if paths else {})}


def _surroundings(
    queries: ExplainQueries,
    namespace: str,
    workflow_id: UUID,
    run: RunPicture,
    tasks: list[OpenPicture],
    timers: list[TimerPicture],
    lost: list[DeadEventPicture],
) -> Surroundings:
    """What the tasks wait for, read once for all of them."""
    queues = {(task.queue, task.name if task.domain else task.queue, task.domain) for task in tasks if task.queue}
    waited = [task.sub_workflow_id for task in tasks if task.sub_workflow_id]
    starters = any(task.type in ("SUB_WORKFLOW", "START_WORKFLOW") for task in tasks)
    return Surroundings(
        now=run.now,
        timers={timer.task_id: timer for timer in reversed(timers) if timer.kind == "WAIT"},
        broken={timer.task_id: timer for timer in timers if timer.quarantined and timer.kind != "WAIT"},
        queues=queries.queues(namespace, sorted(queues, key=str)) if queues else {},
        children=queries.children(waited) if waited else {},
        deliveries=queries.deliveries(workflow_id, batch=_MOST) if starters else {},
        limits=limit_pictures(namespace, {task.name for task in tasks if task.queue}),
        lost={dead.id: dead for dead in reversed(lost)},
    )


def _ended(run: RunPicture) -> Reason:
    why = f": {run.reason}" if run.reason else ""
    action = "Nothing." if run.status == WorkflowStatus.COMPLETED else "Retry, rerun or restart it."
    return Reason(Code.ENDED, f"The run has ended {run.status}{why}", action)


def _of_run(run: RunPicture) -> Iterator[Reason]:
    """What holds the run as a whole."""
    if run.quarantined:
        yield Reason(
            Code.QUARANTINED,
            f"The run was put aside after {run.attempts} failed passes. The last error: {run.last_error}",
            "Mend the cause, then release it (Nudge, or PUT /api/workflow/decide/{id}).",
        )
    elif run.attempts and run.next_attempt_at is not None and run.next_attempt_at > run.now:
        yield Reason(
            Code.DECIDE_FAILED,
            f"The last pass failed ({run.last_error}); the next attempt, number {run.attempts + 1}, is at "
            f"{moment(run.next_attempt_at)}.",
            "Mend the cause; Nudge tries again at once.",
            until=run.next_attempt_at,
        )
    if run.status == WorkflowStatus.PAUSED:
        yield Reason(Code.PAUSED, "The run is paused: it schedules nothing new.", "Resume it.")
    elif run.admitted_at is None:
        yield Reason(
            Code.NOT_ADMITTED,
            "The run waits to be admitted: its limit of runs at the same time is taken.",
            "Wait for another run to end, or raise the limit.",
        )
    elif run.enqueued_at is not None and not run.quarantined and not run.attempts:
        yield _awaits_pass(run, run.enqueued_at)


def _awaits_pass(run: RunPicture, since: datetime) -> Reason:
    waited = (run.now - since).total_seconds()
    if waited < _LATE_SECONDS:
        return Reason(Code.DECIDE_DUE, "The run's next pass is due now.", "Nothing: a decider takes it in a moment.")
    return Reason(
        Code.NO_DECIDER,
        f"The run has waited for a pass since {moment(since)} ({duration(waited)}): no decider takes it.",
        "See that `run_decider` is running and keeps up.",
    )


def _of_deadline(run: RunPicture, timers: list[TimerPicture]) -> Iterator[Reason]:
    for timer in timers:
        if timer.kind == "WORKFLOW" and timer.quarantined:
            yield Reason(
                Code.TIMER_QUARANTINED,
                f"The run's own deadline could not fire and was put aside: {timer.last_error}",
                "Mend the cause, then release the timer (manage.py quarantine --release).",
                timer_id=timer.id,
            )


def _may_wake(reasons: list[Reason]) -> bool:
    """Whether any reason stands for something that will end: then the run is waiting, not stuck."""
    return any(reason.code not in (Code.JOINS, Code.COMPENSATING) for reason in reasons)


def _nothing_wakes_it(unseen: int) -> Reason:
    more = f" {unseen} ended tasks wait to be seen." if unseen else ""
    return Reason(
        Code.NOTHING_WAKES_IT,
        f"Nothing could ever wake this run: no open task, no deadline, no request for a pass.{more}",
        "Nudge it, and report this as a bug; the sweeper does the same after a while.",
    )
