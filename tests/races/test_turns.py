"""Who comes when tasks are handed out: tenants on shared queues, and permits that are refused or outlive nothing. [INV-7c]"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dispatch.models import QueuedTask
from dispatch.services import dispatching, leasing, limiting
from orchestrator.db.transactions import transaction
from orchestrator.errors import Conflict
from tests import flows
from tests.races.test_limits import expire, held, leftovers, limited, semaphore
from tests.support import Contender
from workflows.managers.task import StartedTask
from workflows.models import Task, TaskDefinition
from workflows.services import definitions

pytestmark = pytest.mark.usefixtures("committed")


def calls(namespace: str, count: int) -> None:
    """So many HTTP tasks of a tenant, ready on the queue that all tenants share."""
    branches = [
        [{"name": "c", "taskReferenceName": f"c{i}", "type": "HTTP", "inputParameters": {"uri": "x"}}]
        for i in range(count)
    ]
    definitions.register(namespace, {"name": "calls", "tasks": flows.fork("f", *branches)}, overwrite=True)
    flows.start("calls", namespace=namespace)
    flows.drain()


def serve(batch: int) -> Counter[str]:
    """How many tasks of each tenant a system worker gets."""
    leased = dispatching.lease_system_tasks(["HTTP"], batch=batch, worker_id="w")
    return Counter(QueuedTask.objects.filter(id__in=[task.id for task in leased]).values_list("namespace", flat=True))


@pytest.mark.invariant("INV-13")
def test_a_tenants_backlog_does_not_crowd_others_out() -> None:
    serve(6)
    for tenant, count in (("large", 30), ("b", 2), ("c", 3)):
        calls(tenant, count)
    assert serve(6) == {"large": 2, "b": 2, "c": 2}
    assert serve(6) == {"large": 5, "c": 1}  # what others leave is first come, first served


def test_more_tenants_than_a_batch_holds_take_turns() -> None:
    serve(2)
    for tenant in "abcde":
        calls(tenant, 5)
    assert set(serve(2) + serve(2) + serve(2)) == set("abcde")


def lease_open(queue: str) -> list[StartedTask]:
    """Lease what a limited queue gives, in the caller's transaction, which stays open."""
    key = (flows.NAMESPACE, queue)
    rooms = limiting.lock([key])
    leases = QueuedTask.sql.lease_named(*key, queue, room=1, worker_id="one", lease_seconds=60, renewed=False)
    return leasing._start(leases, "one", rooms)


@pytest.mark.invariant("INV-7c")
def test_a_task_that_is_refused_one_permit_holds_no_other_and_goes_straight_back() -> None:
    taken, free = semaphore(1), semaphore(1)
    one, both = limited(1, semaphores=[taken]), limited(1, semaphores=[taken, free])
    with transaction():
        assert len(lease_open(one)) == 1
        other = Contender(lambda: flows.lease(both)).until_blocked()
    assert other.result() == []
    assert (held(taken), held(free)) == (1, 0)
    assert QueuedTask.objects.get(queue=both).lease_token is None
    assert leftovers() == {}


@pytest.mark.invariant("INV-7c")
def test_an_attempt_that_was_handed_out_too_often_gives_its_permit_back(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "MAX_REDELIVERIES": 0}
    name = semaphore(1)
    queue = limited(1, semaphores=[name])
    (task,) = flows.lease(queue, worker_id="crashes")
    expire(task)
    assert dispatching.reclaim_next_batch() == 1
    assert Task.objects.get(id=task.id).status == "TIMED_OUT" and held(name) == 0


@pytest.mark.invariant("INV-9")
def test_a_semaphore_is_not_removed_under_a_definition_that_is_being_registered() -> None:
    name, queue = semaphore(1), flows.unique("q")
    with transaction():
        definitions._hold_semaphores(flows.NAMESPACE, {"": {"name": queue, "semaphores": [name]}})
        TaskDefinition.sql.upsert(flows.NAMESPACE, queue, {"name": queue, "semaphores": [name]})
        removal = Contender(lambda: limiting.delete_semaphore(flows.NAMESPACE, name)).until_blocked()
    assert isinstance(removal.outcome(), Conflict)
    assert held(name) == 0


def test_a_queue_that_is_polled_in_vain_is_shown_as_waiting() -> None:
    name = semaphore(1)
    queue = limited(3, semaphores=[name])
    assert len(flows.lease(queue)) == 1 and flows.lease(queue) == []
    (waiter,) = limiting.get_semaphore(flows.NAMESPACE, name).waiters
    assert (waiter.queue, waiter.name, waiter.ready) == (queue, queue, 2)
