"""Every definition of a folder outside the tree: what registers, what is refused and why, and how each run goes.

Set OSTINATO_DEFINITIONS to the folder, or keep it beside the checkout; without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dispatch.system_tasks.inline import run_inline, run_lambda
from dispatch.system_tasks.jq import run_jq
from tests.engine.known_definitions import EXPECTED, INPUTS, NO_DEFINITIONS, OUTPUTS, REFUSED
from tests.engine.simulator import Run
from workflows.engine.state import TaskView
from workflows.engine.validation import NOT_YET, validate

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "definitions"
ROOT = Path(os.environ.get("OSTINATO_DEFINITIONS", _BESIDE))
FILES = sorted(path for folder in ("harness", "kitchensink", "cookbook") for path in ROOT.glob(f"{folder}/*.json"))

pytestmark = pytest.mark.skipif(not FILES, reason="the definitions are not here")

_RUNNERS = {"INLINE": run_inline, "LAMBDA": run_lambda, "JSON_JQ_TRANSFORM": run_jq}


def load(path: Path) -> dict[str, Any]:
    """The definition of a file, also of one that wraps it in a start request."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found.get("workflowDef", found) if isinstance(found, dict) else {}


def work(run: Run, outputs: dict[str, Any]) -> None:
    """Be the workers: scripts really run, everybody else answers what the table says or the task's own ref."""
    for _ in range(300):
        ready = [t for t in run.tasks.values() if not t.status.terminal and t.type not in ("JOIN", "DO_WHILE")]
        if run.end or not ready:
            return
        for task in ready:
            if run.end is None:
                _answer(run, task, outputs)
    raise AssertionError(f"the run does not end: {run.open_refs()}")


def _answer(run: Run, task: TaskView, outputs: dict[str, Any]) -> None:
    if task.type in _RUNNERS and task.ref not in outputs:
        outcome = _RUNNERS[task.type](task.input)
        run.finish(task.ref, outcome.output, outcome.status, task.iteration, reason=outcome.reason)
        return
    answer = outputs.get(task.ref, {"op": task.ref})
    status = answer.get("status", "COMPLETED") if isinstance(answer.get("status"), str) else "COMPLETED"
    run.finish(task.ref, answer, status, task.iteration)


def story(run: Run) -> str:
    """How the run ended, and each ref that ran with its count."""
    counts = sorted(Counter(task.ref for task in run.tasks.values()).items())
    return f"{run.ended}: " + " ".join(ref if n == 1 else f"{ref}*{n}" for ref, n in counts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_definition_registers_and_runs_to_its_end_or_is_refused_for_a_reason(path: Path) -> None:
    definition = load(path)
    if path.stem in NO_DEFINITIONS:
        assert "tasks" not in definition
        return
    problems = [f"{problem.path}: {problem.message}" for problem in validate(definition)]
    absent = [f"task type {type_} is not supported yet" for type_ in NOT_YET]
    assert [p for p in problems if not p.endswith(tuple(absent))] == REFUSED.get(path.stem, [])
    if not problems:
        run = Run(definition, INPUTS.get(path.stem, {}))
        work(run, OUTPUTS.get(path.stem, {}))
        assert story(run) == EXPECTED[path.stem], run.end
