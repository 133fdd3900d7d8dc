"""Payloads from the store for a pass: which of them its rows refer to, read while nothing is locked, put in their places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from orchestrator.db import json
from orchestrator.errors import PayloadLost
from workflows import offloading
from workflows.engine.state import TaskView
from workflows.managers.execution import LockedExecution
from workflows.offloading import Reference

Payloads = Mapping[str, bytes | PayloadLost]
"""Objects that were read for runs, or why they could not be."""
NOTHING: Payloads = MappingProxyType({})
Holder = TypeVar("Holder", LockedExecution, TaskView)


class Unread(Exception):
    """Payloads that are not at hand, by their keys."""

    def __init__(self, references: dict[str, Reference]) -> None:
        super().__init__(", ".join(references))
        self.references = references


class Lost(Exception):
    """A payload that a run cannot go on without is lost; `ref` is the task that it belongs to, if it is a task's."""

    def __init__(self, reason: str, ref: str | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.ref = ref


def read(reference: Reference) -> bytes | PayloadLost:
    """An object from the store; raises StoreUnavailable."""
    try:
        return offloading.fetch(reference)
    except PayloadLost as error:
        return error


def is_offloaded(row: LockedExecution | TaskView) -> bool:
    """Whether a row refers to the store."""
    return type(row.input) is Reference or type(row.output) is Reference


def gather(rows: Iterable[LockedExecution | TaskView], known: Payloads) -> dict[str, bytes | PayloadLost]:
    """The objects that rows refer to, of those at hand; raises Unread for the others."""
    references = {v.key: v for row in rows for v in (row.input, row.output) if isinstance(v, Reference)}
    held = {key: known.get(key) or offloading.cache.get(key) for key in references}
    missing = {key: references[key] for key, data in held.items() if data is None}
    if missing:
        raise Unread(missing)
    return {key: data for key, data in held.items() if data is not None}


def fill(row: Holder, whose: str, held: Payloads) -> Holder:
    """A row with its payloads in their places; raises Lost."""
    if not is_offloaded(row):
        return row
    found = {}
    for name in ("input", "output"):
        value = getattr(row, name)
        if isinstance(value, Reference):
            data = held[value.key]
            if isinstance(data, PayloadLost):
                ref = row.ref if isinstance(row, TaskView) else None
                raise Lost(f"The {name} of {whose} cannot be read. {data.message}", ref)
            value = json.loads(data)
        found[name] = value
    return replace(row, **found)
