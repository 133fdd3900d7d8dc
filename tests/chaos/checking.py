"""Nothing lost, nothing doubled, nothing stuck: what is looked at once everything has come to rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.chaos.server import Server
from tests.chaos.workload import Ended, Judged
from tests.engine.comparing import Tasks
from workflows.models import Execution, Task

_DOUBLE_ENDS = """
SELECT workflow_id, ref, count(*) FROM workflows_historyevent
 WHERE type LIKE 'task.%%' AND type NOT IN ('task.scheduled', 'task.started', 'task.alert', 'task.late_result_refused')
   AND task_id IS NOT NULL
 GROUP BY workflow_id, task_id, ref HAVING count(*) > %s
"""
_DOUBLE_CHILDREN = """
SELECT parent_task_id, count(*) FROM workflows_execution
 WHERE parent_task_id IS NOT NULL GROUP BY 1 HAVING count(*) > %s
"""


@dataclass
class Verdict:
    """What is wrong, in words."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)


def verdict(server: Server, started: Mapping[UUID, Judged], ledger: Path) -> Verdict:
    """Judge every run that a client was told of, and everything that happened beside."""
    found = Verdict()
    runs: dict[UUID, tuple[Any, ...]] = {}
    for id, *rest in Execution.objects.values_list(
        "id", "status", "output", "variables", "ended_at", "parent_workflow_id"
    ):
        runs[id] = tuple(rest)
    tasks: dict[UUID, list[tuple[Any, ...]]] = defaultdict(list)
    columns = ("workflow_id", "ref", "iteration", "attempt", "status", "output", "sub_workflow_id")
    for workflow_id, *rest in Task.objects.values_list(*columns).iterator():
        tasks[workflow_id].append(tuple(rest))

    def made(run: UUID, prefix: str = "") -> Tasks:
        all_of_it: Tasks = {}
        for ref, iteration, attempt, status, output, child in tasks[run]:
            all_of_it[prefix + ref, iteration, attempt] = (status, output)
            if child in runs:
                all_of_it |= made(child, f"{prefix}{ref}{iteration}/")
        return all_of_it

    for run, judged in started.items():
        if run not in runs:
            found.lost.append(f"{run} does not exist")
            continue
        status, output, variables, ended_at, _ = runs[run]
        if ended_at is None:
            found.stuck.append(f"{run} is {status}")
            continue
        try:
            judged.judge(Ended(status, output, variables, made(run)))
        except AssertionError as error:
            found.lost.append(f"{run} of {judged.definition['name']}: {error}")
    found.stuck += [f"child {id} is {run[0]}" for id, run in runs.items() if run[3] is None and run[4]]
    found.doubled += [
        f"run {id} was started beside" for id, run in runs.items() if run[4] is None and id not in started
    ]
    handed_out = Counter(ledger.read_text().splitlines())
    found.doubled += [f"hand-out {line}" for line, count in handed_out.items() if count > 1]
    found.doubled += [f"end of {row}" for row in server.ask(_DOUBLE_ENDS, 1)]
    found.doubled += [f"child of {row}" for row in server.ask(_DOUBLE_CHILDREN, 1)]
    return found
