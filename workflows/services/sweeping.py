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
from workflows.services.explaining import explain

log = structlog.get_logger(__name__)
FOUND = Counter("ostinato_swept_runs_total", "Runs the sweeper had to wake: each is a bug")


def sweep() -> int:
    """Wake runs that nothing else could ever wake, and say in their history what was missing; returns how many."""
    found = 0
    for namespace, workflow_id in Execution.sql.stuck(idle=conf().STUCK_SECONDS, batch=100):
        missing = explain(namespace, workflow_id).bugs
        if not missing:
            continue  # it moved meanwhile
        codes = sorted({reason.code.value for reason in missing})
        with transaction():
            DecideQueue.sql.enqueue([workflow_id])
            words = " ".join(reason.message for reason in missing[:5])
            message = f"{words} The sweeper asked for a pass. Please report it as a bug."
            HistoryEvent.sql.append([NewEvent(workflow_id, "workflow.swept", {"codes": codes, "message": message})])
            hint(DECIDE)
        FOUND.inc()
        log.error("run_swept", workflow_id=str(workflow_id), codes=codes)
        found += 1
    return found


def invariant_report() -> dict[str, list[dict[str, Any]]]:
    """Check name -> what breaks it; an empty list each in a healthy system."""
    queries = InvariantQueries()
    return {name: getattr(queries, name)() for name in CHECKS}
