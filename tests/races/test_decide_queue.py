"""The gate of a run: claims, enqueues and what they make each other wait for."""

from __future__ import annotations

from uuid import UUID

import pytest

from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from tests.support import Contender, race
from workflows.models import DecideQueue
from workflows.services.evaluation import evaluate_for_client

pytestmark = pytest.mark.usefixtures("committed")


def requested() -> UUID:
    """A run with a committed request."""
    workflow_id = new_id()
    with transaction():
        DecideQueue.sql.enqueue([workflow_id])
    return workflow_id


def claimed(workflow_id: UUID) -> list[UUID]:
    with transaction():
        return [request.workflow_id for request in DecideQueue.sql.claim_waiting(workflow_id)]


@pytest.mark.invariant("INV-2")
def test_a_claim_returns_only_after_the_completion_that_enqueued_has_committed() -> None:
    """The order is what matters: DO NOTHING takes no lock and lets the claim overtake the completion."""
    workflow_id = requested()
    with transaction():
        DecideQueue.sql.enqueue([workflow_id])
        claim = Contender(lambda: claimed(workflow_id)).until_blocked()
    assert claim.result() == [workflow_id]


@pytest.mark.invariant("INV-2")
def test_a_batch_claim_leaves_the_request_of_an_uncommitted_completion() -> None:
    workflow_id = requested()

    def batch() -> list[UUID]:
        with transaction():
            return [request.workflow_id for request in DecideQueue.sql.claim(batch=10)]

    with transaction():
        DecideQueue.sql.enqueue([workflow_id])
        assert Contender(batch).result() == []
    assert batch() == [workflow_id]


@pytest.mark.invariant("INV-1")
def test_an_enqueue_during_a_pass_earns_another_pass() -> None:
    workflow_id = requested()

    def enqueue() -> None:
        with transaction():
            DecideQueue.sql.enqueue([workflow_id])

    with transaction():
        assert DecideQueue.sql.claim_waiting(workflow_id)
        contender = Contender(enqueue).until_blocked()
    contender.result()
    assert claimed(workflow_id) == [workflow_id]


@pytest.mark.invariant("INV-1")
def test_a_rollback_restores_the_claim() -> None:
    workflow_id = requested()
    with pytest.raises(RuntimeError), transaction():
        assert DecideQueue.sql.claim_waiting(workflow_id)
        raise RuntimeError("the pass fails")
    assert claimed(workflow_id) == [workflow_id]


@pytest.mark.invariant("INV-4")
def test_ten_claims_of_one_run_have_one_winner() -> None:
    workflow_id = requested()
    results = race(10, lambda _: claimed(workflow_id))
    assert sorted(map(len, results)) == [0] * 9 + [1]  # type: ignore[arg-type]


@pytest.mark.invariant("INV-12")
def test_enqueues_of_the_same_runs_in_opposite_orders_do_not_deadlock() -> None:
    ids = [requested() for _ in range(20)]

    def enqueue(number: int) -> None:
        for _ in range(20):
            with transaction():
                DecideQueue.sql.enqueue(ids if number % 2 else reversed(ids))

    assert race(4, enqueue) == [None] * 4


@pytest.mark.invariant("INV-13")
def test_a_failing_run_backs_off_alone_and_is_quarantined() -> None:
    poison, good = requested(), requested()
    for _ in range(3):
        with transaction():
            DecideQueue.sql.record_failure(poison, "boom", max_attempts=3)
    row = DecideQueue.objects.get(workflow_id=poison)
    assert (row.attempts, row.quarantined, row.last_error) == (3, True, "boom")
    with transaction():
        assert [request.workflow_id for request in DecideQueue.sql.claim(batch=10)] == [good]
    with transaction():
        DecideQueue.sql.enqueue([poison])
    row = DecideQueue.objects.get(workflow_id=poison)
    assert (row.attempts, row.quarantined) == (3, True), "an enqueue keeps attempts and quarantine"
    with transaction():
        assert DecideQueue.sql.release(poison) == 1
    assert claimed(poison) == [poison]


@pytest.mark.invariant("INV-13")
def test_a_request_that_is_put_back_keeps_its_attempts_and_times() -> None:
    workflow_id = requested()
    with transaction():
        DecideQueue.sql.record_failure(workflow_id, "boom", max_attempts=10)
        DecideQueue.sql.release(workflow_id)
        DecideQueue.sql.record_failure(workflow_id, "boom", max_attempts=10)
    before = DecideQueue.objects.get(workflow_id=workflow_id)
    parent = new_id()
    with transaction():
        requests = DecideQueue.sql.claim_these([workflow_id])
        DecideQueue.sql.put_back([(request, parent) for request in requests])
    after = DecideQueue.objects.get(workflow_id=workflow_id)
    assert (after.attempts, after.enqueued_at, after.next_attempt_at) == (
        before.attempts, before.enqueued_at, before.next_attempt_at,
    )  # fmt: skip
    assert after.reports_to == parent
    with transaction():
        assert DecideQueue.sql.claim(batch=10) == [], "a run that waits for its parent's gate is not claimed in round 1"


def test_a_client_waits_for_the_pass_that_another_process_is_in() -> None:
    """Else it would be answered with a run that has no task yet."""
    workflow_id = requested()
    with transaction():
        assert DecideQueue.sql.claim_these([workflow_id])
        waiting = Contender(lambda: evaluate_for_client(workflow_id)).until_blocked()
    waiting.result()
    assert not DecideQueue.objects.filter(workflow_id=workflow_id).exists()
