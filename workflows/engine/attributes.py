"""Search attributes: values of a run's input that its definition declares, kept beside the run to be found by.

`searchAttributes` lists paths such as `input.order.id`; a query names them as they stand there.
"""

from __future__ import annotations

import re
from typing import Any

from workflows.engine.masked_fields import hides, masked_fields
from workflows.engine.problems import Problem

MOST = 20
LONGEST = 500
"""Characters of a text that is kept; a longer one is not, rather than found by half of it."""
_MOST_ITEMS = 50
_PATH = re.compile(r"input(\.[A-Za-z_][A-Za-z0-9_-]*){1,8}")


def is_attribute(name: str) -> bool:
    """Whether a name could be declared."""
    return bool(_PATH.fullmatch(name)) and len(name) <= LONGEST and "__" not in name


def attribute_problems(definition: dict[str, Any]) -> list[Problem]:
    """What is wrong with `searchAttributes`."""
    declared = definition.get("searchAttributes")
    if declared is None:
        return []
    if not isinstance(declared, list) or len(declared) > MOST:
        return [Problem("searchAttributes", f"expected a list of at most {MOST} paths, got {str(declared)[:60]!r}")]
    return [
        Problem(f"searchAttributes[{position}]", f"expected a path such as input.order.id, got {str(path)[:60]!r}")
        for position, path in enumerate(declared)
        if not isinstance(path, str) or not is_attribute(path)
    ]


def extract(definition: dict[str, Any], given: dict[str, Any]) -> dict[str, Any] | None:
    """The declared values that an input has: texts, numbers, booleans, and lists of them; no masked ones."""
    declared = definition.get("searchAttributes")
    if not declared:
        return None
    found, masked = {}, masked_fields(definition)
    for path in declared:
        if hides(masked, path):  # by a name that came from the run's parent
            continue
        value: Any = {"input": given}
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if _is_kept(value) or (isinstance(value, list) and len(value) <= _MOST_ITEMS and all(map(_is_kept, value))):
            found[path] = value
    return found or None


def _is_kept(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= LONGEST)
