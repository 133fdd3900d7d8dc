"""Which runs may run now, raced at the edge: quotas, keys first in first out, and tasks of one run. [INV-9]"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import transaction as django_transaction

from dispatch.models import QueuedTask
from orchestrator.db.ids import new_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import Invalid, LimitExceeded
from tests import flows
from tests.support import Contender, race
from workflows.models import Admission, DecideQueue, Execution, Timer
from workflows.services import admission, control, definitions, starting
from workflows.services.explaining import Code, explain
from workflows.services.starting import StartRequest
from workflows.services.sweeping import invariant_report

pytestmark = pytest.mark.usefixtures("committed")
WHO = {"actor": "ann"}


def leftovers() -> dict[str, object]:
    return {name: rows for name, rows in invariant_report().items() if rows}


def keyed(most: int, **config: Any) -> str:
    """A workflow of one task, `most` runs at a time for each customer."""
    queue = flows.unique("q")
    config = {"rateLimitKey": "${workflow.input.customer}", "concurrentExecLimit": most, **config}
    return flows.register(flows.simple("a", queue), rateLimitConfig=config)


def begin(name: str, customer: str = "acme", **fields: Any) -> UUID:
    return flows.start(name, {"customer": customer}, **fields)


def admitted(runs: list[UUID]) -> list[bool]:
    found = dict(Execution.objects.filter(id__in=runs).values_list("id", "admitted_at"))
    return [found[run] is not None for run in runs]


def end(run: UUID) -> None:
    control.terminate(flows.NAMESPACE, run, reason="over", **WHO)


@pytest.mark.invariant("INV-9")
def test_twelve_starts_against_a_quota_of_three() -> None:
    name = flows.register(flows.simple("a", flows.unique("q")))
    admission.put_quota(flows.NAMESPACE, 3)
    outcomes = race(12, lambda _: flows.start(name))
    runs = [found for found in outcomes if isinstance(found, UUID)]
    refused = [found for found in outcomes if isinstance(found, LimitExceeded)]
    assert (len(runs), len(refused)) == (3, 9), outcomes
    assert "3 running workflows" in refused[0].message
    assert admission.get_quota(flows.NAMESPACE)["running"] == 3
    end(runs[0])
    flows.start(name)
    assert leftovers() == {}


def test_a_quota_counts_what_runs_already_and_not_children() -> None:
    inner = flows.register(flows.simple("i", flows.unique("q")))
    outer = flows.register(flows.child("c", inner))
    run = flows.start(outer)
    flows.drain()
    assert Execution.objects.filter(parent_workflow_id=run).count() == 1
    admission.put_quota(flows.NAMESPACE, 2)
    assert admission.get_quota(flows.NAMESPACE) == {
        "namespace": flows.NAMESPACE, "maxConcurrentExecutions": 2, "running": 1, "waiting": 0,
    }  # fmt: skip
    flows.start(outer)
    flows.drain()
    with pytest.raises(LimitExceeded):
        flows.start(outer)
    admission.put_quota(flows.NAMESPACE, None)
    flows.start(outer)


@pytest.mark.invariant("INV-9")
def test_a_new_quota_does_not_count_a_run_that_is_just_ending() -> None:
    """Its row would be written behind the end that takes it away, and count for ever."""
    name = flows.register(flows.simple("a", flows.unique("q")))
    staying, ending = flows.start(name), flows.start(name)
    flows.drain()
    with transaction():
        DecideQueue.sql.enqueue([ending])
        control.lifecycle.end_terminated(Execution.sql.lock([ending])[0], "over")
        quota = Contender(lambda: admission.put_quota(flows.NAMESPACE, 2)).until_blocked()
    assert quota.result()["running"] == 1
    assert list(Admission.objects.values_list("workflow_id", flat=True)) == [staying]
    assert leftovers() == {}


@pytest.mark.invariant("INV-9")
def test_a_start_counts_after_it_waited_for_the_quotas_lock() -> None:
    """The other start has counted and inserted its run, and has not committed."""
    name = flows.register(flows.simple("a", flows.unique("q")))
    admission.put_quota(flows.NAMESPACE, 1)
    with transaction():
        starting._insert(StartRequest(name), new_id(), owned=True)
        other = Contender(lambda: flows.start(name)).until_blocked()
    assert isinstance(other.outcome(), LimitExceeded)


@pytest.mark.invariant("INV-9")
def test_starts_that_race_for_a_key_never_exceed_it_and_all_are_kept() -> None:
    name = keyed(3)
    runs = [found for found in race(10, lambda _: begin(name)) if isinstance(found, UUID)]
    assert len(runs) == 10
    assert sum(admitted(runs)) == 3
    others = [begin(name, "other") for _ in range(3)]
    assert all(admitted(others))


@pytest.mark.invariant("INV-9")
def test_admitters_that_race_admit_no_more_than_ended_and_the_oldest_first() -> None:
    name = keyed(2)
    runs = [begin(name) for _ in range(8)]
    assert admitted(runs) == [True] * 2 + [False] * 6
    for _ in range(3):
        for run in [run for run, isin in zip(runs, admitted(runs), strict=True) if isin]:
            if not Execution.objects.get(id=run).ended_at:
                end(run)
        outcomes = race(6, lambda _: admission.admit_next_batch())
        assert not [found for found in outcomes if isinstance(found, BaseException)], outcomes
        assert sum(found for found in outcomes if isinstance(found, int)) == 2
    assert admitted(runs) == [True] * 8
    assert leftovers() == {}


def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    name = keyed(1)
    first, second = begin(name), begin(name)
    end(first)
    third = begin(name)
    assert admitted([second, third]) == [False, False]
    assert admission.admit_next_batch() == 1
    assert admitted([second, third]) == [True, False]


def test_a_run_that_waits_is_not_evaluated_and_its_clock_does_not_run() -> None:
    queue = flows.unique("q")
    config = {"concurrentExecLimit": 1}
    name = flows.register(
        flows.simple("a", queue), rateLimitConfig=config, timeoutSeconds=60, timeoutPolicy="TIME_OUT_WF"
    )
    first, second = flows.start(name), flows.start(name)
    flows.drain()
    assert flows.statuses(second) == {}
    assert not Timer.objects.filter(workflow_id=second).exists()
    (reason,) = explain(flows.NAMESPACE, second).reasons
    assert reason.code is Code.NOT_ADMITTED
    flows.complete(flows.lease(queue))
    flows.drain()
    assert flows.status(first) == "COMPLETED"
    admission.admit_next_batch()
    flows.drain()
    assert flows.statuses(second) == {"a": "SCHEDULED"}
    assert Timer.objects.filter(workflow_id=second, kind="WORKFLOW").exists()


def test_a_limit_may_refuse_instead() -> None:
    name = keyed(1, policy="REJECT")
    begin(name)
    with pytest.raises(LimitExceeded, match="acme"):
        begin(name)
    begin(name, "other")
    assert Execution.objects.count() == 2


def test_a_start_inside_a_callers_transaction_is_admitted_after_it() -> None:
    name = keyed(1)
    with django_transaction.atomic():
        run = begin(name)
        assert admitted([run]) == [False]
        other = begin(name, "other")
    assert admission.admit_next_batch() == 2
    assert admitted([run, other]) == [True, True]


def test_a_run_that_ends_while_it_waits_gives_its_place_back() -> None:
    name = keyed(1)
    first, second, third = begin(name), begin(name), begin(name)
    end(second)
    end(first)
    assert admission.admit_next_batch() == 1
    assert admitted([third]) == [True]
    assert Admission.objects.count() == 1


def test_a_run_that_is_retried_counts_again() -> None:
    queue = flows.unique("q")
    name = flows.register(flows.simple("a", queue), rateLimitConfig={"concurrentExecLimit": 1})
    run = flows.start(name)
    flows.drain()
    flows.complete(flows.lease(queue), status="FAILED_WITH_TERMINAL_ERROR")
    flows.drain()
    assert flows.status(run) == "FAILED"
    control.retry(flows.NAMESPACE, run, **WHO)
    assert admitted([flows.start(name)]) == [False]


def test_a_run_hands_out_no_more_tasks_than_it_may_and_drops_none() -> None:
    queue = flows.unique("q")
    name = flows.register(*flows.fork("f", *[[flows.simple(f"b{i}", queue)] for i in range(7)]), maxConcurrentTasks=2)
    run = flows.start(name)
    flows.drain()
    done = 0
    while done < 7:
        flying = flows.lease(queue)
        assert 0 < len(flying) <= 2
        assert QueuedTask.objects.filter(workflow_id=run, held=True).count() == max(0, 7 - done - 2)
        if done < 5:
            assert Code.HELD in {reason.code for reason in explain(flows.NAMESPACE, run).reasons}
        flows.complete(flying[:1])
        flows.drain()
        for task in flying[1:]:
            flows.complete([task])
        flows.drain()
        done += len(flying)
    assert flows.status(run) == "COMPLETED"


def test_branches_made_at_run_time_join_after_the_last_however_few_may_run_at_a_time() -> None:
    queue = flows.unique("q")
    made = {
        "name": "d", "taskReferenceName": "d", "type": "FORK_JOIN_DYNAMIC", "dynamicForkTasksParam": "t",
        "dynamicForkTasksInputParamName": "i",
        "inputParameters": {"t": [flows.simple(f"b{i}", queue) for i in range(6)], "i": {}},
    }  # fmt: skip
    join = {"name": "j", "taskReferenceName": "j", "type": "JOIN"}
    run = flows.start(flows.register(made, join, maxConcurrentTasks=2))
    flows.drain()
    for _ in range(3):
        assert flows.statuses(run)["j"] == "IN_PROGRESS"
        held = flows.lease(queue)
        assert len(held) == 2
        flows.complete(held)
        flows.drain()
    assert (flows.statuses(run)["j"], flows.status(run)) == ("COMPLETED", "COMPLETED")


@pytest.mark.parametrize(
    ("fields", "path"), [
        ({"maxConcurrentTasks": -1}, "maxConcurrentTasks"), ({"maxConcurrentTasks": "2"}, "maxConcurrentTasks"),
        ({"rateLimitConfig": 5}, "rateLimitConfig"),
        ({"rateLimitConfig": {"concurrentExecLimit": -1}}, "rateLimitConfig.concurrentExecLimit"),
        ({"rateLimitConfig": {"concurrentExecLimit": 1, "policy": "DROP"}}, "rateLimitConfig.policy"),
        ({"rateLimitConfig": {"concurrentExecLimit": 1, "rateLimitKey": 5}}, "rateLimitConfig.rateLimitKey"),
        ({"rateLimitConfig": {"concurrentExecLimit": 1, "rateLimitKey": "${a.output.x}"}}, "rateLimitConfig.rateLimitKey"),
        ({"rateLimitConfig": {"concurrentExecLimit": 1, "rateLimitKey": "${workflow.input"}}, "rateLimitConfig.rateLimitKey"),
    ],
)  # fmt: skip
def test_a_limit_that_means_nothing_is_refused(fields: dict[str, Any], path: str) -> None:
    definition = {"name": flows.unique("flow"), "version": 1, "tasks": [flows.simple("a")], **fields}
    assert [problem[0] for problem in definitions.check(flows.NAMESPACE, definition)] == [path]


@pytest.mark.parametrize("most", [-1, "3", True, 2**31, 1.5])
def test_a_quota_that_means_nothing_is_refused(most: object) -> None:
    with pytest.raises(Invalid):
        admission.put_quota(flows.NAMESPACE, most)
    assert admission.get_quota(flows.NAMESPACE)["maxConcurrentExecutions"] is None
