"""Searches of runs, tasks and firings: Conductor's query, free text, sort, and pages by offset or by cursor.

A cursor holds the sort values of the last row of a page, so that what is inserted or ends meanwhile neither repeats nor
hides a row. Hits are counted up to a cap, and a search that looks at too much is stopped and refused.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import OperationalError
from django.db.models import F, Func, Model, Q, QuerySet, TextField
from django.db.models.fields.json import KeyTransform
from django.db.models.lookups import Exact
from psycopg.errors import QueryCanceled

from orchestrator.conf import conf
from orchestrator.db import json
from orchestrator.db.ids import parse_id
from orchestrator.db.sql import engine_connection
from orchestrator.db.transactions import snapshot
from orchestrator.errors import Invalid, LimitExceeded
from workflows.engine.attributes import is_attribute
from workflows.engine.state import FAILURES
from workflows.models import Execution, ScheduleRun, Task
from workflows.services.queries import Condition, Value, parse

COUNT_MOST = 10_000
"""Hits are counted up to here; a longer list says this many."""


@dataclass(frozen=True, slots=True)
class Searchable:
    """What can be searched: the names clients use for its columns, and what free text looks at."""

    model: type[Model]
    fields: dict[str, str]
    words: tuple[str, ...]
    ids: tuple[str, ...]
    attributes: bool = False


RUNS = Searchable(Execution, {
    "workflowId": "id", "workflowType": "name", "workflowName": "name", "version": "version", "status": "status",
    "correlationId": "correlation_id", "startTime": "created_at", "createTime": "created_at", "updateTime": "updated_at",
    "endTime": "ended_at", "parentWorkflowId": "parent_workflow_id", "priority": "priority", "createdBy": "created_by",
    "reasonForIncompletion": "reason", "idempotencyKey": "idempotency_key",
}, ("name", "correlation_id", "reason"), ("id", "parent_workflow_id"), attributes=True)  # fmt: skip
TASKS = Searchable(Task, {
    "taskId": "id", "workflowId": "workflow_id", "taskType": "name", "taskDefName": "name", "status": "status",
    "taskReferenceName": "ref", "referenceTaskName": "ref", "workerId": "worker_id", "scheduledTime": "scheduled_at",
    "startTime": "started_at", "updateTime": "updated_at", "endTime": "ended_at", "reasonForIncompletion": "reason",
}, ("name", "ref", "reason"), ("id", "workflow_id"))  # fmt: skip
SCHEDULE_RUNS = Searchable(ScheduleRun, {
    "scheduleName": "schedule_name", "workflowName": "workflow_name", "workflowType": "workflow_name",
    "workflowId": "workflow_id", "state": "state", "status": "state", "scheduledTime": "scheduled_at",
    "executionTime": "executed_at",
}, ("schedule_name", "workflow_name"), ("workflow_id",))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for; with a cursor `start` means nothing."""

    query: str = ""
    free_text: str = "*"
    sort: str = ""
    start: int = 0
    size: int = 100
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A page of hits; `total` stops counting at COUNT_MOST, `cursor` goes on behind this page."""

    total: int
    hits: list[Any]
    cursor: str | None = None


def search(what: Searchable, namespace: str, wanted: Search) -> Found:
    """A page of hits, newest first unless sorted; raises Invalid, or LimitExceeded for a search that takes too long."""
    rows = select(what, namespace, wanted)
    order = _Order(what, wanted.sort)
    with _bounded():
        total = rows.order_by()[:COUNT_MOST].count()
        page = order.after(rows, wanted.cursor) if wanted.cursor else rows
        first = 0 if wanted.cursor else wanted.start
        hits = list(page.order_by(*order.expressions())[first : first + wanted.size + 1])
    more = len(hits) > wanted.size > 0
    hits = hits[: wanted.size]
    return Found(total, hits, order.cursor(hits[-1]) if more else None)


def select(what: Searchable, namespace: str, wanted: Search) -> QuerySet[Any]:
    """The rows of a search in no order."""
    rows: QuerySet[Any] = what.model._default_manager.filter(namespace=namespace)
    for condition in parse(wanted.query):
        rows = rows.filter(_condition(what, condition))
    for word in [] if wanted.free_text.strip() in ("", "*") else wanted.free_text.split():
        rows = rows.filter(_word(what, word))
    return rows


@contextmanager
def _bounded() -> Iterator[None]:
    """One snapshot, and an end to what looks at too much."""
    try:
        with snapshot(), engine_connection().cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(int(conf().SEARCH_SECONDS * 1000))])
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise LimitExceeded(
                "The search looks at too much: name a workflowType, a correlationId, a search attribute, or a range of "
                "startTime."
            ) from None
        raise


def _word(what: Searchable, word: str) -> Q:
    identifier = parse_id(word)
    if identifier is not None:
        found = Q()
        for name in what.ids:
            found |= Q(**{name: identifier})
        return found
    found = Q()
    for name in what.words:
        found |= Q(**{f"{name}__icontains": word.strip("*")})
    return found | Q(attributes__icontains=word.strip("*")) if what.attributes else found


def _condition(what: Searchable, condition: Condition) -> Q:
    name = condition.field
    if what.attributes and is_attribute(name):
        return _on_attribute(condition)
    if name not in what.fields:
        known = ", ".join(sorted(what.fields)) + (" and declared attributes (input.…)" if what.attributes else "")
        raise Invalid(problems=[("query", f"unknown field {name!r}; known are {known}")])
    column = what.fields[name]
    kind = what.model._meta.get_field(column).get_internal_type()
    if condition.operator.endswith("IN"):
        values = [_value(kind, name, value) for value in condition.values]
        found = Q(**{f"{column}__in": values})
        return ~found if condition.operator == "NOT IN" else found & _has_reason(what, column, values)
    (value,) = condition.values
    if condition.operator in ("=", "!=") and kind == "TextField" and "*" in value.text:
        pattern = "^" + ".*".join(re.escape(part) for part in value.text.split("*")) + "$"
        found = Q(**{f"{column}__regex": pattern})
    else:
        wanted = _value(kind, name, value)
        found = Q(**{column + _SUFFIXES.get(condition.operator, ""): wanted})
        if condition.operator == "=":
            found &= _has_reason(what, column, [wanted])
    return ~found if condition.operator == "!=" else found


def _has_reason(what: Searchable, column: str, values: Sequence[Any]) -> Q:
    """Failed tasks have one: said for the index that holds these alone."""
    return Q(reason__isnull=False) if what is TASKS and column == "status" and FAILURES.issuperset(values) else Q()


_SUFFIXES = {">": "__gt", "<": "__lt", ">=": "__gte", "<=": "__lte"}


def _on_attribute(condition: Condition) -> Q:
    """By containment, which the index serves; a list is found by each of its items."""
    name = condition.field
    if condition.operator in _SUFFIXES:
        (value,) = condition.values
        bound = _readings(value)[0]
        kind = "string" if isinstance(bound, str) else "boolean" if isinstance(bound, bool) else "number"
        type_of = Func(KeyTransform(name, "attributes"), function="jsonb_typeof", output_field=TextField())
        return Q(Exact(type_of, kind)) & Q(**{f"attributes__{name}{_SUFFIXES[condition.operator]}": bound})
    found = Q(pk__in=[])
    for value in condition.values:
        for reading in _readings(value):
            found |= Q(attributes__contains={name: reading}) | Q(attributes__contains={name: [reading]})
    return ~found if condition.operator in ("!=", "NOT IN") else found


def _readings(value: Value) -> list[Any]:
    """What a value can mean: a bare 5 is the number, or the text of one character."""
    if value.quoted:
        return [value.text]
    try:
        parsed = json.loads(value.text)
    except ValueError:
        return [value.text]
    return [parsed, value.text] if isinstance(parsed, (bool, int, float)) else [value.text]


def _value(kind: str, name: str, value: Value) -> Any:
    try:
        if kind == "DateTimeField":
            return _moment(value.text)
        if kind in ("IntegerField", "SmallIntegerField"):
            return int(value.text)
        if kind == "UUIDField":
            return parse_id(value.text) or UUID(int=0)
    except (ValueError, OverflowError, OSError):
        expected = "epoch milliseconds or an ISO time" if kind == "DateTimeField" else "a number"
        raise Invalid(problems=[("query", f"{name}: expected {expected}, got {value.text!r:.60}")]) from None
    return value.text


def _moment(text: str) -> datetime:
    if text.lstrip("-").isdigit():
        return datetime.fromtimestamp(int(text) / 1000, tz=UTC)
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class _Order:
    """`field:ASC|field:DESC` and the id behind it; a time that has not come sorts as the last of all."""

    def __init__(self, what: Searchable, sort: str) -> None:
        self.sort = sort
        self.keys: list[tuple[str, bool]] = []
        for part in filter(None, sort.split("|")):
            name, _, direction = part.partition(":")
            if name not in what.fields or direction.upper() not in ("", "ASC", "DESC"):
                known = ", ".join(sorted(what.fields))
                raise Invalid(problems=[("sort", f"expected field:ASC or field:DESC of {known}, got {part!r:.60}")])
            self.keys.append((what.fields[name], direction.upper() == "DESC"))
        newest = [("created_at", True)] if what.model is Execution and not self.keys else []
        self.keys = [*self.keys, *newest, ("id", True)]
        self.model = what.model

    def expressions(self) -> list[Any]:
        """For ORDER BY: NULL is greater than everything, as PostgreSQL has it."""
        return [F(name).desc() if descending else F(name).asc() for name, descending in self.keys]

    def cursor(self, row: Any) -> str:
        """Where a row stands."""
        values = [getattr(row, name) for name, _ in self.keys]
        shown = [v.isoformat() if isinstance(v, datetime) else str(v) if isinstance(v, UUID) else v for v in values]
        return urlsafe_b64encode(json.dumps([self.sort, shown]).encode()).decode().rstrip("=")

    def after(self, rows: QuerySet[Any], cursor: str) -> QuerySet[Any]:
        """The rows behind a cursor: equal in the keys before, beyond it in one."""
        values = self._read(cursor)
        behind, equal = Q(pk__in=[]), Q()
        for (name, descending), value in zip(self.keys, values, strict=True):
            behind |= equal & _beyond(name, descending, value)
            equal &= Q(**{f"{name}__isnull": True}) if value is None else Q(**{name: value})
        (first, descending), value = self.keys[0], values[0]
        if value is not None and descending:
            rows = rows.filter(**{f"{first}__lte": value})  # said once more for the index
        return rows.filter(behind)

    def _read(self, cursor: str) -> Sequence[Any]:
        try:
            sort, values = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            if sort != self.sort or len(values) != len(self.keys):
                raise ValueError
            return [self._parsed(name, value) for (name, _), value in zip(self.keys, values, strict=True)]
        except (ValueError, TypeError, RecursionError, ValidationError):
            raise Invalid(problems=[("cursor", "expected the nextCursor of a page of the same search")]) from None

    def _parsed(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        field: Any = self.model._meta.get_field(name)
        return field.to_python(value)


def _beyond(name: str, descending: bool, value: Any) -> Q:
    """Rows behind a value of one key, NULL being the greatest."""
    if descending:
        return Q(**{f"{name}__isnull": False}) if value is None else Q(**{f"{name}__lt": value})
    return Q(pk__in=[]) if value is None else Q(**{f"{name}__gt": value}) | Q(**{f"{name}__isnull": True})
