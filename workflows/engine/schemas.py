"""JSON Schemas of inputs and outputs: compiled once, matched in linear time, and never fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from jsonschema_rs import Draft202012Validator, ReferencingError, RegexOptions, ValidationError

from workflows.engine.problems import Problem

FIELDS = ("inputSchema", "outputSchema")
_MOST = 10
_MOST_CHARACTERS = 200


class Schema:
    """A compiled schema of the 2020-12 draft; raises ValueError for what is none."""

    __slots__ = ("_validator",)

    def __init__(self, data: dict[str, Any]) -> None:
        try:
            self._validator = Draft202012Validator(data, pattern_options=RegexOptions(), retriever=_nowhere)
        except (ValidationError, ReferencingError) as error:
            raise ValueError(_short(str(error))) from None

    def violations(self, value: Any) -> list[tuple[str, str]]:
        """(path, message) of what a value violates, at most ten."""
        try:
            found = list(islice(self._validator.iter_errors(value), _MOST))
        except ValueError as error:  # nested too deeply
            return [("", _short(str(error)))]
        return [(".".join(map(str, one.instance_path)), _short(one.message)) for one in found]

    def complaint(self, value: Any, what: str) -> str | None:
        """What a value violates in one line, or None."""
        found = self.violations(value)
        return "; ".join(f"{what}.{path}: {said}" if path else f"{what}: {said}" for path, said in found) or None


def schema_of(holder: dict[str, Any], field: str, *, enforced: bool) -> Schema | None:
    """The schema that a workflow or a task definition enforces; `enforced` when it says nothing about that."""
    given = holder.get("enforceSchema")
    data = (holder.get(field) or {}).get("data")
    return Schema(data) if (enforced if given is None else given) and data else None


def check_schemas(holder: dict[str, Any], *, enforced: bool) -> Iterator[Problem]:
    """What is wrong with the schemas of a workflow or a task definition."""
    given = holder.get("enforceSchema")
    for field in FIELDS:
        schema = holder.get(field)
        if not schema:
            continue
        if not isinstance(schema, dict):
            yield Problem(field, f"expected an object with type JSON and data, got {type(schema).__name__}")
        elif not only_named(schema) and ((enforced if given is None else given) or schema.get("type", "JSON") != "JSON"):
            for problem in schema_problems(schema):  # one that is not enforced is kept for people
                yield Problem(f"{field}.{problem.path}", problem.message)


def only_named(schema: Any) -> bool:
    """Whether a schema is the name of a registered one, without its text."""
    return isinstance(schema, dict) and isinstance(schema.get("name"), str) and schema.get("data") is None


def schema_problems(schema: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong with a schema: its type, or its text in `data`."""
    if schema.get("type", "JSON") != "JSON":
        yield Problem("type", f"expected JSON, got {schema['type']!r:.40}")
    elif not isinstance(schema.get("data"), dict) or not schema["data"]:
        yield Problem("data", "expected a JSON Schema, or the name of a registered one")
    else:
        try:
            Schema(schema["data"])
        except ValueError as error:
            yield Problem("data", f"expected a JSON Schema: {error}")


def _nowhere(uri: str) -> Any:
    raise ValueError(f"a schema refers to its own parts alone, not to {uri}")


def _short(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else "it does not fit"
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
