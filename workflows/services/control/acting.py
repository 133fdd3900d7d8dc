"""The frame of every operator action: gates, row locks, the check of the state, the audit entry; one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from orchestrator.conf import conf
from orchestrator.db.hints import DECIDE, hint
from orchestrator.db.transactions import transaction
from orchestrator.errors import IllegalState, NotFound, OstinatoError
from orchestrator.models import AuditEntry
from workflows.engine.state import WorkflowStatus
from workflows.managers.execution import LockedExecution
from workflows.managers.history import NewEvent
from workflows.models import DecideQueue, Execution, HistoryEvent

T = TypeVar("T")
RUNNING, PAUSED = WorkflowStatus.RUNNING, WorkflowStatus.PAUSED
OPEN = (RUNNING, PAUSED)
FAILED = (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT, WorkflowStatus.TERMINATED)
ENDED = (WorkflowStatus.COMPLETED, *FAILED)

_ALLOWED: dict[str, tuple[WorkflowStatus, ...]] = {
    "pause": (RUNNING,),
    "resume": (PAUSED,),
    "terminate": OPEN,
    "retry": FAILED,
    "restart": ENDED,
    "rerun": ENDED,
    "skip_task": OPEN,
    "cancel_task": OPEN,
    "complete_task": OPEN,
    "nudge": OPEN,
    "update_variables": OPEN,
    "push_message": (RUNNING,),
    "reset_callbacks": OPEN,
    "remove": ENDED,
    "terminate_remove": (*OPEN, *ENDED),
}


def available_actions(status: str) -> tuple[str, ...]:
    """The actions that make sense for a run in this status, in the order a page shows them."""
    return tuple(action for action, allowed in _ALLOWED.items() if status in allowed)


def perform(
    action: str,
    namespace: str,
    workflow_id: UUID,
    actor: str,
    body: Callable[[LockedExecution], T],
    *,
    detail: dict[str, Any] | None = None,
    with_parent: bool = False,
    then: Callable[[T], None] | None = None,
) -> T:
    """Run `body` on the locked run in one transaction, audited; a refusal is audited by itself. [INV-4]

    `with_parent` takes the parent's gate in the same sorted statement, for bodies that may end the run. [INV-12]
    `then` is told the result inside the transaction; what it raises undoes the action.
    """

    def act() -> T:
        parent = parent_of(namespace, workflow_id) if with_parent else None
        result = body(lock(namespace, workflow_id, [parent] if parent else []))
        if then is not None:
            then(result)
        return result

    return audited(action, namespace, workflow_id, actor, act, detail=detail)


def audited(
    action: str,
    namespace: str,
    workflow_id: UUID,
    actor: str,
    body: Callable[[], T],
    *,
    detail: dict[str, Any] | None = None,
) -> T:
    """Run `body` in one transaction together with its audit entry."""

    def record(outcome: str, **more: Any) -> None:
        AuditEntry.sql.record(
            namespace=namespace, actor=actor, action=f"workflow.{action}", target=str(workflow_id), outcome=outcome,
            detail={**(detail or {}), **more},
        )  # fmt: skip

    try:
        with transaction():
            result = body()
            hint(DECIDE)
            record("done")
            return result
    except OstinatoError as error:
        with transaction():
            record("refused", code=error.code, reason=error.message)
        raise


def lock(namespace: str, workflow_id: UUID, others: Iterable[UUID] = ()) -> LockedExecution:
    """Hold the gates of the run and of `others` in one sorted statement, then lock the run's row."""
    DecideQueue.sql.enqueue({workflow_id, *others})
    runs = Execution.sql.lock([workflow_id])
    if not runs or runs[0].namespace != namespace:
        raise missing(workflow_id)
    return runs[0]


def parent_of(namespace: str, workflow_id: UUID) -> UUID | None:
    """The run's parent, which never changes; raises NotFound."""
    found = Execution.sql.parent_of(workflow_id)
    if found is None or found[0] != namespace:
        raise missing(workflow_id)
    return found[1]


def ancestors(namespace: str, workflow_id: UUID) -> list[UUID]:
    """The run's parent, its parent, and so on: known before any lock is taken, because none of it ever changes."""
    chain: list[UUID] = []
    above = parent_of(namespace, workflow_id)
    while above is not None and len(chain) <= conf().MAX_DEPTH:
        found = Execution.sql.parent_of(above)
        if found is None:
            break
        chain.append(above)
        above = found[1]
    return chain


def missing(workflow_id: UUID | str) -> NotFound:
    """The refusal for a run that does not exist, or not in this namespace."""
    return NotFound(f"No such workflow found by id: {workflow_id}")


def require(run: LockedExecution | Execution, action: str) -> None:
    """Raise IllegalState unless the action is allowed in the run's present status."""
    if run.status not in _ALLOWED[action]:
        refuse(run, action)


def refuse(run: LockedExecution | Execution, action: str, why: str | None = None) -> NoReturn:
    """Raise IllegalState with the present status and what is allowed."""
    wanted = _listed([status.value for status in _ALLOWED[action]])
    allowed = _listed(available_actions(run.status))
    reason = why or f"{action} needs a workflow that is {wanted}"
    raise IllegalState(
        f"Workflow {run.id} is {run.status}: {reason}. Allowed now: {allowed}.", workflow_id=run.id, status=run.status
    )


def note(workflow_id: UUID, event: str, actor: str, ref: str | None = None, **data: Any) -> None:
    """Append an event to the run's history and wake its readers."""
    HistoryEvent.sql.append([NewEvent(workflow_id, event, {"actor": actor, **data}, ref=ref)])
    hint(history=[workflow_id])


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else "".join(words)
