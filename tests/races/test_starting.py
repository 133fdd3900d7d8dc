"""Idempotent starts, alone and inside a caller's transaction. [INV-6b]"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction

from orchestrator.db.ids import id_floor, new_id
from orchestrator.errors import Conflict, IdempotencyMismatch, Invalid, StartInProgress
from tests import flows
from tests.support import Contender, race
from workflows import start_workflow
from workflows.models import Execution
from workflows.services import definitions

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def name() -> str:
    return flows.register(flows.simple("a"))


@pytest.mark.invariant("INV-6b")
def test_twenty_starts_with_one_key_make_one_run(name: str) -> None:
    key = flows.unique("key")
    ids = race(20, lambda _: start_workflow(name, {}, idempotency_key=key, idempotency_strategy="RETURN_EXISTING"))
    assert len(set(ids)) == 1
    assert Execution.objects.filter(name=name).count() == 1


@pytest.mark.invariant("INV-6b")
def test_a_loser_in_a_callers_transaction_gets_the_winners_run(name: str) -> None:
    key = flows.unique("key")
    options = {"idempotency_key": key, "idempotency_strategy": "RETURN_EXISTING"}

    def lose() -> object:
        with transaction.atomic():
            return start_workflow(name, {}, **options)

    with transaction.atomic():
        winner = start_workflow(name, {}, **options)
        loser = Contender(lose).until_blocked()
    assert loser.result() == winner


@pytest.mark.invariant("INV-6b")
def test_a_loser_becomes_the_winner_when_the_winner_rolls_back(name: str) -> None:
    key = flows.unique("key")
    options = {"idempotency_key": key, "idempotency_strategy": "RETURN_EXISTING"}
    with pytest.raises(RuntimeError), transaction.atomic():
        first = start_workflow(name, {}, **options)
        loser = Contender(lambda: start_workflow(name, {}, **options)).until_blocked()
        raise RuntimeError("the caller fails")
    second = loser.result()
    assert second != first
    assert [e.id for e in Execution.objects.filter(name=name)] == [second]


@pytest.mark.invariant("INV-6b")
def test_a_joined_start_does_not_wait_for_ever_and_leaves_the_caller_usable(name: str, settings: object) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "START_LOCK_SECONDS": 0.2}  # type: ignore[attr-defined]
    key = flows.unique("key")

    def wait() -> str:
        with transaction.atomic():
            with pytest.raises(StartInProgress):
                start_workflow(name, {}, idempotency_key=key)
            with connection.cursor() as cursor:
                cursor.execute("SHOW lock_timeout")
                return str(cursor.fetchone()[0])

    with transaction.atomic():
        start_workflow(name, {}, idempotency_key=key)
        assert Contender(wait).result() == "0"


def test_strategies_and_the_request_hash(name: str) -> None:
    key = flows.unique("key")
    run = start_workflow(name, {"a": 1}, idempotency_key=key)
    with pytest.raises(Conflict):
        start_workflow(name, {"a": 1}, idempotency_key=key)
    with pytest.raises(IdempotencyMismatch):
        start_workflow(name, {"a": 2}, idempotency_key=key, idempotency_strategy="RETURN_EXISTING")
    with pytest.raises(Conflict):
        start_workflow(name, {"a": 1}, idempotency_key=key, idempotency_strategy="FAIL_ON_RUNNING")
    flows.finish(["a"])
    assert flows.status(run) == "COMPLETED"
    again = start_workflow(name, {"a": 1}, idempotency_key=key, idempotency_strategy="FAIL_ON_RUNNING")
    assert again != run


def test_a_run_commits_or_rolls_back_with_its_caller(name: str) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        start_workflow(name, {})
        raise RuntimeError("the caller fails")
    assert not Execution.objects.filter(name=name).exists()
    with transaction.atomic():
        run = start_workflow(name, {})
    assert flows.status(run) == "RUNNING"


@pytest.mark.invariant("INV-9")
def test_a_joined_start_holds_no_advisory_lock(name: str) -> None:
    with transaction.atomic():
        start_workflow(name, {}, idempotency_key=flows.unique("key"))
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
            assert cursor.fetchone()[0] == 0


def test_a_start_sees_a_definition_and_a_task_definition_that_changed(name: str) -> None:
    first = start_workflow(name, {})
    assert start_workflow(name, {}) != first
    revisions = Execution.objects.filter(name=name).values_list("revision_id", flat=True)
    assert len(set(revisions)) == 1
    definitions.register_tasks(flows.NAMESPACE, [{"name": "a", "retryCount": 7}])
    changed = start_workflow(name, {})
    flows.register(flows.simple("a"), flows.simple("b"), name=name)
    again = start_workflow(name, {})
    definitions.unregister_task(flows.NAMESPACE, "a")
    last = start_workflow(name, {})
    found = [Execution.objects.get(id=run).revision_id for run in (first, changed, again, last)]
    assert len(set(found)) == 4


def test_a_revision_that_was_rolled_back_is_not_remembered(name: str) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        start_workflow(name, {})
        start_workflow(name, {})
        raise RuntimeError("the caller fails")
    run = start_workflow(name, {})
    flows.finish(["a"])
    assert flows.status(run) == "COMPLETED"


def made_at(moment: datetime) -> UUID:
    return UUID(int=id_floor(moment).int | new_id().int & (1 << 80) - 1)


@pytest.mark.parametrize("minutes", [-59, 0, 59])
def test_a_run_may_be_given_its_id(name: str, minutes: int) -> None:
    given = made_at(datetime.now(UTC) + timedelta(minutes=minutes))
    assert start_workflow(name, {}, workflow_id=given) == given
    flows.drain()
    assert flows.statuses(given) == {"a": "SCHEDULED"}


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (made_at(datetime.now(UTC) - timedelta(minutes=75)), "hours off"),
        (made_at(datetime.now(UTC) + timedelta(minutes=75)), "hours off"),
        (UUID(int=0), "not of version 7"),
        (UUID("ffffffff-ffff-7fff-bfff-ffffffffffff"), "hours off"),
        (uuid4(), "not of version 7"),
        ("01a2506b-799c-710f-b727-2e8f4baaa6cf", "got a str"),
    ],
)
def test_an_id_that_fits_no_month_of_now_is_refused(name: str, given: Any, got: str) -> None:
    key = flows.unique("key")
    with pytest.raises(Invalid) as refused:
        start_workflow(name, {}, workflow_id=given, idempotency_key=key)
    ((path, said),) = refused.value.problems
    assert path == "workflowId" and "expected a UUIDv7 made within an hour of" in said and got in said
    assert not Execution.objects.filter(name=name).exists()
    assert start_workflow(name, {}, idempotency_key=key), "it has not taken the key"


def test_the_engines_own_ids_may_be_old(name: str) -> None:
    """A dead letter that is replayed days later starts the child under the id its parent has known since."""
    old = made_at(datetime.now(UTC) - timedelta(days=3))
    assert flows.start(name, workflow_id=old, scope="child", idempotency_key=flows.unique("key")) == old
