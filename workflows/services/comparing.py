"""The difference of two versions of a definition, task by task."""

from __future__ import annotations

from json import dumps
from typing import Any

from workflows.engine.structure import blocks_of, tasks_of
from workflows.services.definitions import get

_BLOCKS = ("decisionCases", "defaultCase", "forkTasks", "loopOver")
_IGNORED = ("tasks", "version", "createTime", "updateTime")


def compare_versions(namespace: str, name: str, old: int, new: int) -> dict[str, Any]:
    """What version `new` changes in version `old`; raises NotFound."""
    found = compare(get(namespace, name, old).definition, get(namespace, name, new).definition)
    return {"name": name, "from": old, "to": new, **found}


def compare(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Tasks are the same when their refs are; one has moved when its block has changed, or, of those kept, the one before."""
    before, after = _flat(old), _flat(new)
    kept = [ref for ref in before if ref in after]
    was, now = _places(before, after), _places(after, before)
    fields = _changes(_without(old, _IGNORED), _without(new, _IGNORED))
    changed = {ref: _changes(before[ref][1], after[ref][1]) for ref in kept}
    return {
        "fields": fields,
        "added": [{"ref": ref, "in": after[ref][0]} for ref in after if ref not in before],
        "removed": [{"ref": ref, "in": before[ref][0]} for ref in before if ref not in after],
        "moved": [{"ref": ref, "from": _said(was[ref]), "to": _said(now[ref])} for ref in kept if was[ref] != now[ref]],
        "changed": [{"ref": ref, "fields": found} for ref, found in changed.items() if found],
    }


Flat = dict[str, tuple[str, dict[str, Any]]]


def _flat(definition: dict[str, Any]) -> Flat:
    """ref -> (the block it stands in, its own fields), in the order of the text."""
    found: Flat = {}

    def walk(block: list[dict[str, Any]], path: str) -> None:
        for task in block:
            ref = str(task["taskReferenceName"])
            found[ref] = (path, _without(task, _BLOCKS))
            for name, inner in blocks_of(task):
                walk(inner, f"{ref}.{name}")

    walk(tasks_of(definition.get("tasks")), "tasks")
    return found


def _places(flat: Flat, other: Flat) -> dict[str, tuple[str, str | None]]:
    """ref -> (block, the task before it in that block), among the tasks that stand in the same block in both."""
    last: dict[str, str] = {}
    found: dict[str, tuple[str, str | None]] = {}
    for ref, (block, _) in flat.items():
        found[ref] = (block, last.get(block))
        if ref in other and other[ref][0] == block:
            last[block] = ref
    return found


def _said(place: tuple[str, str | None]) -> str:
    block, previous = place
    return f"{block}, after {previous}" if previous else f"{block}, first"


def _without(value: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in names}


def _changes(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """Each value that differs, by its path; a missing one has no `from` or no `to`."""
    if dumps(old, sort_keys=True) == dumps(new, sort_keys=True):  # 1 is not true, and not 1.0
        return []
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [{"path": path, "from": old, "to": new}]
    found: list[dict[str, Any]] = []
    for key in dict.fromkeys([*old, *new]):
        at = f"{path}.{key}" if path else key
        if key not in old:
            found.append({"path": at, "to": new[key]})
        elif key not in new:
            found.append({"path": at, "from": old[key]})
        else:
            found += _changes(old[key], new[key], at)
    return found
