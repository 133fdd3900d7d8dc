"""What users reported of backfills."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests import flows
from workflows.models import Execution
from workflows.services import backfilling, control, scheduling

pytestmark = pytest.mark.usefixtures("committed")


@pytest.mark.parametrize("again", ["restart", "rerun"])
def test_b132_a_backfilled_run_that_is_run_again_runs_and_is_shown(again: str) -> None:
    queue, days = flows.unique("q"), timedelta(days=9)
    workflow, begin = flows.register(flows.simple("a", queue)), datetime(2026, 3, 1, 3, tzinfo=UTC)
    request = {"name": workflow, "version": 1, "input": {}}
    given = {"name": flows.unique("s"), "cronExpression": "0 0 3 * * *", "startWorkflowRequest": request}
    scheduling.save(flows.NAMESPACE, given, actor="ann")
    third = backfilling.backfill(flows.NAMESPACE, given["name"], begin, begin + days, actor="ann")[2]
    assert third.workflow_id is not None
    flows.drain()
    flows.complete(flows.lease_all(queue, 10))
    flows.drain()
    getattr(control, again)(flows.NAMESPACE, third.workflow_id, actor="ann")
    flows.drain()
    shown = backfilling.backfill(flows.NAMESPACE, given["name"], begin, begin + days, actor="ann")
    assert [moment.started for moment in shown] == [False] * 10
    assert [moment.status for moment in shown] == ["RUNNING" if n == 2 else "COMPLETED" for n in range(10)]
    flows.finish([queue])
    assert {run.status for run in Execution.objects.filter(name=workflow)} == {"COMPLETED"}
