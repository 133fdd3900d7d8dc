"""The recorder sees what is out of order; every other race is watched by it."""

from __future__ import annotations

import pytest

from dispatch.models import QueuedTask
from orchestrator.db.ids import new_id
from orchestrator.db.locks import Advisory, advisory_key, take_advisory
from orchestrator.db.transactions import transaction
from tests.lock_order import LockOrderRecorder
from workflows.models import DecideQueue, Execution

pytestmark = pytest.mark.usefixtures("committed")


@pytest.mark.invariant("INV-12")
def test_a_gate_behind_a_queue_row_is_a_violation(lock_order: LockOrderRecorder) -> None:
    with transaction():
        QueuedTask.sql.delete_for_tasks([new_id()])
        DecideQueue.sql.enqueue([new_id()])
    assert len(lock_order.violations) == 1
    lock_order.violations.clear()


@pytest.mark.invariant("INV-12")
def test_an_advisory_lock_behind_a_row_lock_is_a_violation(lock_order: LockOrderRecorder) -> None:
    with transaction():
        Execution.sql.lock([new_id()])
        take_advisory([advisory_key(Advisory.QUEUE, "default", "q")])
    assert len(lock_order.violations) == 1
    lock_order.violations.clear()


def test_the_written_order_is_none(lock_order: LockOrderRecorder) -> None:
    with transaction():
        take_advisory([advisory_key(Advisory.QUEUE, "default", "q")])
        DecideQueue.sql.enqueue([new_id()])
        Execution.sql.lock([new_id()])
        QueuedTask.sql.delete_for_tasks([new_id()])
    assert lock_order.violations == []
