"""Children and parents: the outcome comes back once, without a deadlock, whatever ended the child. [INV-5, INV-11, INV-12]"""

from __future__ import annotations

import threading

import pytest

from tests import flows
from tests.support import Contender, race
from workflows.models import Execution, Task
from workflows.services import evaluation

pytestmark = pytest.mark.usefixtures("committed")


@pytest.mark.invariant("INV-12")
def test_children_report_to_one_parent_from_four_deciders() -> None:
    queue = flows.unique("leaf")
    leaf = flows.register(flows.simple("a", queue))
    width = 40
    parent = flows.register(*flows.fork("f", *[[flows.child(f"c{i}", leaf)] for i in range(width)]))
    run = flows.start(parent)
    flows.drain()
    tasks = flows.lease(queue, width)
    assert len(tasks) == width
    stop = threading.Event()

    def decide() -> None:
        while not stop.is_set():
            if not evaluation.evaluate_next_batch():
                stop.wait(0.001)

    loops = [Contender(decide) for _ in range(4)]
    outcomes = race(8, lambda i: flows.complete(tasks[i::8]))
    assert outcomes == [None] * 8
    for _ in range(5000):
        if flows.status(run) == "COMPLETED":
            break
        stop.wait(0.002)
    stop.set()
    for loop in loops:
        loop.result()
    assert flows.status(run) == "COMPLETED", flows.statuses(run)
    assert Execution.objects.filter(parent_workflow_id=run, status="COMPLETED").count() == width


@pytest.mark.invariant("INV-11")
def test_a_failed_child_fails_its_parents_task_and_its_retry_starts_a_new_child() -> None:
    queue = flows.unique("leaf")
    leaf = flows.register(flows.simple("a", queue, retryCount=0))
    run = flows.start(flows.register(flows.child("c", leaf, retryCount=1)))
    flows.drain()
    flows.complete(flows.lease(queue), status="FAILED_WITH_TERMINAL_ERROR")
    flows.drain()
    assert [t.status for t in Task.objects.filter(workflow_id=run).order_by("attempt")] == ["FAILED", "IN_PROGRESS"]
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"
    assert sorted(e.status for e in Execution.objects.filter(parent_workflow_id=run)) == ["COMPLETED", "FAILED"]
