"""What an open task waits for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from workflows.engine.webhooks import wanted
from workflows.managers.explaining import (
    ChildPicture,
    DeadEventPicture,
    DeliveryPicture,
    OpenPicture,
    QueuePicture,
    TimerPicture,
)
from workflows.services.explaining.limits import LimitPicture
from workflows.services.explaining.reasons import Code, Reason, duration, moment

_POLLED_WITHIN = timedelta(seconds=60)
_TIMER_SLACK = timedelta(seconds=10)
_RELEASE_TIMER = "Mend the cause, then release the timer (manage.py quarantine --release)."


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around the open tasks of a run: `timers` end WAITs, `broken` are other timers that were put aside."""

    now: datetime
    timers: dict[UUID | None, TimerPicture]
    broken: dict[UUID | None, TimerPicture]
    queues: dict[str, QueuePicture]
    children: dict[UUID, ChildPicture]
    deliveries: dict[UUID, DeliveryPicture]
    limits: dict[str, LimitPicture]
    lost: dict[UUID, DeadEventPicture]


def why_open(task: OpenPicture, around: Surroundings) -> Reason:
    """The reason that a task has not ended."""
    broken = around.broken.get(task.id)
    if broken is not None:
        return _said(
            task,
            Code.TIMER_QUARANTINED,
            f"{_named(task)} has a {broken.kind} deadline that could not fire and was put aside: {broken.last_error}",
            _RELEASE_TIMER,
            timer_id=broken.id,
        )
    if task.queue is not None:
        return _in_queue(task, around)
    if task.type == "WAIT":
        return _wait(task, around)
    if task.type in ("SUB_WORKFLOW", "START_WORKFLOW"):
        return _run_of(task, around)
    if task.type == "COMPENSATION":
        done = ", ".join((task.state or {}).get("undone") or []) or "nothing yet"
        return _said(
            task, Code.COMPENSATING, f"The run has failed and undoes its completed tasks, newest first; undone: {done}.",
            "Wait; or terminate the run, which leaves the rest as it is.",
        )  # fmt: skip
    if task.type in ("JOIN", "EXCLUSIVE_JOIN", "DO_WHILE"):
        return _container(task)
    if task.type == "HUMAN":
        return _said(task, Code.HUMAN, f"{_named(task)} waits for a person.", "Complete it, or have it assigned.")
    if task.type == "PULL_WORKFLOW_MESSAGES":
        return _said(
            task, Code.MESSAGE, f"{_named(task)} waits for a message to this run.",
            "Send one (POST /api/workflow/{id}/messages), or complete the task.",
        )  # fmt: skip
    if task.id in around.lost:
        return why_lost(around.lost[task.id])
    if task.type == "WAIT_FOR_WEBHOOK":
        return _said(
            task, Code.WEBHOOK, f"{_named(task)} waits for a delivery to {wanted(task.awaits or {})}.",
            "See that its sender delivers (POST /api/webhook/{id}), or complete the task.",
        )  # fmt: skip
    return _said(
        task, Code.SIGNAL, f"{_named(task)} ({task.type}) waits to be completed from outside.",
        f"{'Signal the run, or complete' if task.type == 'YIELD' else 'Complete'} the task "
        f"(POST /api/tasks/{{workflowId}}/{task.ref}/COMPLETED).",
    )  # fmt: skip


def _in_queue(task: OpenPicture, around: Surroundings) -> Reason:
    if not task.queued or task.visible_at is None:
        return _said(
            task, Code.NO_QUEUE_ROW, f"{_named(task)} should stand in the queue {task.queue} and does not.",
            "Report this as a bug; cancel the task and retry the run.",
        )  # fmt: skip
    if task.lease_expires_at is not None:
        return _leased(task, task.lease_expires_at, around)
    if task.visible_at > around.now:
        why = "its worker asked to be called back" if task.callback_seconds else "a start delay or the pause of a retry"
        return _said(
            task, Code.DELAYED, f"{_named(task)} may run from {moment(task.visible_at)}: {why}.",
            "Wait, or reset the callbacks to hand it out now.", until=task.visible_at,
        )  # fmt: skip
    if task.held:
        return _said(
            task, Code.HELD, f"{_named(task)} waits for another task of this run to end: maxConcurrentTasks are handed out.",
            "Wait, or raise maxConcurrentTasks.",
        )  # fmt: skip
    limit = around.limits.get(task.name)
    if limit is not None and limit.counted:
        return _said(
            task, Code.LIMITED, f"{_named(task)} may not be handed out yet: {limit.counted}.",
            f"Wait, or raise the limit in the task definition {task.name!r}.",
        )  # fmt: skip
    if limit is not None and limit.permits:
        return _said(
            task, Code.SEMAPHORE, f"{_named(task)} waits for permits: {limit.permits}.",
            "Wait for the holders, or raise the semaphore's permits (PUT /api/semaphores/{name}).",
        )  # fmt: skip
    return _ready(task, around)


def _leased(task: OpenPicture, until: datetime, around: Surroundings) -> Reason:
    if until > around.now:
        return _said(
            task, Code.LEASED, f"The worker {task.worker_id} holds {_named(task)} until {moment(until)}.",
            "Wait for the worker; its lease is handed to another one if it does not answer.", until=until,
        )  # fmt: skip
    late = duration((around.now - until).total_seconds())
    return _said(
        task, Code.LEASE_EXPIRED,
        f"The worker {task.worker_id} held {_named(task)} and its lease ended {late} ago, at {moment(until)}.",
        "A timekeeper hands it out again; see that `run_timekeeper` is running.", until=until,
    )  # fmt: skip


def _ready(task: OpenPicture, around: Surroundings) -> Reason:
    queue = around.queues.get(task.queue or "")
    polled = queue.last_poll_at if queue else None
    waiting = queue.waiting if queue else 1
    if polled is not None and polled > around.now - _POLLED_WITHIN:
        return _said(
            task, Code.QUEUED,
            f"{_named(task)} waits in the queue {task.queue}, where {_counted(waiting)} tasks wait; workers ask for it.",
            "Wait, or start more workers.",
        )  # fmt: skip
    asked = f"nobody has asked for it since {moment(polled)}" if polled else "nobody has ever asked for it"
    return _said(
        task, Code.NO_WORKER, f"{_named(task)} waits in the queue {task.queue} for a worker: {asked}.",
        f"Start a worker for {task.name!r}" + (f" in the domain {task.domain!r}." if task.domain else "."),
    )  # fmt: skip


def _wait(task: OpenPicture, around: Surroundings) -> Reason:
    timer = around.timers.get(task.id)
    if timer is None and task.timed:
        return _said(
            task, Code.TIMER_LOST, f"{_named(task)} should end by itself, and its timer is gone.",
            "Complete the task, and report this as a bug.",
        )  # fmt: skip
    if timer is None:
        return _said(
            task, Code.SIGNAL, f"{_named(task)} waits for a signal.", "Signal it, or complete the task."
        )  # fmt: skip
    if timer.quarantined:
        return _said(
            task, Code.TIMER_QUARANTINED,
            f"{_named(task)} has a timer that could not fire and was put aside: {timer.last_error}",
            _RELEASE_TIMER, timer_id=timer.id,
        )  # fmt: skip
    if timer.attempts:
        return _said(
            task, Code.TIMER_FAILED,
            f"The timer of {_named(task)} failed {timer.attempts} times ({timer.last_error}); it is tried again at "
            f"{moment(timer.due_at)}.", "Mend the cause.", until=timer.due_at, timer_id=timer.id,
        )  # fmt: skip
    if timer.due_at < around.now - _TIMER_SLACK:
        return _said(
            task, Code.TIMER_LATE,
            f"{_named(task)} was to end at {moment(timer.due_at)}, and nobody fires its timer.",
            "See that `run_timekeeper` is running and keeps up.", until=timer.due_at, timer_id=timer.id,
        )  # fmt: skip
    return _said(
        task, Code.TIMER, f"{_named(task)} waits until {moment(timer.due_at)}.", "Wait, or complete the task.",
        until=timer.due_at, timer_id=timer.id,
    )  # fmt: skip


def _run_of(task: OpenPicture, around: Surroundings) -> Reason:
    """A task that ends with another run, or with that run's start."""
    child = around.children.get(task.sub_workflow_id) if task.sub_workflow_id else None
    if child is not None and child.ended:
        return _said(
            task, Code.CHILD_NOT_REPORTED,
            f"{_named(task)} waits for the run {child.id} of {child.name}, which has ended {child.status} already.",
            "Complete the task, and report this as a bug.", related=child.id,
        )  # fmt: skip
    if child is not None:
        return _said(
            task, Code.CHILD, f"{_named(task)} waits for the run {child.id} of {child.name}, which is {child.status}.",
            "Ask the same of that run.", related=child.id,
        )  # fmt: skip
    event = around.deliveries.get(task.id)
    if event is None:
        return _said(
            task, Code.CHILD_LOST, f"{_named(task)} waits for a run that does not exist and that nobody will start.",
            "Cancel the task and retry the run; report this as a bug.", related=task.sub_workflow_id,
        )  # fmt: skip
    return _undelivered(task, event)


def _undelivered(task: OpenPicture, event: DeliveryPicture) -> Reason:
    about: dict[str, Any] = {"related": event.workflow_id, "event_id": event.id}
    if event.dead:
        return _said(
            task, Code.DELIVERY_DEAD,
            f"The run that {_named(task)} starts could not be started in {event.attempts} attempts: {event.last_error}",
            "Mend the cause, then replay the dead letter (manage.py replay_dead_letters).", **about,
        )  # fmt: skip
    if event.last_error:
        return _said(
            task, Code.DELIVERY_FAILED,
            f"The run that {_named(task)} starts could not be started yet ({event.last_error}); attempt "
            f"{event.attempts + 1} is at {moment(event.next_attempt_at)}.", "Mend the cause.",
            until=event.next_attempt_at, **about,
        )  # fmt: skip
    return _said(
        task, Code.CHILD_STARTING, f"The run that {_named(task)} starts is on its way.",
        "Wait; if it lasts, see that `run_relay` is running.", **about,
    )  # fmt: skip


def why_lost(dead: DeadEventPicture) -> Reason:
    """Why the event of a task had no effect, or not all of it; or what came for a task."""
    what = f"The event {dead.event} of {_named(dead)} could not be given to "
    what += f"its handler {dead.handler}" if dead.handler else "its handlers"
    if dead.incoming:
        what = f"A delivery to {dead.event} could not end {_named(dead)}"
    return _said(
        dead, Code.DELIVERY_DEAD, f"{what} in {dead.attempts} attempts: {dead.last_error}",
        f"Mend the cause, then replay the dead letter (manage.py replay_dead_letters {dead.event_id}, or POST "
        "/api/quarantine).", event_id=dead.event_id,
    )  # fmt: skip


def _container(task: OpenPicture) -> Reason:
    state = task.state or {}
    if task.type == "DO_WHILE":
        what = f"is in turn {state.get('iteration', 1)}"
    elif "pending" in state:
        what = "waits for " + ", ".join(state["pending"][:10])
    else:
        what = f"waits for {state.get('left', 'its')} branches"
    return _said(task, Code.JOINS, f"{_named(task)} {what}.", "Look at the tasks inside it.")


def _said(task: OpenPicture | DeadEventPicture, code: Code, message: str, action: str, **more: Any) -> Reason:
    return Reason(code, message[0].upper() + message[1:], action, task.ref, task.iteration, task.id, **more)


def _named(task: OpenPicture | DeadEventPicture) -> str:
    turn = f" (turn {task.iteration})" if task.iteration else ""
    attempt = f", attempt {task.attempt + 1}" if task.attempt else ""
    return f"the task {task.ref}{turn}{attempt}"


def _counted(number: int) -> str:
    return f"{number} or more" if number >= 100 else str(number)
