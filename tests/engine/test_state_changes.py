"""What onStateChange may say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import simple
from workflows.engine.validation import validate


def problems(change: Any, **more: Any) -> list[str]:
    tasks = [simple("z"), simple("a", onStateChange=change, **more)]
    found = validate({"name": "w", "version": 1, "tasks": tasks})
    return [f"{problem.path}: {problem.message}".removeprefix("tasks[1].onStateChange") for problem in found]


@pytest.mark.parametrize(
    "change",
    [
        {"onScheduled": [{"type": "x"}], "onStart,onSuccess": [{"type": "y", "payload": {"v": "${z.output.v}"}}]},
        {"onFailed": [{"type": "x", "payload": None}], " onCancelled , onFailed ": []},
    ],
)
def test_what_fits(change: Any) -> None:
    assert problems(change) == []


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        ([1], "", "expected an object, got list"),
        ({"onStrat": []}, ".onStrat", "is 'onStart' meant?"),
        ({"onStart,": [{"type": "x"}]}, ".onStart,", "expected onScheduled, onStart, onSuccess, onFailed, onCancelled"),
        ({"onStart": {"type": "x"}}, ".onStart", "expected a list of events, got dict"),
        ({"onStart": ["x"]}, ".onStart[0]", "expected an event with a type, got 'x'"),
        ({"onStart": [{"payload": {}}]}, ".onStart[0].type", "expected a name, got None"),
        ({"onStart": [{"type": "${z.output}"}]}, ".onStart[0].type", "expected a name without expressions"),
        ({"onStart": [{"type": "x", "payload": "p"}]}, ".onStart[0].payload", "expected an object, got 'p'"),
        ({"onStart": [{"type": "x", "sink": "y"}]}, ".onStart[0].sink", "an event has no field 'sink'"),
        ({"onStart": [{"type": "x", "payload": {"v": "${no.output}"}}]}, ".onStart[0].payload.v", "there is no task 'no'"),
        ({"onStart": [{"type": "x", "payload": {"v": "${z.output"}}]}, ".onStart[0].payload.v", "not closed"),
        ({"onStart": [{"type": "x", "payload": {"v": ["${a.output}"]}}]}, ".onStart[0].payload", "when the task is made"),
        (
            {"onStart": [{"type": "x", "payload": {"v": "${workflow.secrets.s}"}}]}, ".onStart[0].payload",
            "a secret does not leave by an event",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_place(change: Any, path: str, said: str) -> None:
    (found,) = problems(change)
    assert found.startswith(f"{path}: ") and said in found
