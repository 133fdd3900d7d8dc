"""The blocks of a raw definition: which tasks stand where, without compiling it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Blocks = list[tuple[str, list[dict[str, Any]]]]


def tasks_of(block: Any) -> list[dict[str, Any]]:
    """The tasks of a block; what is no task is left out."""
    return [task for task in block if isinstance(task, dict)] if isinstance(block, list) else []


def blocks_of(task: dict[str, Any]) -> Blocks:
    """The blocks inside a task, each by the path of its field."""
    found: Blocks = []
    cases = task.get("decisionCases")
    if isinstance(cases, dict):
        found += [(f"decisionCases.{key}", tasks_of(block)) for key, block in cases.items()]
    branches = task.get("forkTasks")
    if isinstance(branches, list):
        found += [(f"forkTasks[{index}]", tasks_of(block)) for index, block in enumerate(branches)]
    return found + [(name, tasks_of(task.get(name))) for name in ("defaultCase", "loopOver") if task.get(name)]


def refs_in(block: list[dict[str, Any]]) -> Iterator[str]:
    """The refs of a block, those deeper inside too."""
    for task in block:
        yield str(task.get("taskReferenceName"))
        for _, inner in blocks_of(task):
            yield from refs_in(inner)


def done_with(block: list[dict[str, Any]], ref: str) -> set[str]:
    """The refs that have ended, or never run, once the task `ref` somewhere in a block has ended: its own and those before."""
    for index, task in enumerate(block):
        before = set(refs_in(block[:index]))
        if task.get("taskReferenceName") == ref:
            return before | set(refs_in([task]))
        for _, inner in blocks_of(task):
            found = done_with(inner, ref)
            if found:
                return before | found
    return set()
