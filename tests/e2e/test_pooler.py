"""The whole system through PgBouncer in transaction mode, with no address of the server itself. [B-141]"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import settings

from tests import flows
from tests.pooler import Pooler, pgbouncer
from tests.processes import LOOPS, Processes
from tests.support import eventually, observer
from workflows.models import Execution
from workflows.services import definitions
from workflows.services.sweeping import invariant_report

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(pgbouncer() is None, reason="pgbouncer is not here (scripts/install_test_services)"),
]
RUNS = 20
_ADVISORY = """
SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
 WHERE locktype = 'advisory' AND datname = current_database()
"""


@pytest.fixture
def through_pooler(committed: None, postgres_server: str, tmp_path: object) -> Iterator[Processes]:
    name = str(settings.DATABASES["default"]["NAME"])
    with Pooler(postgres_server) as pooler:
        environment = {
            "DATABASE_URL": pooler.url(name), "DIRECT_URL": "", "OSTINATO_DEMO_OPEN": "true",
            "CHAOS_LEDGER": f"{tmp_path}/ledger",
        }  # fmt: skip
        with Processes(**environment) as processes:
            for role, command in LOOPS.items():
                processes.start(role, *command)
            processes.start("worker", "run_worker", "tests.chaos.tasks", "--idle-seconds", "0.1")
            processes.start_web()
            yield processes


def test_b141_everything_runs_through_a_transaction_pooler(through_pooler: Processes) -> None:
    limited = {
        "retryDelaySeconds": 0,
        "concurrentExecLimit": 2,
        "rateLimitPerFrequency": 1000,
        "rateLimitFrequencyInSeconds": 1,
    }
    definitions.register_tasks(flows.NAMESPACE, [{"name": n, **limited} for n in ("chaos_step", "chaos_flaky")])
    leaf = flows.register(flows.simple("leaf", "chaos_step"))
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1 second"}}
    branches = [[flows.simple("flaky", "chaos_flaky", retryCount=1)], [flows.child("child", leaf)], [wait]]
    name = flows.register(flows.simple("a", "chaos_step"), *flows.fork("f", *branches))
    keyed = {"name": name, "input": {}, "idempotencyKey": "once", "idempotencyStrategy": "RETURN_EXISTING"}
    bodies = [{"name": name, "input": {}}] * (RUNS - 1) + [keyed] * 2
    answers = [through_pooler.request("POST", "/api/workflow", body) for body in bodies]
    assert {status for status, _ in answers} == {200}
    assert len({run for _, run in answers}) == RUNS
    eventually(lambda: not Execution.objects.filter(ended_at=None).exists(), 60)
    assert Execution.objects.filter(name=name, status="COMPLETED").count() == RUNS
    assert {check: rows for check, rows in invariant_report().items() if rows} == {}
    with observer() as watching:
        assert eventually(lambda: watching.execute(_ADVISORY).fetchone() == (0,)), "a lock outlived its transaction"
