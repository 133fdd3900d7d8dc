"""The registry of JSON Schemas: a definition names one, and gets its text when it is registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrator.db.locks import Advisory, advisory_key, take_advisory
from orchestrator.db.transactions import transaction
from orchestrator.errors import Conflict, Invalid, NotFound
from workflows.engine.problems import Problem
from workflows.engine.schemas import FIELDS, only_named, schema_problems
from workflows.managers.payload_schema import StoredSchema
from workflows.models import PayloadSchema

_MOST = 2**31


def register(namespace: str, given: Any, *, new_version: bool, created_by: str | None = None) -> list[StoredSchema]:
    """Register schemas, all or none; `new_version` counts on from the latest instead of taking what each says.

    A version that exists stays as it is. Raises Invalid with positions, or Conflict for another text of a version.
    """
    problems = [(f"[{i}].{p.path}".rstrip("."), p.message) for i, schema in enumerate(given) for p in _problems(schema)]
    if problems:
        raise Invalid(problems=problems)
    with transaction():
        take_advisory([_lock(namespace, schema["name"]) for schema in given])
        return [_register(namespace, schema, new_version, created_by) for schema in given]


def get(namespace: str, name: str, version: int | None = None) -> StoredSchema:
    """One version, or the latest; raises NotFound."""
    found = PayloadSchema.sql.get(namespace, name, version)
    if found is None:
        raise NotFound(_missing(name, version), name=name)
    return found


def find(namespace: str) -> list[StoredSchema]:
    """All versions of every name."""
    return PayloadSchema.sql.find(namespace)


def unregister(namespace: str, name: str, version: int | None = None) -> None:
    """Forget a version, or all; definitions keep their copies. Raises NotFound."""
    with transaction():
        if not PayloadSchema.sql.delete(namespace, name, version):
            raise NotFound(_missing(name, version), name=name)


def filled_in(namespace: str, definition: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """(a definition with the text of each schema that it only names, problems of those that do not exist)."""
    filled, problems = dict(definition), []
    for field in FIELDS:
        schema = definition.get(field)
        if not isinstance(schema, dict) or not only_named(schema):
            continue
        version = schema.get("version") or None
        if version is not None and (type(version) is not int or not 0 < version < _MOST):
            problems.append((f"{field}.version", f"expected a whole number from 1, got {version!r:.40}"))
            continue
        found = PayloadSchema.sql.get(namespace, schema["name"], version)
        if found is not None:
            filled[field] = {**schema, "version": found.version, "data": found.data}
        elif definition.get("enforceSchema") is not False:
            problems.append((f"{field}.name", f"{_missing(schema['name'], version)}; POST /api/schema registers it"))
    return filled, problems


def _register(namespace: str, schema: dict[str, Any], new_version: bool, created_by: str | None) -> StoredSchema:
    name, latest = schema["name"], PayloadSchema.sql.get(namespace, schema["name"])
    version = (latest.version if latest else 0) + 1 if new_version else schema.get("version") or 1
    known = PayloadSchema.sql.get(namespace, name, version)
    if known is not None and known.data != schema["data"]:
        raise Conflict(f"Schema {name}.{version} has another text; newVersion=true adds a version", name=name)
    if known is None:
        PayloadSchema.sql.insert(namespace, name, version, schema["data"], created_by)
    return get(namespace, name, version)


def _problems(schema: Any) -> Iterator[Problem]:
    if not isinstance(schema, dict):
        yield Problem("", f"expected an object with name, version and data, got {type(schema).__name__}")
        return
    name, version = schema.get("name"), schema.get("version")
    if not isinstance(name, str) or not name.strip():
        yield Problem("name", f"expected a name, got {name!r:.40}")
    if version is not None and (type(version) is not int or not 0 < version < _MOST):
        yield Problem("version", f"expected a whole number from 1, got {version!r:.40}")
    yield from schema_problems(schema)


def _lock(namespace: str, name: str) -> int:
    return advisory_key(Advisory.DEFINITION, namespace, f"schema {name}")


def _missing(name: str, version: int | None) -> str:
    return f"There is no schema {name}" + ("" if version is None else f", version {version}")
