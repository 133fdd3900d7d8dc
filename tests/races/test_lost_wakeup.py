"""The defining race: completions that land while a pass is under way. [INV-1, INV-2, INV-3]"""

from __future__ import annotations

import threading
from uuid import UUID

import pytest

from orchestrator.db.transactions import transaction
from tests import flows
from tests.support import Contender, race
from workflows.engine.state import TaskStatus
from workflows.managers.task import TaskEnd
from workflows.models import DecideQueue, Execution, Task
from workflows.services import evaluation
from workflows.transitions import end_tasks

pytestmark = pytest.mark.usefixtures("committed")


def fan_out(width: int) -> tuple[str, str]:
    queue = flows.unique("branch")
    name = flows.register(*flows.fork("f", *[[flows.simple(f"b{i}", queue)] for i in range(width)]))
    return name, queue


@pytest.mark.invariant("INV-1")
@pytest.mark.invariant("INV-2")
def test_grouped_fan_out_strands_no_run() -> None:
    """The branches of one run are completed at the same time by different workers, so no later completion of the
    run can hide a lost wake-up; a shuffled order hides it."""
    width, rounds, deciders = 4, 60, 4
    name, queue = fan_out(width)
    stop = threading.Event()

    def decide(_: int) -> None:
        while not stop.is_set():
            if not evaluation.evaluate_next_batch():
                stop.wait(0.001)

    loops = [Contender(lambda i=i: decide(i)) for i in range(deciders)]  # type: ignore[misc]
    try:
        for _ in range(rounds):
            run = flows.start(name)
            tasks = flows.lease_all(queue, width)
            assert race(width, lambda i: flows.complete([tasks[i]])) == [None] * width  # noqa: B023
            assert_completes(run)
    finally:
        stop.set()
        for loop in loops:
            loop.result()


def assert_completes(run: UUID) -> None:
    """The run is completed by passes that its completions asked for, and by nothing else."""
    for _ in range(2000):
        if flows.status(run) == "COMPLETED":
            return
        if not DecideQueue.objects.filter(workflow_id=run).exists() and flows.status(run) != "COMPLETED":
            with transaction():  # a pass that holds the claim must end before we judge
                Execution.sql.lock([run])
            if not DecideQueue.objects.filter(workflow_id=run).exists():
                assert flows.status(run) == "COMPLETED", f"stranded: {flows.statuses(run)}"
                return
    raise AssertionError("never settled")


@pytest.mark.invariant("INV-1")
def test_a_pass_reads_after_the_completion_it_waited_for() -> None:
    """Claim, lock and read are three statements: the read sees what the claim waited for (rule S)."""
    queue = flows.unique("step")
    name = flows.register(flows.simple("a", queue))
    run = flows.start(name)
    flows.drain()
    task = Task.objects.get(workflow_id=run)
    with transaction():
        DecideQueue.sql.enqueue([run])
    with transaction():
        DecideQueue.sql.enqueue([run])
        end_tasks([TaskEnd(task.id, run, TaskStatus.COMPLETED, {"ok": True})])
        pass_ = Contender(
            lambda: evaluation.evaluate(lambda: DecideQueue.sql.claim_waiting(run))
        ).until_blocked()
    pass_.result()
    assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-8")
def test_a_completion_begun_before_a_pass_and_committed_after_it_is_not_hidden() -> None:
    """Its timestamps lie before the pass; only the consumed mark tells that no pass saw it."""
    queue = flows.unique("step")
    name = flows.register(*flows.fork("f", [flows.simple("a", queue)], [flows.simple("b", queue)]))
    run = flows.start(name)
    flows.drain()
    first, second = flows.lease(queue)
    begun, go = threading.Event(), threading.Event()

    def late() -> None:
        with transaction():
            Task.sql.has_any([run])  # the transaction's time is fixed here
            begun.set()
            assert go.wait(10)
            DecideQueue.sql.enqueue([run])
            end_tasks([TaskEnd(first.id, run, TaskStatus.COMPLETED, {})])

    slow = Contender(late)
    assert begun.wait(10)
    flows.complete([second])
    flows.drain()
    go.set()
    slow.result()
    flows.drain()
    assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-8")
def test_a_pass_that_rolls_back_consumes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = flows.unique("step")
    run = flows.start(flows.register(flows.simple("a", queue), flows.simple("b", queue)))
    flows.drain()
    flows.complete(flows.lease(queue))

    def crash(decided: object) -> set[UUID]:
        real(decided)  # type: ignore[arg-type]
        raise RuntimeError("crash before the commit")

    real = evaluation.apply_decisions
    monkeypatch.setattr(evaluation, "apply_decisions", crash)
    evaluation.evaluate_next_batch()
    assert not Task.objects.get(workflow_id=run, ref="a").consumed
    monkeypatch.undo()
    with transaction():
        DecideQueue.sql.release(run)
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-4")
def test_ten_deciders_on_one_run_schedule_each_task_once() -> None:
    queue = flows.unique("step")
    run = flows.start(flows.register(flows.simple("a", queue)))
    race(10, lambda _: evaluation.evaluate_now([run]))
    assert Task.objects.filter(workflow_id=run).count() == 1


@pytest.mark.invariant("INV-3")
@pytest.mark.invariant("INV-6a")
def test_an_absorbed_insert_asks_for_one_more_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that schedules what exists already did not see the truth: it must look again."""
    queue = flows.unique("step")
    run = flows.start(flows.register(flows.simple("a", queue), flows.simple("b", queue)))
    flows.drain()
    with monkeypatch.context() as patch:
        patch.setattr(Task.sql, "has_any", lambda ids: set())
        patch.setattr(Task.sql, "read_frontier", lambda ids: [])
        with transaction():
            DecideQueue.sql.enqueue([run])
        evaluation.evaluate(lambda: DecideQueue.sql.claim(batch=1))
    assert Task.objects.filter(workflow_id=run).count() == 1
    assert DecideQueue.objects.filter(workflow_id=run).exists(), "one more pass was asked for"
    flows.finish([queue])
    assert flows.status(run) == "COMPLETED"
