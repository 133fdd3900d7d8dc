"""One action on many runs, each in its own transaction, with a result for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from orchestrator.errors import Invalid, OstinatoError
from workflows.services.control import lifecycle, removing, rerunning

_ACTIONS: dict[str, Callable[..., Any]] = {
    "pause": lifecycle.pause,
    "resume": lifecycle.resume,
    "terminate": lifecycle.terminate,
    "retry": rerunning.retry,
    "restart": rerunning.restart,
    "remove": removing.remove,
    "terminate_remove": removing.terminate_remove,
    "nudge": lifecycle.nudge,
}


@dataclass(frozen=True, slots=True)
class BulkItem:
    """What became of one run; `error` None means that it was done."""

    workflow_id: UUID
    error: OstinatoError | None = None


def bulk(namespace: str, action: str, ids: Sequence[UUID], *, actor: str, **options: Any) -> list[BulkItem]:
    """Do one action on each run, in the given order, a run named twice once; refusals are results, not exceptions."""
    perform = _ACTIONS.get(action)
    if perform is None:
        raise Invalid(problems=[("action", f"expected one of {', '.join(_ACTIONS)}, got {action!r}")])
    results = []
    for workflow_id in dict.fromkeys(ids):
        try:
            perform(namespace, workflow_id, actor=actor, **options)
        except OstinatoError as error:
            results.append(BulkItem(workflow_id, error))
        else:
            results.append(BulkItem(workflow_id))
    return results
