"""Mutations of the invariants: an edit that breaks the rule, and the test that must fail because of it.

`python -m tests.mutations` (`make mutants`) applies each to a copy of the tree and runs its test there.
An invariant whose test was never seen to fail is not held.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutation:
    """`find` stands exactly once in `file`; `test` is a pytest node id."""

    invariant: str
    file: str
    find: str
    replace: str
    test: str


QUEUE = "workflows/sql/decide_queue.sql"
GATE = "tests/races/test_decide_queue.py::"
MUTATIONS = [
    Mutation(
        "INV-2", QUEUE,
        "ON CONFLICT (workflow_id) DO UPDATE SET bumps = q.bumps + 1\n\n-- name: claim\n",
        "ON CONFLICT (workflow_id) DO NOTHING\n\n-- name: claim\n",
        GATE + "test_a_claim_returns_only_after_the_completion_that_enqueued_has_committed",
    ),
    Mutation(
        "INV-12", "workflows/managers/decide_queue.py",
        "_SQL.enqueue.execute(ids=sorted(set(ids)))", "_SQL.enqueue.execute(ids=list(ids))",
        GATE + "test_enqueues_of_the_same_runs_in_opposite_orders_do_not_deadlock",
    ),
    Mutation(
        "INV-13", QUEUE,
        "SET attempts = attempts + 1,", "SET attempts = attempts,",
        GATE + "test_a_failing_run_backs_off_alone_and_is_quarantined",
    ),
    Mutation(
        "INV-13", QUEUE,
        "SELECT workflow_id, attempts, enqueued_at, next_attempt_at, reports_to\n  FROM jsonb",
        "SELECT workflow_id, 0, enqueued_at, next_attempt_at, reports_to\n  FROM jsonb",
        GATE + "test_a_request_that_is_put_back_keeps_its_attempts_and_times",
    ),
]  # fmt: skip


def copy_tree(target: Path) -> None:
    """A copy of what git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def survives(mutation: Mutation) -> str | None:
    """None when the test failed under the mutation; else what went wrong."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        path = tree / mutation.file
        text = path.read_text()
        if text.count(mutation.find) != 1:
            return f"the text to replace stands {text.count(mutation.find)} times"
        path.write_text(text.replace(mutation.find, mutation.replace))
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutation.test],
            cwd=tree, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(tree)},
        )  # fmt: skip
        if run.returncode == 0:
            return "the test passed"
        if run.returncode != 1 or " failed" not in run.stdout:
            return f"the test did not run: {run.stdout[-800:]}{run.stderr[-400:]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="an invariant id, or part of a test's name")
    only = parser.parse_args().only
    chosen = [m for m in MUTATIONS if not only or only == m.invariant or only in m.test]
    survived = 0
    for mutation in chosen:
        problem = survives(mutation)
        survived += problem is not None
        print(f"{'SURVIVED' if problem else 'killed  '} {mutation.invariant:7} {mutation.file}: {mutation.test}", flush=True)
        if problem:
            print(f"         {problem}", flush=True)
    print(f"{len(chosen) - survived} killed, {survived} survived")
    return 1 if survived or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
