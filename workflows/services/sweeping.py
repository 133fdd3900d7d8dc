"""The sweeper that should find nothing, and the checks of the invariants. Each find is a bug report."""

from __future__ import annotations

from typing import Any

import structlog
from prometheus_client import Counter

from orchestrator.conf import conf
from orchestrator.db.hints import DECIDE, hint
from orchestrator.db.transactions import transaction
from workflows.managers.history import NewEvent
from workflows.managers.invariants import CHECKS, InvariantQueries
from workflows.models import DecideQueue, Execution, HistoryEvent

log = structlog.get_logger(__name__)
FOUND = Counter("ostinato_swept_runs_total", "Runs the sweeper had to wake: each is a bug")


def sweep() -> int:
    """Wake runs that nothing else could ever wake, and say so in their history; returns how many."""
    stuck = Execution.sql.stuck(idle=conf().STUCK_SECONDS, batch=100)
    for workflow_id in stuck:
        with transaction():
            DecideQueue.sql.enqueue([workflow_id])
            message = "Nothing could ever have woken this run; the sweeper did. Please report it as a bug."
            HistoryEvent.sql.append([NewEvent(workflow_id, "workflow.swept", {"message": message})])
            hint(DECIDE)
        FOUND.inc()
        log.error("run_swept", workflow_id=str(workflow_id))
    return len(stuck)


def invariant_report() -> dict[str, list[dict[str, Any]]]:
    """Check name -> what breaks it; an empty list each in a healthy system."""
    queries = InvariantQueries()
    return {name: getattr(queries, name)() for name in CHECKS}
