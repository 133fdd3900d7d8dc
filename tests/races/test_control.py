"""Operators against evaluators, workers and each other: one at a time per run, and never a deadlock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError

from dispatch.models import QueuedTask
from orchestrator.db.transactions import transaction
from orchestrator.errors import IllegalState, LeaseLost, OstinatoError
from tests import flows
from tests.flows import child, complete, drain, fork, lease, register, simple, start, status, unique
from tests.support import Contender, race
from workflows.models import DecideQueue, Execution, HistoryEvent, Task, Timer
from workflows.services import control, evaluation
from workflows.services.evaluation import evaluate

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE
WHO = {"actor": "ann"}


def running(*tasks: dict[str, Any]) -> UUID:
    run = start(register(*tasks))
    drain()
    return run


@pytest.mark.invariant("INV-4")
def test_an_operator_waits_for_the_pass_that_holds_the_run() -> None:
    queue = unique("a")
    run = start(register(simple("a", queue)))
    waiting: list[Contender[None]] = []

    def claim() -> list[Any]:
        requests = DecideQueue.sql.claim_these([run])
        waiting.append(Contender(lambda: control.terminate(NS, run, **WHO)).until_blocked())
        return requests

    evaluate(claim)
    waiting[0].result()
    assert (status(run), flows.statuses(run)) == ("TERMINATED", {"a": "CANCELED"})
    assert not QueuedTask.objects.filter(workflow_id=run).exists()


@pytest.mark.invariant("INV-4")
def test_a_pass_leaves_a_run_that_an_operator_holds_and_sees_what_he_did() -> None:
    queue = unique("a")
    run = start(register(simple("a", queue)))
    with transaction():
        DecideQueue.sql.enqueue([run])
        assert Contender(lambda: evaluate(lambda: DecideQueue.sql.claim(batch=10))).result().claimed == 0
        Execution.sql.set_status(run, "PAUSED", expected=["RUNNING"])
    drain()
    assert flows.statuses(run) == {}
    control.resume(NS, run, **WHO)
    drain()
    assert flows.statuses(run) == {"a": "SCHEDULED"}


@pytest.mark.invariant("INV-12")
@pytest.mark.parametrize("action", [control.terminate, control.terminate_remove, control.retry, control.restart])
def test_an_action_that_reaches_the_parent_takes_its_gate_first(action: Callable[..., Any]) -> None:
    """Held by one sorted statement: while somebody has the parent's gate, the child is not touched."""
    queue = unique("a")
    run = running(child("c", register(simple("a", queue))))
    inner = Task.objects.get(workflow_id=run).sub_workflow_id
    assert inner is not None
    if action in (control.retry, control.restart):
        complete(lease(queue), status="FAILED_WITH_TERMINAL_ERROR")
        drain()
    with transaction():
        DecideQueue.sql.enqueue([run])
        before = status(inner)
        contender = Contender(lambda: action(NS, inner, **WHO)).until_blocked()
        assert status(inner) == before
    contender.result()


def test_of_many_retries_of_one_run_exactly_one_happens() -> None:
    queue = unique("a")
    run = running(simple("a", queue))
    complete(lease(queue), status="FAILED_WITH_TERMINAL_ERROR")
    drain()
    results = race(8, lambda _: control.retry(NS, run, **WHO))
    refused = [result for result in results if result is not None]
    assert len(refused) == 7, results
    assert all(isinstance(result, IllegalState) for result in refused), refused
    assert Task.objects.filter(workflow_id=run).count() == 2


@pytest.mark.invariant("INV-7b")
def test_terminate_against_a_completion_ends_the_task_once() -> None:
    for _ in range(10):
        queue = unique("a")
        run = running(simple("a", queue), simple("b", unique("b")))
        held = lease(queue)

        def act(number: int, run: UUID = run, held: list[Any] = held) -> None:
            if number:
                complete(held)
            else:
                control.terminate(NS, run, **WHO)

        results = race(2, act)
        assert all(result is None or isinstance(result, LeaseLost) for result in results), results
        drain()
        assert status(run) == "TERMINATED"
        assert_clean(run)


@pytest.mark.invariant("INV-12")
def test_a_storm_of_operators_workers_and_evaluators_over_families_has_no_deadlock() -> None:
    queue = unique("q")
    middle = register(child("low", register(simple("a", queue), simple("b", queue))), simple("c", queue))
    name = register(*fork("f", [child("mid", middle)], [simple("d", queue), simple("e", queue)]), simple("z", queue))
    for _ in range(4):
        start(name)
    drain()

    def operate(random: Random) -> None:
        run = random.choice(list(Execution.objects.values_list("id", flat=True)))
        actions: list[Callable[..., Any]] = [
            control.pause, control.resume, control.terminate, control.retry, control.restart, control.nudge,
        ]  # fmt: skip
        with suppress(OstinatoError):
            random.choice(actions)(NS, run, **WHO)

    def work(random: Random) -> None:
        with suppress(LeaseLost):
            complete(lease(queue, batch=3), status=random.choice(["COMPLETED"] * 4 + ["FAILED_WITH_TERMINAL_ERROR"]))

    def settle(_: Random) -> None:
        evaluation.evaluate_next_batch()
        flows.relay.deliver_next_batch()

    parts = [operate, operate, operate, work, work, settle, settle]

    def body(number: int) -> None:
        random = Random(number)
        for _ in range(40):
            parts[number](random)

    results = race(len(parts), body, timeout=90)
    deadlocks = [r for r in results if isinstance(r, OperationalError)]
    assert not deadlocks, deadlocks
    assert results == [None] * len(parts)
    finish_all(queue)
    for run in Execution.objects.values_list("id", flat=True):
        assert_clean(run)


def finish_all(queue: str) -> None:
    """Resume what is paused and work everything off: no run may be left hanging."""
    for _ in range(200):
        for run in Execution.objects.filter(status="PAUSED").values_list("id", flat=True):
            control.resume(NS, run, **WHO)
        drain()
        tasks = lease(queue)
        if not tasks:
            break
        complete(tasks)
    hanging = list(Execution.objects.filter(status__in=["RUNNING", "PAUSED"]).values_list("name", "id"))
    assert not hanging, [(run, flows.statuses(run)) for _, run in hanging]


def assert_clean(run: UUID) -> None:
    """Nothing live is left of an ended run, and its history has no gap."""
    assert not Task.objects.filter(workflow_id=run, ended_at=None).exists()
    assert not QueuedTask.objects.filter(workflow_id=run).exists()
    assert not Timer.objects.filter(workflow_id=run).exists()
    seqs = list(HistoryEvent.objects.filter(workflow_id=run).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))
