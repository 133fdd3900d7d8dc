"""Every statement on the tables of runs names its run or its queue, so that a database spread by run can route it.

docs/scaling.md says what that is for; what names neither stands in EXCEPTIONS with its reason.
"""

from __future__ import annotations

import re

import pytest

from orchestrator.db.sql import load
from tests.lock_order import FILES

TABLES = {
    "workflows_execution": "id",
    "workflows_task": "workflow_id",
    "workflows_historyevent": "workflow_id",
    "workflows_tasklog": "workflow_id",
    "workflows_message": "workflow_id",
    "workflows_offloaded": "workflow_id",
    "workflows_decidequeue": "workflow_id",
    "workflows_timer": "workflow_id",
    "workflows_humantask": "workflow_id",
    "dispatch_queuedtask": "workflow_id",
    "outbox_event": "id",
}
"""Tables that grow with the runs, and the column that they would be spread by."""
INSTRUMENTS = {"invariants.sql", "measuring.sql", "explaining.sql"}
"""Questions of operators and sweepers about the whole system; no run waits for them."""

SWEEP = "takes whatever is ready: a loop for each node does it on that node's rows"
BY_TASK = "names the task alone; its callers know the run as well, which the statement would carry"
BY_TIMER = "names the timer alone; the peek before it read the run as well"
KEYS = "deletes keys whose run is gone: a loop for each node does it on that node's keys"
BY_LETTER = "asks for the runs that dead letters name: on the letter's node, then on those runs'"
BY_REVISION = "asks every node whether one of its runs names a revision"
BY_KEY = "finds the run that a key belongs to: on the key's node, then on the run's, for starts that bring a key"
LIMIT = "counts for a limit, which holds for the whole system; sent only where one is set"
OUTSIDE = "what comes from outside may be for any run; asks every node"
READ = "a person's or a client's read; asks every node"
EXCEPTIONS = {
    "workflows.decide_queue.claim": SWEEP,
    "workflows.decide_queue.peek_overdue": SWEEP,
    "workflows.decide_queue.peek_reports": SWEEP,
    "workflows.dead_letter.peek_idle": BY_LETTER,
    "workflows.execution.stuck": SWEEP,
    "workflows.revision.peek_unused": BY_REVISION,
    "workflows.admission.count_running": LIMIT,
    "workflows.idempotency.find": BY_KEY,
    "workflows.idempotency.owners": BY_KEY,
    "workflows.idempotency.prune": KEYS,
    "workflows.offloaded.unnamed": "asks whether any run names an object before it is removed; asks every node",
    "workflows.timer.peek_due": SWEEP,
    "workflows.timer.claim": BY_TIMER,
    "workflows.timer.record_failure": BY_TIMER,
    "workflows.timer.release": BY_TIMER,
    "workflows.task.find": BY_TASK,
    "workflows.task.find_awaiting": OUTSIDE,
    "workflows.task_log.read": READ,
    "workflows.human_task.find": READ,
    "workflows.human_task.page": READ,
    "dispatch.task_queue.lease_shared": SWEEP,
    "dispatch.task_queue.peek_expired": SWEEP,
    "dispatch.task_queue.drop": BY_TASK,
    "dispatch.task_queue.renew": BY_TASK,
    "dispatch.task_queue.acknowledge": BY_TASK,
    "dispatch.task_queue.defer": BY_TASK,
    "dispatch.task_queue.delete_for_tasks": BY_TASK,
    "dispatch.task_queue.reclaim": BY_TASK,
    "dispatch.task_queue.exhaust": BY_TASK,
    "dispatch.task_queue.put_off": BY_TASK,
    "dispatch.task_queue.hold": BY_TASK,
    "dispatch.task_queue.holders": BY_TASK,
    "dispatch.task_queue.give_back": BY_TASK,
    "dispatch.task_queue.in_flight": LIMIT,
    "dispatch.permit.holders": READ,
    "dispatch.task_queue.sizes": READ,
    "outbox.outbox.claim": SWEEP,
    "outbox.outbox.prune": SWEEP,
}


def is_routable(text: str) -> bool:
    """Whether each table of runs in a statement is reached by its column or by a queue, from a parameter on."""
    bare = re.sub(r"--.*", "", text)
    return all(
        re.search(rf"\b{column}\s*=\s*(ANY\s*\(\s*)?(\w+\(\s*)*%\(", bare)
        or re.search(rf"\b{column}\s*=\s*[ur]\.(workflow_)?id\b", bare)
        or re.search(rf"INSERT INTO {table}( AS \w+)? \([^)]*\b{column}\b", bare)
        or re.search(r"\bqueue\s*=\s*(%\(|[a-z]\.queue)", bare)
        for table, column in TABLES.items()
        if re.search(rf"\b{table}\b", bare)
    )


STATEMENTS = {
    statement.name: statement.text
    for app, file in FILES
    if file not in INSTRUMENTS
    for statement in load(app, file).statements.values()
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_names_its_run_or_its_queue(name: str) -> None:
    if name in EXCEPTIONS:
        assert not is_routable(STATEMENTS[name]), f"{name} is routable now: take it off the exceptions"
        return
    assert is_routable(STATEMENTS[name]), (
        f"{name}: let it name its run ({', '.join(f'{t}.{c}' for t, c in TABLES.items())}) or its queue, "
        "or put it among the exceptions with the reason"
    )


def test_no_exception_outlives_its_statement() -> None:
    assert set(EXCEPTIONS) <= set(STATEMENTS)
