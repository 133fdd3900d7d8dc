"""Registration of definitions: validated with positions, versions never half-written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dispatch.models import Semaphore
from orchestrator.conf import conf
from orchestrator.db.locks import Advisory, advisory_key, take_advisory
from orchestrator.db.transactions import after_commit, snapshot, transaction
from orchestrator.errors import Conflict, Invalid, NotFound
from orchestrator.models import Tag
from workflows import limits
from workflows.engine.attributes import attribute_problems
from workflows.engine.validation import validate, validate_task_definition
from workflows.managers.definition import StoredDefinition, StoredTaskDefinition
from workflows.models import TaskDefinition, WorkflowDefinition
from workflows.services.payload_schemas import filled_in
from workflows.services.revisions import missing


def check(namespace: str, definition: Any) -> list[tuple[str, str]]:
    """The problems of a definition as (path, message); nothing is stored."""
    if not isinstance(definition, dict):
        return [("", f"a workflow definition must be an object, not {type(definition).__name__}")]
    definition, problems = filled_in(namespace, definition)
    problems += [(problem.path, problem.message) for problem in [*validate(definition), *attribute_problems(definition)]]
    if conf().REQUIRE_OWNER_EMAIL and not definition.get("ownerEmail"):
        problems.append(("ownerEmail", "ownerEmail cannot be empty"))
    return problems


def register(namespace: str, definition: Any, *, overwrite: bool, created_by: str | None = None) -> StoredDefinition:
    """Register a version; raises Invalid with positions, or Conflict when it exists and `overwrite` is off."""
    problems = check(namespace, definition)
    if problems:
        raise Invalid(problems=problems)
    definition, _ = filled_in(namespace, definition)
    name, version = definition["name"], definition.get("version") or 1
    complete = {"schemaVersion": 2, **definition, "version": version, "tasks": [_typed(t) for t in definition["tasks"]]}
    with transaction():
        take_advisory([advisory_key(Advisory.DEFINITION, namespace, name)])
        if overwrite:
            WorkflowDefinition.sql.upsert(namespace, name, version, complete, created_by)
        elif not WorkflowDefinition.sql.insert(namespace, name, version, complete, created_by):
            raise Conflict(f"Workflow with {name}.{version} already exists!", name=name, version=version)
    return get(namespace, name, version)


def get(namespace: str, name: str, version: int | None = None) -> StoredDefinition:
    """One version, or the latest; raises NotFound."""
    found = WorkflowDefinition.sql.get(namespace, name, version)
    if found is None:
        raise NotFound(missing(name, version), name=name)
    return found


def find(namespace: str, name: str | None = None) -> list[StoredDefinition]:
    """All versions of one name, or of every name."""
    return WorkflowDefinition.sql.find(namespace, name)


def find_latest(namespace: str) -> list[StoredDefinition]:
    """The latest version of each name."""
    return WorkflowDefinition.sql.find_latest(namespace, "", 0, None)


def find_page(namespace: str, text: str, start: int, size: int) -> tuple[list[StoredDefinition], int]:
    """A page of the latest versions of the names that hold a text, in any case, and how many names do."""
    with snapshot():
        found = WorkflowDefinition.sql.find_latest(namespace, text, start, size)
        return found, WorkflowDefinition.sql.count_names(namespace, text)


def find_versions(namespace: str) -> list[tuple[str, int, datetime, datetime]]:
    """(name, version, created at, updated at) of every version, by name and version."""
    return WorkflowDefinition.sql.find_versions(namespace)


def unregister(namespace: str, name: str, version: int) -> None:
    """Forget a version, and with the last one the name's tags; runs of it go on. Raises NotFound."""
    with transaction():
        take_advisory([advisory_key(Advisory.DEFINITION, namespace, name)])
        if not WorkflowDefinition.sql.delete(namespace, name, version):
            raise NotFound(missing(name, version), name=name)
        if WorkflowDefinition.sql.get(namespace, name) is None:
            Tag.sql.clear(namespace, "workflow", name)


def register_tasks(namespace: str, definitions: Any) -> None:
    """Register or replace task definitions, all or none; raises Invalid with positions."""
    if not isinstance(definitions, list):
        raise Invalid(problems=[("", "expected a list of task definitions")])
    problems = [
        (f"[{i}].{path}" if path else f"[{i}]", message)
        for i, definition in enumerate(definitions)
        for path, message in check_task(namespace, definition)
    ]
    if problems:
        raise Invalid(problems=problems)
    with transaction():
        _hold_semaphores(namespace, {f"[{i}].": definition for i, definition in enumerate(definitions)})
        for definition in sorted(definitions, key=lambda d: str(d["name"])):
            TaskDefinition.sql.upsert(namespace, definition["name"], filled_in(namespace, definition)[0])
        after_commit(limits.forget)


def update_task(namespace: str, definition: Any) -> None:
    """Replace a task definition; raises Invalid or NotFound."""
    problems = check_task(namespace, definition)
    if problems:
        raise Invalid(problems=problems)
    definition, _ = filled_in(namespace, definition)
    with transaction():
        _hold_semaphores(namespace, {"": definition})
        if not TaskDefinition.sql.update(namespace, definition["name"], definition):
            raise NotFound(f"No such task by name {definition['name']}", name=definition["name"])
        after_commit(limits.forget)


def check_task(namespace: str, definition: Any) -> list[tuple[str, str]]:
    """The problems of a task definition as (path, message)."""
    if not isinstance(definition, dict):
        return [("", f"a task definition must be an object, not {type(definition).__name__}")]
    definition, problems = filled_in(namespace, definition)
    problems += [(problem.path, problem.message) for problem in validate_task_definition(definition)]
    if conf().REQUIRE_OWNER_EMAIL and not definition.get("ownerEmail"):
        problems.append(("ownerEmail", "ownerEmail cannot be empty"))
    return problems


def _hold_semaphores(namespace: str, definitions: Mapping[str, dict[str, Any]]) -> None:
    """Lock the semaphores that definitions name, by the path of each; raises Invalid for those that do not exist: a task
    would wait for none of them, or for ever."""
    wanted = [(path, name) for path, d in definitions.items() for name, _ in limits.parse(d).semaphores]
    if not wanted:
        return
    known = Semaphore.sql.lock(sorted({(namespace, name) for _, name in wanted}))
    problems = [
        (path + "semaphores", f"there is no semaphore {name!r}; PUT /api/semaphores/{name} makes it")
        for path, name in wanted
        if (namespace, name) not in known
    ]
    if problems:
        raise Invalid(problems=problems)


def get_task(namespace: str, name: str) -> StoredTaskDefinition:
    """A task definition; raises NotFound."""
    found = TaskDefinition.sql.find(namespace, [name])
    if not found:
        raise NotFound(f"No such taskType found by name: {name}", name=name)
    return found[0]


def find_tasks(namespace: str) -> list[StoredTaskDefinition]:
    """All task definitions."""
    return TaskDefinition.sql.find(namespace)


def unregister_task(namespace: str, name: str) -> None:
    """Forget a task definition and its tags; raises NotFound."""
    with transaction():
        if not TaskDefinition.sql.delete(namespace, name):
            raise NotFound(f"No such taskType found by name: {name}", name=name)
        Tag.sql.clear(namespace, "task", name)
        after_commit(limits.forget)


def _typed(task: dict[str, Any]) -> dict[str, Any]:
    """A task without a type is SIMPLE, at every depth."""
    copy = {**task, "type": task.get("type") or "SIMPLE"}
    for key in ("loopOver", "defaultCase"):
        if copy.get(key):
            copy[key] = [_typed(child) for child in copy[key]]
    if copy.get("forkTasks"):
        copy["forkTasks"] = [[_typed(child) for child in branch] for branch in copy["forkTasks"]]
    if copy.get("decisionCases"):
        copy["decisionCases"] = {
            case: [_typed(child) for child in block] for case, block in copy["decisionCases"].items()
        }
    return copy
