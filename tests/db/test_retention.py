"""Partitions made, emptied and dropped, and runs that are kept or not, all under load from others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection

from dispatch.services import polling
from orchestrator.db.ids import id_floor, new_id
from orchestrator.db.transactions import transaction
from orchestrator.errors import Conflict
from orchestrator.models import AuditEntry
from outbox.managers import NewOutboxEvent
from outbox.models import OutboxEvent
from outbox.services import events, relay
from tests import flows
from tests.support import Contender, race
from workflows import partitions
from workflows.models import DecideQueue, Execution, HistoryEvent, IdempotencyKey, Message, Task, TaskLog
from workflows.services import control, maintenance, retention, starting
from workflows.services.maintenance import alter, empty_months, roll_partitions

pytestmark = pytest.mark.usefixtures("committed", "same_partitions")

NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=400)
"""When runs of today are thirteen months old."""


def names() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = ANY(%s::regclass[])",
            [list(partitions.KEYS)],
        )
        return {name for (name,) in cursor.fetchall()}


@pytest.fixture
def same_partitions() -> Iterator[None]:
    """Every test leaves the months as it found them."""
    before = names()
    yield
    for name in sorted(names() - before):
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {name}")
    roll_partitions()
    assert names() == before


def put_off() -> float:
    """How often a drop found a lock in its way."""
    return float(maintenance.PUT_OFF.labels("drop")._value.get())


def ended(queue: str | None = None, status: str = "COMPLETED") -> UUID:
    queue = queue or flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue, retryCount=0)))
    flows.drain()
    control.push_message(flows.NAMESPACE, run, {}, actor="olga")
    (task,) = flows.lease_all(queue, 1)
    flows.complete([task], status=status)
    flows.drain()
    return run


def kept(*runs: UUID) -> list[bool]:
    return [Execution.objects.filter(id=run).exists() for run in runs]


def retire_all(now: datetime) -> None:
    while retention.retire(now):
        pass


def test_a_run_that_has_not_ended_is_kept_however_old_and_what_has_is_deleted_with_all_that_is_its() -> None:
    alive = flows.start(flows.register(flows.simple("a", flows.unique("q"))))
    flows.drain()
    paused = flows.start(flows.register(flows.simple("a")))
    control.pause(flows.NAMESPACE, paused, actor="olga")
    done = ended()
    retire_all(NOW + timedelta(days=364))
    assert kept(alive, paused, done) == [True, True, True]
    retire_all(LATER)
    assert kept(alive, paused, done) == [True, True, False]
    for model in (Task, TaskLog, Message, HistoryEvent, DecideQueue):
        assert not model.objects.filter(workflow_id=done).exists()
    assert Task.objects.filter(workflow_id=alive).exists()
    assert HistoryEvent.objects.filter(workflow_id=alive).exists()


def test_each_state_has_a_time_of_its_own_and_nought_is_for_ever(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "RETENTION_COMPLETED_DAYS": 7, "RETENTION_FAILED_DAYS": 0}
    done, failed = ended(), ended(status="FAILED")
    retire_all(NOW + timedelta(days=6))
    assert kept(done, failed) == [True, True]
    retire_all(LATER)
    assert kept(done, failed) == [False, True]


def test_a_child_is_kept_as_long_as_its_parent() -> None:
    queue, other = flows.unique("q"), flows.unique("o")
    leaf = flows.register(flows.simple("leaf", queue))
    parent = flows.start(flows.register(flows.child("c", leaf), flows.simple("after", other)))
    flows.finish([queue])
    child = Execution.objects.get(parent_workflow_id=parent).id
    assert flows.status(child) == "COMPLETED"
    retire_all(LATER)
    assert kept(parent, child) == [True, True]
    flows.finish([other])
    retire_all(LATER)
    assert kept(parent, child) == [False, False]


@pytest.mark.invariant("INV-9")
def test_a_run_that_was_retried_since_it_was_looked_at_is_kept() -> None:
    """The retry holds the gate; retention waits for it and looks again."""
    run = ended(status="FAILED")
    alive = flows.start(flows.register(flows.simple("a")))  # keeps its month from being emptied at once
    with transaction():
        DecideQueue.sql.enqueue([run])
        waiting = Contender(lambda: retention.retire(LATER)).until_blocked()
        Execution.sql.lock([run])
        Execution.sql.reopen(run)
    waiting.result()
    assert kept(run, alive) == [True, True]
    assert Task.objects.filter(workflow_id=run).exists()


def test_operators_and_retention_do_not_deadlock() -> None:
    alive = flows.start(flows.register(flows.simple("a")))
    runs = [ended(status="FAILED") for _ in range(12)]

    def act(number: int) -> Any:
        if number % 2:
            return retention.retire(LATER)
        for run in runs[number::3]:
            control.bulk(flows.NAMESPACE, "retry", [run], actor="olga")
        return None

    outcomes = race(6, act)
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert kept(alive) == [True]
    for run in Execution.objects.filter(id__in=runs):
        assert run.status == "RUNNING" and Task.objects.filter(workflow_id=run.id).exists()


def test_a_key_outlives_its_run_and_then_goes() -> None:
    name = flows.register(flows.simple("a"))
    run = flows.start(name, idempotency_key="order-1")
    retire_all(LATER)
    assert IdempotencyKey.objects.filter(key="order-1").exists()
    control.terminate_remove(flows.NAMESPACE, run, actor="olga")
    with pytest.raises(Conflict):
        flows.start(name, idempotency_key="order-1")
    retire_all(NOW + timedelta(days=364))
    assert IdempotencyKey.objects.filter(key="order-1").exists()
    retire_all(LATER)
    assert not IdempotencyKey.objects.filter(key="order-1").exists()


def test_records_have_their_time_too() -> None:
    run = flows.start(flows.register(flows.simple("a")))
    control.nudge(flows.NAMESPACE, run, actor="olga")
    polling.note_polls(flows.NAMESPACE, [(flows.unique("q"), None)], "w")
    retire_all(LATER)
    assert AuditEntry.objects.filter(target=str(run)).exists()
    retire_all(NOW + timedelta(days=2600))
    assert not AuditEntry.objects.filter(target=str(run)).exists()


# Dead letters


@contextmanager
def dying(topic: str, settings: Any) -> Iterator[None]:
    """Events of a topic become dead letters at once."""
    before = settings.OSTINATO
    settings.OSTINATO = {**before, "OUTBOX_MAX_ATTEMPTS": 1}
    handler = relay.unregister(topic)
    assert handler is not None
    try:
        yield
    finally:
        relay.register(topic, handler)
        settings.OSTINATO = before


def letters() -> list[UUID]:
    found = OutboxEvent.objects.filter(dead_at__isnull=False).order_by("id")
    return list(found.values_list("id", flat=True))


def publish(handler: dict[str, Any] | None = None, **payload: Any) -> str:
    """An event from outside; returns the name of its handler."""
    name = flows.unique("handler")
    if handler:
        actions = [{"action": kind, kind: body} for kind, body in handler.items()]
        definition = {"name": name, "event": f"conductor:{name}", "active": True, "actions": actions}
        events.register(flows.NAMESPACE, definition)
    events.publish(flows.NAMESPACE, f"conductor:{name}", payload)
    flows.drain()
    return name


def test_a_dead_letter_is_kept_for_a_month_and_nought_is_for_ever(settings: Any) -> None:
    with dying("event.published", settings):
        publish()
    publish()  # delivered
    with transaction():
        OutboxEvent.sql.publish([NewOutboxEvent(flows.NAMESPACE, "any", {})])  # not yet delivered
    (dead,) = letters()
    retire_all(NOW + timedelta(days=29))
    assert letters() == [dead]
    settings.OSTINATO = {**settings.OSTINATO, "RETENTION_DEAD_LETTER_DAYS": 0}
    retire_all(LATER)
    assert letters() == [dead]
    settings.OSTINATO = {**settings.OSTINATO, "RETENTION_DEAD_LETTER_DAYS": 30}
    before = retention.RETIRED.labels("letter")._value.get()
    assert retention.retire(NOW + timedelta(days=31)) == 1
    assert letters() == []
    assert retention.RETIRED.labels("letter")._value.get() == before + 1
    assert OutboxEvent.objects.count() == 2


def start_child(settings: Any) -> UUID:
    with dying("workflow.start_child", settings):
        run = flows.start(flows.register(flows.child("c", flows.register(flows.simple("a")))))
        flows.drain()
    return run


def start_other(settings: Any) -> UUID:
    task = {"name": "s", "taskReferenceName": "s", "type": "START_WORKFLOW"}
    with dying("workflow.start", settings):
        run = flows.start(flows.register({**task, "inputParameters": {"startWorkflow": {"name": "any"}}}))
        flows.drain()
    return run


def stop_child(settings: Any) -> UUID:
    parent = flows.start(flows.register(flows.child("c", flows.register(flows.simple("a", flows.unique("q"))))))
    flows.drain()
    with dying("workflow.terminate", settings):
        control.terminate(flows.NAMESPACE, parent, actor="olga")
        flows.drain()
    child = Task.objects.get(workflow_id=parent).sub_workflow_id
    assert child is not None
    return child


def tell(settings: Any) -> UUID:
    task = {"name": "t", "taskReferenceName": "t", "type": "EVENT", "sink": "conductor", "asyncComplete": True}
    with dying("event.published", settings):
        run = flows.start(flows.register(task))
        flows.drain()
    return run


def end_by_event(settings: Any, by_id: bool = False) -> UUID:
    run = flows.start(flows.register({"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {}}))
    flows.drain()
    task = Task.objects.get(workflow_id=run)
    named = {"taskId": f"{{{task.id}}}"} if by_id else {"workflowId": run.hex.upper(), "taskRefName": "w"}
    with dying("event.action", settings):
        publish({"complete_task": named})
    return run


def end_by_task_id(settings: Any) -> UUID:
    return end_by_event(settings, by_id=True)


@pytest.mark.parametrize("dead", [start_child, start_other, stop_child, tell, end_by_event, end_by_task_id])
def test_a_dead_letter_that_a_run_waits_for_is_kept_until_that_run_has_ended(dead: Any, settings: Any) -> None:
    run = dead(settings)
    assert len(letters()) == 1
    retire_all(LATER)
    assert len(letters()) == 1
    control.terminate(flows.NAMESPACE, run, actor="olga")
    retire_all(LATER)
    assert letters() == []


def test_an_action_whose_letter_is_given_up_has_failed(settings: Any) -> None:
    with dying("event.action", settings):
        name = publish({"complete_task": {"workflowId": "${run}", "taskRefName": "w"}}, run="no id at all")
    (one,) = events.find_executions(flows.NAMESPACE, handler=name)
    assert one.status == "SCHEDULED"
    retire_all(LATER)
    (one,) = events.find_executions(flows.NAMESPACE, handler=name)
    assert (one.status, letters()) == ("FAILED", [])
    assert one.reason and "no handler is registered" in one.reason


def test_many_letters_go_in_batches_and_one_that_is_replayed_meanwhile_stays(settings: Any) -> None:
    with dying("event.published", settings):
        for _ in range(5):
            publish()
    batches = [retention.retire_letters(LATER, batch=2) for _ in range(4)]
    assert (batches, letters()) == ([2, 2, 1, 0], [])
    with dying("event.published", settings):
        publish()
    (dead,) = letters()
    with transaction():
        assert OutboxEvent.sql.replay([dead]) == 1
        pruning = Contender(lambda: retention.retire_letters(LATER))
        assert pruning.result() == 0, "it waits for nobody"
    assert OutboxEvent.objects.filter(id=dead).exists()


# Partitions


def test_four_rollers_make_each_month_once() -> None:
    ahead = NOW + timedelta(days=120)
    before = names()
    assert race(4, lambda _: roll_partitions(ahead)) == [0] * 4
    while True:
        roll_partitions(ahead)
        with transaction(), connection.cursor() as cursor:
            if not partitions.missing(cursor, ahead):
                break
    made = names() - before
    assert len(made) > 0 and len(made) % len(partitions.KEYS) == 0
    suffixes = {name.rpartition("_p")[2] for name in made}
    assert made == {f"{table}_p{suffix}" for table in partitions.KEYS for suffix in suffixes}


def test_rows_that_landed_in_default_are_moved_when_their_month_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose clock is eight months ahead: its run works, and finds its month later."""
    ahead = NOW + timedelta(days=240)
    stray = UUID(int=id_floor(ahead).int | new_id().int & (1 << 64) - 1)
    queue = flows.unique("q")
    name = flows.register(flows.simple("a", queue))
    with monkeypatch.context() as wrong:
        wrong.setattr(starting, "new_id", lambda: stray)
        assert flows.start(name) == stray
    flows.drain()
    month = f"{ahead:%Y%m}"
    assert f"workflows_execution_p{month}" not in names()
    for _ in range(5):
        roll_partitions(ahead)
    with connection.cursor() as cursor:
        for table in partitions.KEYS:
            cursor.execute(f"SELECT count(*) FROM {table}_pdefault")
            assert cursor.fetchone() == (0,), table
        cursor.execute(f"SELECT id FROM workflows_execution_p{month}")
        assert cursor.fetchall() == [(stray,)]
    flows.finish([queue])
    assert flows.status(stray) == "COMPLETED"
    control.remove(flows.NAMESPACE, stray, actor="olga")


def test_a_callers_open_transaction_puts_the_roller_off_and_stops_nobody() -> None:
    ahead = NOW + timedelta(days=120)
    before = names()
    with transaction():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE workflows_execution_pdefault IN ACCESS SHARE MODE")
        assert Contender(lambda: roll_partitions(ahead)).result() == 0
        assert Contender(lambda: flows.start(flows.register(flows.simple("a")))).result()
    made = {name for name in names() - before if name.startswith("workflows_execution_")}
    assert made == set()
    roll_partitions(ahead)
    assert {name for name in names() - before if name.startswith("workflows_execution_")}


def test_a_month_of_which_nothing_must_be_kept_is_emptied_at_once_and_dropped() -> None:
    runs = [ended() for _ in range(3)]
    month = f"{NOW:%Y%m}"
    assert retention.retire(LATER) >= 1
    assert kept(*runs) == [False] * 3
    assert not any(name.endswith(month) for name in names())
    assert not Task.objects.exists()
    roll_partitions()
    run = ended()
    assert flows.status(run) == "COMPLETED"


def test_a_month_with_one_run_that_lives_is_neither_emptied_nor_dropped() -> None:
    alive = flows.start(flows.register(flows.simple("a")))
    ended()
    empty_months(LATER, LATER, LATER)
    assert kept(alive) == [True]
    assert {f"{table}_p{NOW:%Y%m}" for table in partitions.KEYS} <= names()


@pytest.mark.invariant("INV-9")
def test_a_late_start_of_an_old_id_is_waited_for_or_puts_the_emptying_off() -> None:
    """The check and the TRUNCATE stand under the partitions' locks: without them a running run would be deleted."""
    done = ended()
    name = flows.register(flows.simple("a"))
    month = f"{NOW:%Y%m}"

    def truncate() -> bool:
        return alter("truncate", lambda cursor: partitions.truncate(cursor, month, LATER, LATER))

    with transaction():
        late = flows.start(name)
        assert Contender(truncate).result() is False
    assert kept(done, late) == [True, True]
    assert truncate() is False, "the run that started lives"
    assert kept(late) == [True]


@pytest.mark.invariant("INV-9")
def test_dropping_a_month_waits_for_a_reader_and_holds_nothing_that_the_reader_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table is locked before its partition, as every statement does; the other way round the two would deadlock."""
    monkeypatch.setattr(maintenance, "_LOCK_TIMEOUT", "8s")
    before = put_off()
    ended()
    month = f"{NOW:%Y%m}"
    for table in partitions.KEYS:
        with transaction(), connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {table}_p{month}")
    with transaction(), connection.cursor() as cursor:
        for table in partitions.KEYS:
            cursor.execute(f"LOCK TABLE ONLY {table} IN ACCESS SHARE MODE")
        dropping = Contender(lambda: empty_months(LATER, LATER, LATER)).until_blocked()
        for table in partitions.KEYS:
            cursor.execute(f"SELECT count(*) FROM {table}")
            assert cursor.fetchone() == (0,)
    assert dropping.result() >= 1
    assert put_off() == before, "it was not the victim of a deadlock"
    assert not any(name.endswith(month) for name in names())


def test_the_command_says_what_it_would_do_and_does_it(settings: Any) -> None:
    ended()
    out = StringIO()
    call_command("retention", "--dry-run", stdout=out)
    assert out.getvalue() == "0 runs could go\n"
    call_command("retention", stdout=out)
    assert out.getvalue().endswith("0 runs, months, keys, dead letters and revisions deleted\n")
    assert retention.preview(LATER) == 1
