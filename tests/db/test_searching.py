"""Searches: the language, free text, sort, pages that stay put, declared attributes, and the indexes that serve them."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from orchestrator.db.ids import new_id
from orchestrator.errors import Invalid, LimitExceeded
from tests import flows
from tests.flows import NAMESPACE, register, simple, start, unique
from workflows.engine.attributes import extract
from workflows.models import Execution
from workflows.services import control, searching
from workflows.services.queries import Condition, Value, parse
from workflows.services.searching import COUNT_MOST, RUNS, TASKS, Search, search, select

pytestmark = pytest.mark.usefixtures("committed")


def found(query: str = "", **fields: Any) -> list[UUID]:
    return [run.id for run in search(RUNS, NAMESPACE, Search(query, **fields)).hits]


@pytest.mark.parametrize(
    ("query", "conditions"), [
        ("", []),
        ("  ", []),
        ("a=1", [("a", "=", "1")]),
        ("workflowType = my flow AND status != 'A AND B'", [("workflowType", "=", "my flow"), ("status", "!=", "'A AND B'")]),
        ("x IN (a, 'b,c' ,\"d)\")and y>=5", None),
        ("x IN (a, 'b,c' ,\"d)\") and y>=5", [("x", "IN", "a", "'b,c'", "'d)'"), ("y", ">=", "5")]),
        ("x not in [a,b]", [("x", "NOT IN", "a", "b")]),
        ("x IN ()", [("x", "IN")]),
        ("x = ''", [("x", "=", "''")]),
        ("input.a.b = 'c'", [("input.a.b", "=", "'c'")]),
        ("x =", None),
        ("= 1", None), ("x ~ 1", None), ("x IN a", None), ("x IN (a", None), ("x = 'a' y = 1", None),
        ("x = 1 AND ", None),
    ],
)  # fmt: skip
def test_the_language(query: str, conditions: list[tuple[str, ...]] | None) -> None:
    if conditions is None:
        with pytest.raises(Invalid) as refused:
            parse(query)
        assert refused.value.problems[0][0] == "query" and "at character" in refused.value.problems[0][1]
        return
    expected = [
        Condition(name, operator, tuple(Value(v.strip("'"), v.startswith("'")) for v in values))
        for name, operator, *values in conditions
    ]
    assert parse(query) == expected


def test_conditions() -> None:
    first, second = unique("alpha"), unique("beta")
    for name in (first, second):
        register(simple("a"), name=name)
    a = start(first, correlation_id="c 1", priority=5)
    b = start(second, created_by="ann")
    control.terminate(NAMESPACE, b, actor="ann", reason="enough of it")
    assert found(f"workflowType={first}") == [a]
    assert found(f"workflowType IN ({first}, '{second}')") == [b, a]
    assert found(f"workflowType NOT IN ({first})") == [b]
    assert found("status = TERMINATED AND workflowType = beta*") == [b]
    assert found("status != TERMINATED") == [a]
    assert found("correlationId = 'c 1'") == found("correlationId=c 1") == [a]
    assert found("priority >= 5") == found("priority>4") == [a]
    assert found(f"workflowId={a}") == [a] and found("workflowId=nonsense") == []
    assert found("reasonForIncompletion = *enough*") == [b]
    assert found("startTime > 0 AND startTime < 2000-01-01") == []
    assert found("startTime > 2000-01-01T00:00:00+02:00") == [b, a]
    assert found("createdBy=ann", sort="startTime:ASC") == [b]
    assert search(RUNS, "elsewhere", Search()).hits == []
    for bad in ("nope=1", "priority=high", "startTime=soon", "status IN x"):
        with pytest.raises(Invalid):
            found(bad)
    with pytest.raises(Invalid, match="Validation"):
        found(sort="nope:DESC")


def test_free_text() -> None:
    name = unique("Alpha")
    register(simple("a"), name=name, searchAttributes=["input.city"])
    a = start(name, {"city": "Zürich"}, correlation_id="order-17")
    b = start(name)
    assert found(free_text="*") == found(free_text="") == [b, a]
    assert found(free_text=str(a)) == [a]
    assert found(free_text=name.lower()) == [b, a]
    assert found(free_text="ORDER-1") == found(free_text="alpha order*") == found(free_text="zürich") == [a]
    assert found(free_text="%") == found(free_text="_lpha") == [], "patterns are not wildcards"
    assert [t.workflow_id for t in search(TASKS, NAMESPACE, Search(free_text=str(a))).hits] in ([], [a])


ATTRIBUTES = ["input.order.id", "input.order.total", "input.tags", "input.vip", "input.none"]


def test_conditions_on_declared_attributes() -> None:
    name = register(simple("a"), searchAttributes=ATTRIBUTES)
    a = start(name, {"order": {"id": "5", "total": 99.5}, "tags": ["red", "blue"], "vip": True, "secret": "x"})
    b = start(name, {"order": {"id": 5, "total": 7}, "tags": ["red"], "vip": False})
    c = start(register(simple("a")), {"order": {"id": "5"}})
    assert found("input.order.id = '5'") == [a], "a quoted value is a text; what is not declared is not found"
    assert found("input.order.id = 5") == [b, a], "a bare one is both"
    assert found("input.order.total > 50") == [a]
    assert found("input.order.total >= 7 AND input.order.total < 99") == [b]
    assert found("input.order.id > 4") == [b], "numbers are compared with numbers only"
    assert found("input.order.id >= '5'") == [a]
    assert found("input.tags = blue") == [a] and found("input.tags IN (blue, red)") == [b, a]
    assert found("input.vip = true") == [a]
    assert found("input.order.id != '5'") == [c, b]
    assert found("input.other = 1") == []
    summary = search(RUNS, NAMESPACE, Search("input.vip = true")).hits[0]
    assert summary.attributes == {
        "input.order.id": "5", "input.order.total": 99.5, "input.tags": ["red", "blue"], "input.vip": True,
    }  # fmt: skip


def test_attributes_follow_a_new_input() -> None:
    name = register(simple("a"), searchAttributes=["input.x"])
    run = start(name, {"x": "old"})
    control.terminate(NAMESPACE, run, actor="ann")
    control.restart(NAMESPACE, run, actor="ann")
    assert found("input.x = old") == [run]
    control.terminate(NAMESPACE, run, actor="ann")
    control.rerun(NAMESPACE, run, actor="ann", workflow_input={"x": "new"})
    assert found("input.x = new") == [run] and found("input.x = old") == []


@pytest.mark.parametrize("declared", [5, ["x"], ["input"], ["input.a b"], ["output.x"], [5], ["input.x"] * 21, ["input.a__b"]])
def test_attributes_that_cannot_be_declared(declared: Any) -> None:
    with pytest.raises(Invalid) as refused:
        register(simple("a"), searchAttributes=declared)
    assert refused.value.problems[0][0].startswith("searchAttributes")


def test_what_is_kept_of_an_input() -> None:
    given = {"a": {"b": 1}, "n": None, "o": {}, "long": "x" * 501, "l": [1, {}], "ok": ["a", 2]}
    declared = {"searchAttributes": ["input.a.b", "input.n", "input.o", "input.long", "input.l", "input.ok", "input.a.b.c"]}
    assert extract(declared, given) == {"input.a.b": 1, "input.ok": ["a", 2]}
    assert extract({}, given) is None and extract(declared, {}) is None


@pytest.mark.parametrize(
    "sort", ["", "startTime:ASC", "endTime:ASC", "endTime:DESC", "status:ASC|correlationId:DESC", "priority:DESC|workflowType"]
)
def test_pages_by_cursor_neither_repeat_nor_hide(sort: str) -> None:
    """Runs are started, and ended, between the pages: what was there is seen once, in the order it had."""
    name = register(simple("a"))
    runs = [start(name, correlation_id=None if i % 3 else f"c{i % 2}", priority=i % 4) for i in range(12)]
    for run in runs[::4]:
        control.terminate(NAMESPACE, run, actor="ann")
    whole = found(sort=sort)
    assert sorted(whole) == sorted(runs)
    seen: list[UUID] = []
    cursor = None
    while True:
        page = search(RUNS, NAMESPACE, Search(sort=sort, size=3, cursor=cursor))
        seen += [run.id for run in page.hits]
        cursor = page.cursor
        if cursor is None:
            break
        start(name, priority=3)
    assert [run for run in seen if run in runs] == whole
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("cursor", ["x", "", "e30", "WyIiLFtdXQ", "WyIiLFsiYSIsImIiXV0", "é", "W1tdLFtdXQ"])
def test_a_cursor_of_another_search_is_refused(cursor: str) -> None:
    start(register(simple("a")))
    if cursor:
        with pytest.raises(Invalid):
            found(cursor=cursor)
    else:
        assert len(found(cursor=cursor)) == 1


def test_hits_are_counted_up_to_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows.services.searching.COUNT_MOST", 3)
    name = register(simple("a"))
    for _ in range(5):
        start(name)
    page = search(RUNS, NAMESPACE, Search(size=2))
    assert (page.total, len(page.hits), COUNT_MOST) == (3, 2, 10_000)
    assert len(found(start=4)) == 1


def test_a_search_that_looks_too_long_is_stopped_and_says_how_to_narrow_it(settings: Any) -> None:
    start(register(simple("a")))
    with connection.cursor() as cursor:
        cursor.execute("CREATE FUNCTION slow(text) RETURNS boolean LANGUAGE sql AS 'SELECT pg_sleep(5) IS NOT NULL'")
    try:
        settings.OSTINATO = {**settings.OSTINATO, "SEARCH_SECONDS": 0.05}
        with pytest.raises(LimitExceeded, match="workflowType"):
            _slowly()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION slow(text)")
    assert len(found()) == 1


def _slowly() -> None:
    with searching._bounded(), connection.cursor() as cursor:
        cursor.execute("SELECT slow('x')")


FILLER = """
INSERT INTO workflows_execution (id, namespace, name, version, revision_id, status, correlation_id, input, variables,
    task_to_domain, parent_workflow_id, attributes, created_at, updated_at)
SELECT f.id, e.namespace, 'flow' || mod(n, 300), 1, e.revision_id, 'COMPLETED', 'c' || n, e.input, e.variables,
       e.task_to_domain, md5(n::text)::uuid, jsonb_build_object('input.order.id', 'x' || n),
       now() - make_interval(secs => n), now()
  FROM workflows_execution e, unnest(%s::uuid[]) WITH ORDINALITY AS f(id, n)
"""
PLANS = [
    ("", "namespace"),
    ("workflowType = flow7", "name"),
    ("workflowType IN (flow7)", "name"),
    ("correlationId = c17", "correlation_id"),
    ("startTime > 1000 AND startTime < 2000", "created_at"),
    ("parentWorkflowId = 01890000-0000-7000-8000-000000000000", "parent_workflow_id"),
    ("workflowId = {run}", "id"),
    ("input.order.id = 'x17'", "attributes"),
]


class Rollback(Exception):
    pass


TASK_FILLER = """
INSERT INTO workflows_task (id, workflow_id, namespace, ref, name, type, status, input, reason, first_scheduled_at,
    scheduled_at, updated_at, ended_at)
SELECT f.id, t.workflow_id, t.namespace, 'f' || n, t.name, t.type, CASE mod(n, 50) WHEN 0 THEN 'FAILED' ELSE 'COMPLETED' END,
       t.input, CASE mod(n, 50) WHEN 0 THEN 'declined' END, now(), now(), now(), now()
  FROM workflows_task t, unnest(%s::uuid[]) WITH ORDINALITY AS f(id, n)
"""


@pytest.mark.parametrize("query", ["status = FAILED", "status IN (FAILED, TIMED_OUT)"])
def test_an_index_holds_the_failed_tasks_alone(query: str) -> None:
    start(register(simple("a")))
    flows.drain()
    with pytest.raises(Rollback), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(TASK_FILLER, [[new_id() for _ in range(20_000)]])
        cursor.execute("ANALYZE workflows_task")
        rows = select(TASKS, NAMESPACE, Search(query))
        assert rows.count() == 400
        plan = rows.order_by("-started_at", "-id")[:100].explain()
        assert "status" in " ".join(re.findall(r"Index Cond: (.*)", plan)), plan
        assert not re.search(r"Seq Scan .*rows=\d{3}", plan), plan
        raise Rollback


def test_a_failure_has_a_reason_even_if_none_was_given() -> None:
    queue = unique("q")
    start(register(simple("a", queue, retryCount=0)))
    flows.drain()
    flows.complete(flows.lease_all(queue, 1), status="FAILED")
    (task,) = search(TASKS, NAMESPACE, Search("status = FAILED")).hits
    assert task.reason == "no reason was given"


def test_indexes_serve_the_searches() -> None:
    """On a table of twenty thousand runs, copies of one, the planner does by itself what it must do on a million."""
    run = start(register(simple("a")))
    with pytest.raises(Rollback), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(FILLER, [[new_id() for _ in range(20_000)]])
        cursor.execute("ANALYZE workflows_execution")
        order = searching._Order(RUNS, "")
        for query, column in PLANS:
            plan = select(RUNS, NAMESPACE, Search(query.format(run=run))).order_by(*order.expressions())[:10].explain()
            conditions = " ".join(re.findall(r"Index Cond: (.*)", plan))
            assert re.search(rf"\b{column}\b", conditions), (query, plan)
            assert not re.search(r"Seq Scan .*rows=\d{3}", plan), (query, plan)
        behind = order.after(select(RUNS, NAMESPACE, Search()), order.cursor(Execution.objects.get(id=run)))
        plan = behind.order_by(*order.expressions())[:10].explain()
        assert "created_at <=" in " ".join(re.findall(r"Index Cond: (.*)", plan)), plan
        raise Rollback
