"""Revisions: what a run executes, frozen at its start, and the blueprints compiled from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from orchestrator.db import json
from orchestrator.db.transactions import after_commit
from orchestrator.errors import NotFound
from workflows import listening
from workflows.engine.blueprint import Blueprint, compile
from workflows.engine.masked_fields import with_masked
from workflows.models import Revision, TaskDefinition, WorkflowDefinition
from workflows.services.payload_schemas import filled_in

_BLUEPRINTS: dict[UUID, Blueprint] = {}
_KEEP = 2000


@dataclass(frozen=True, slots=True)
class _Resolved:
    """What a name resolved to while its stamp stands."""

    tasks: tuple[str, ...]
    stamp: tuple[Any, ...]
    revision_id: UUID
    definition: dict[str, Any]


_RESOLVED: dict[tuple[str, str, int | None, frozenset[str]], _Resolved] = {}


def resolve_revision(
    namespace: str,
    name: str,
    version: int | None = None,
    definition: dict[str, Any] | None = None,
    masked: frozenset[str] = frozenset(),
) -> tuple[UUID, dict[str, Any]]:
    """(revision id, frozen definition) of a name, or of a definition given inline; needs a transaction.

    It masks the fields `masked` beside its own.

    A definition that did not change since this process last resolved it costs one query. The revision is held until the
    transaction ends, so that it cannot be pruned before what names it is there. Raises NotFound.
    """
    if definition is not None:
        frozen = with_masked(_freeze_children(namespace, filled_in(namespace, definition)[0]), masked)
        return _store(namespace, frozen, _task_names(frozen)), frozen
    known = _RESOLVED.get((namespace, name, version, masked))
    if known is not None and _stands(namespace, name, version, known):
        return known.revision_id, known.definition
    stored = WorkflowDefinition.sql.get(namespace, name, version)
    if stored is None:
        raise NotFound(missing(name, version), name=name)
    complete = with_masked({**stored.definition, "name": stored.name, "version": stored.version}, masked)
    frozen = _freeze_children(namespace, complete)
    tasks = _task_names(frozen)
    stamp = WorkflowDefinition.sql.stamp(namespace, name, version, tasks)  # before what it vouches for is read
    revision_id = _store(namespace, frozen, tasks)
    if frozen is complete and stamp is not None and stamp[1] == stored.updated_at:
        # Only once the revision is committed; a child's latest version may change without our stamp.
        resolved = _Resolved(tasks, stamp, revision_id, frozen)
        after_commit(lambda: _RESOLVED.__setitem__((namespace, name, version, masked), resolved))
    return revision_id, frozen


def _stands(namespace: str, name: str, version: int | None, known: _Resolved) -> bool:
    return WorkflowDefinition.sql.stamp(namespace, name, version, known.tasks, known.revision_id) == known.stamp


def _store(namespace: str, frozen: dict[str, Any], names: Sequence[str]) -> UUID:
    """The revision of a definition and of its task definitions as they are now."""
    tasks = {found.name: found.definition for found in TaskDefinition.sql.find(namespace, names)}
    digest = hashlib.sha256(json.dumps([frozen, tasks]).encode()).hexdigest()
    return Revision.sql.find(digest) or Revision.sql.insert(digest, frozen, tasks)


def _task_names(definition: dict[str, Any]) -> tuple[str, ...]:
    return tuple(sorted({task["name"] for task in every_task(definition) if isinstance(task.get("name"), str)}))


def missing(name: str, version: int | None) -> str:
    """The message for a definition that does not exist."""
    suffix = "" if version is None else f", version: {version}"
    return f"No such workflow found by name: {name}{suffix}"


def blueprint_for(ids: Iterable[UUID]) -> dict[UUID, Blueprint]:
    """The compiled blueprints of revisions, from this process's cache or read and compiled."""
    wanted = set(ids)
    unknown = [revision for revision in wanted if revision not in _BLUEPRINTS]
    if unknown:
        if len(_BLUEPRINTS) > _KEEP:
            _BLUEPRINTS.clear()
            unknown = list(wanted)
        for revision, definition, tasks in Revision.sql.read(unknown):
            _BLUEPRINTS[revision] = compile(definition, tasks)
            listening.learn(revision, definition)
    return {revision: _BLUEPRINTS[revision] for revision in wanted if revision in _BLUEPRINTS}


def every_task(definition: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every task of a definition, nested ones included."""
    waiting = [definition.get("tasks")]
    while waiting:
        block = waiting.pop()
        if not isinstance(block, list):
            continue
        for task in block:
            if isinstance(task, list):
                waiting.append(task)
            if not isinstance(task, dict):
                continue
            yield task
            waiting.append(task.get("loopOver"))
            waiting.append(task.get("defaultCase"))
            waiting.extend(task.get("forkTasks") or [])
            waiting.extend((task.get("decisionCases") or {}).values())
            waiting.append([task.get("compensateWith")])


def _freeze_children(namespace: str, definition: dict[str, Any]) -> dict[str, Any]:
    """The definition with the latest versions of its sub-workflows written in."""
    open_children = [
        task["subWorkflowParam"]
        for task in every_task(definition)
        if isinstance(task.get("subWorkflowParam"), dict) and _unpinned(task["subWorkflowParam"])
    ]
    if not open_children:
        return definition
    copy: dict[str, Any] = json.loads(json.dumps(definition))
    for task in every_task(copy):
        child = task.get("subWorkflowParam")
        if isinstance(child, dict) and _unpinned(child):
            latest = WorkflowDefinition.sql.get(namespace, child["name"])
            if latest is not None:
                child["version"] = latest.version
    return copy


def _unpinned(child: dict[str, Any]) -> bool:
    name = child.get("name")
    return (
        not child.get("version") and not child.get("workflowDefinition") and isinstance(name, str) and "${" not in name
    )
