"""Claims of a HUMAN task, raced: the write alone decides. [INV-9]"""

from __future__ import annotations

from uuid import UUID

import pytest

from orchestrator.db.transactions import transaction
from orchestrator.errors import Conflict, IllegalState, OstinatoError
from tests import flows
from tests.support import Contender, race
from workflows.managers.human_task import Claimant, StoredHumanTask
from workflows.models import HistoryEvent, HumanTask, Task
from workflows.services import human_tasks
from workflows.services.sweeping import invariant_report

pytestmark = pytest.mark.usefixtures("committed")
ANN, BOB = Claimant("ann"), Claimant("bob")


def waiting() -> HumanTask:
    run = flows.start(flows.register({"name": "h", "taskReferenceName": "h", "type": "HUMAN"}))
    flows.drain()
    found: HumanTask = HumanTask.objects.get(workflow_id=run)
    return found


@pytest.mark.invariant("INV-9")
def test_two_who_claim_a_task_at_once_get_one_winner_and_one_conflict() -> None:
    """The second has read an unclaimed task and waits in its write for the first to commit."""
    task = waiting()
    with transaction():
        assert HumanTask.sql.claim(task.workflow_id, task.id, ANN) is not None
        other = Contender(lambda: human_tasks.claim(flows.NAMESPACE, task.id, BOB)).until_blocked()
    refused = other.outcome()
    assert isinstance(refused, Conflict), refused
    assert "claimed by ann" in refused.message
    assert HumanTask.objects.get(id=task.id).claimed_by == "ann"


@pytest.mark.invariant("INV-9")
def test_eight_who_claim_a_task_at_once_have_one_winner() -> None:
    task = waiting()
    outcomes = race(8, lambda i: human_tasks.claim(flows.NAMESPACE, task.id, Claimant(f"person {i}")))
    (winner,) = [found for found in outcomes if isinstance(found, StoredHumanTask)]
    assert sum(isinstance(found, Conflict) for found in outcomes) == 7, outcomes
    assert HumanTask.objects.get(id=task.id).claimed_by == winner.claimed_by


@pytest.mark.invariant("INV-9")
def test_an_answer_waits_for_the_claim_of_another_and_is_refused() -> None:
    task = waiting()
    with transaction():
        assert HumanTask.sql.claim(task.workflow_id, task.id, ANN) is not None
        other = Contender(lambda: human_tasks.complete(flows.NAMESPACE, task.id, {"by": "bob"}, BOB)).until_blocked()
    assert isinstance(other.outcome(), Conflict)
    assert Task.objects.get(id=task.id).status == "IN_PROGRESS"


def test_of_eight_who_answer_at_once_one_is_taken() -> None:
    task = waiting()

    def answer(i: int) -> UUID:
        return human_tasks.complete(flows.NAMESPACE, task.id, {"by": i}, Claimant(f"person {i}")).id

    outcomes = race(8, answer)
    assert outcomes.count(task.id) == 1, outcomes
    assert sum(isinstance(found, (Conflict, IllegalState)) for found in outcomes) == 7, outcomes
    ended = Task.objects.get(id=task.id)
    assert ended.worker_id == f"person {ended.output['by']}"
    assert HistoryEvent.objects.filter(workflow_id=task.workflow_id, type="task.completed").count() == 1
    flows.drain()
    assert flows.status(task.workflow_id) == "COMPLETED"
    assert {check: rows for check, rows in invariant_report().items() if rows} == {}


def test_claims_and_answers_that_meet_neither_deadlock_nor_lose_the_task() -> None:
    tasks = [waiting() for _ in range(4)]

    def act(i: int) -> str:
        who = Claimant(f"person {i % 2}")
        for task in tasks if i % 2 else reversed(tasks):
            for step in (human_tasks.claim, human_tasks.release, human_tasks.claim):
                try:
                    step(flows.NAMESPACE, task.id, who)
                except OstinatoError:
                    continue
            try:
                human_tasks.complete(flows.NAMESPACE, task.id, {"by": who.name}, who)
            except OstinatoError:
                continue
        return "done"

    assert race(4, act) == ["done"] * 4
    flows.drain()
    assert not HumanTask.objects.exists(), "the last to claim a task has answered it"
    assert all(flows.status(task.workflow_id) == "COMPLETED" for task in tasks)
