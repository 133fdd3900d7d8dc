"""Contention at a limit, fifty times over: what holds by luck does not hold fifty times."""

from __future__ import annotations

from uuid import UUID

import pytest

from orchestrator.errors import LimitExceeded
from tests import flows
from tests.races.test_admission import end
from tests.races.test_limits import held, leftovers, limited, semaphore, storm
from tests.support import race
from workflows import start_workflow
from workflows.models import Execution, HistoryEvent, Task
from workflows.services import admission, evaluation

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.stress, pytest.mark.timeout(600)]
TIMES = 50


@pytest.mark.invariant("INV-4")
def test_ten_deciders_of_one_run_fifty_times() -> None:
    queue = flows.unique("q")
    name = flows.register(*flows.fork("f", [flows.simple("a", queue)], [flows.simple("b", queue)]))
    for _ in range(TIMES):
        run = flows.start(name)
        outcomes = race(10, lambda _: evaluation.evaluate_now([run]))  # noqa: B023
        assert [outcome for outcome in outcomes if isinstance(outcome, BaseException)] == []
        flows.drain()
        assert Task.objects.filter(workflow_id=run, ref__in=["a", "b"]).count() == 2
        flows.finish([queue])
        assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-6b")
def test_twenty_idempotent_starts_fifty_times() -> None:
    name = flows.register(flows.simple("a"))
    for number in range(1, TIMES + 1):
        key = flows.unique("key")
        options = {"idempotency_key": key, "idempotency_strategy": "RETURN_EXISTING"}
        ids = race(20, lambda _: start_workflow(name, {}, **options))  # noqa: B023
        assert len(set(ids)) == 1, ids
        assert Execution.objects.filter(name=name).count() == number


@pytest.mark.invariant("INV-9")
def test_eight_completers_of_one_history_fifty_times() -> None:
    queue, width = flows.unique("q"), 8
    name = flows.register(*flows.fork("f", *[[flows.simple(f"b{i}", queue)] for i in range(width)]))
    for _ in range(TIMES):
        run = flows.start(name)
        flows.drain()
        tasks = flows.lease_all(queue, width)
        assert race(width, lambda i: flows.complete([tasks[i]])) == [None] * width  # noqa: B023
        flows.drain()
        seqs = list(HistoryEvent.objects.filter(workflow_id=run).order_by("seq").values_list("seq", flat=True))
        assert seqs == list(range(1, len(seqs) + 1))
        assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-9")
def test_ten_dispatchers_of_a_cap_of_five_fifty_times() -> None:
    queue = limited(5 * TIMES, concurrentExecLimit=5)
    for _ in range(TIMES):
        flying = storm(10, [queue])
        assert len(flying) == 5
        flows.complete(flying)
    assert leftovers() == {}


@pytest.mark.invariant("INV-7c")
def test_two_queues_of_one_semaphore_fifty_times() -> None:
    name = semaphore(3)
    queues = [limited(2 * TIMES, semaphores=[name]) for _ in range(2)]
    for _ in range(TIMES):
        flying = storm(8, queues, batch=5)
        assert len(flying) <= 3
        assert held(name) == len(flying)
        flows.complete(flying)
    assert leftovers() == {}


@pytest.mark.invariant("INV-9")
def test_twelve_starts_of_a_quota_of_three_fifty_times() -> None:
    name = flows.register(flows.simple("a", flows.unique("q")))
    admission.put_quota(flows.NAMESPACE, 3)
    for _ in range(TIMES):
        outcomes = race(12, lambda _: flows.start(name))
        runs = [found for found in outcomes if isinstance(found, UUID)]
        refused = [found for found in outcomes if isinstance(found, LimitExceeded)]
        assert (len(runs), len(refused)) == (3, 9), outcomes
        for run in runs:
            end(run)
    assert leftovers() == {}
