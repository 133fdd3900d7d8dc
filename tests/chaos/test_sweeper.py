"""The sweeper is killed around its commit: what it found is woken and written down once."""

from __future__ import annotations

import signal
from uuid import UUID

import pytest

from orchestrator.db.transactions import transaction
from tests import flows
from tests.chaos.killable import CRASH_AT
from tests.processes import LOOPS, Processes
from tests.support import eventually
from workflows.models import DecideQueue, HistoryEvent

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def stuck() -> UUID:
    """A run whose request for a pass was lost."""
    run = flows.start(flows.register(flows.simple("a")))
    with transaction():
        DecideQueue.sql.discard([run])
    return run


@pytest.mark.parametrize(("moment", "found"), [("before", 0), ("after", 1)])
def test_a_sweeper_killed_at_its_commit_wakes_a_run_once(stuck: UUID, moment: str, found: int) -> None:
    def swept() -> int:
        return HistoryEvent.objects.filter(workflow_id=stuck, type="workflow.swept").count()

    crash = {CRASH_AT: f"{moment} sweeping.sweep 1"}
    with Processes("tests.chaos.killable", OSTINATO_STUCK_SECONDS="0", **crash) as processes:
        processes.start("timekeeper", *LOOPS["timekeeper"])
        assert processes.running["timekeeper"].wait(30) == -signal.SIGKILL
        assert (swept(), DecideQueue.objects.filter(workflow_id=stuck).count()) == (found, found)
        processes.environment.pop(CRASH_AT)
        processes.start("timekeeper")
        eventually(swept, 30)
        processes.start("decider", *LOOPS["decider"])
        eventually(lambda: flows.statuses(stuck), 30)
    assert swept() == 1
