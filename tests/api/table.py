"""Writes docs/api.md: every path that is served, who may call it, the tests that call it, and where it differs.

`python -m tests.api.table` writes it. The paths come from the urls, the tests from their source, the rest stands here.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from django.urls import Resolver404, resolve

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "api.md"
_METHODS = ("get", "post", "put", "patch", "delete")
CONDUCTOR = """
delete,event/X delete,metadata/taskdefs/X delete,metadata/workflow/X/X delete,scheduler/schedules/X delete,secrets/X
delete,workflow/X delete,workflow/X/remove delete,workflow/X/terminate-remove delete,workflow/bulk/remove
delete,workflow/bulk/terminate-remove get,admin/config get,admin/queues get,admin/task/X get,environment get,environment/X
get,event get,event/X get,health get,metadata/taskdefs get,metadata/taskdefs/X get,metadata/workflow get,metadata/workflow/X
get,metadata/workflow/X/versions get,metadata/workflow/latest-versions get,metadata/workflow/names
get,metadata/workflow/names-and-versions get,queue/ get,queue/size get,scheduler/admin/pause get,scheduler/admin/requeue
get,scheduler/admin/resume get,scheduler/nextFewSchedules get,scheduler/schedules get,scheduler/schedules/X
get,scheduler/schedules/search get,scheduler/search/executions get,secrets get,tasks/X get,tasks/X/log
get,tasks/externalstoragelocation get,tasks/poll/X get,tasks/poll/batch/X get,tasks/queue/all get,tasks/queue/all/verbose
get,tasks/queue/polldata get,tasks/queue/polldata/all get,tasks/queue/size get,tasks/queue/sizes get,tasks/search
get,tasks/search-v2 get,version get,workflow/X get,workflow/X/correlated/X get,workflow/X/status get,workflow/X/tasks
get,workflow/externalstoragelocation get,workflow/running/X get,workflow/search get,workflow/search-by-tasks
get,workflow/search-by-tasks-v2 get,workflow/search-v2 post,admin/consistency/verifyAndRepair/X post,admin/sweep/requeue/X
post,event post,metadata/taskdefs post,metadata/workflow post,metadata/workflow/validate post,queue/update/X/X/X
post,queue/update/X/task/X/X post,scheduler/schedules post,tasks post,tasks/X/X/X post,tasks/X/X/X/sync post,tasks/X/X/signal
post,tasks/X/X/signal/sync post,tasks/X/log post,tasks/queue/requeue/X post,tasks/update-v2 post,workflow post,workflow/X
post,workflow/X/correlated post,workflow/X/messages post,workflow/X/rerun post,workflow/X/resetcallbacks
post,workflow/X/restart post,workflow/X/retry post,workflow/bulk/restart post,workflow/bulk/retry post,workflow/bulk/search
post,workflow/bulk/terminate post,workflow/execute/X/X post,workflow/test put,event put,metadata/taskdefs
put,metadata/workflow put,scheduler/bulk/pause put,scheduler/bulk/resume put,scheduler/schedules/X/pause
put,scheduler/schedules/X/resume put,secrets/X put,workflow/X/pause put,workflow/X/resume put,workflow/X/skiptask/X
put,workflow/bulk/pause put,workflow/bulk/resume put,workflow/decide/X
"""
"""What Conductor OSS serves, X for each parameter."""
CLIENTS = """
delete,metadata/tags/workflow/X delete,metadata/task/X/tags delete,metadata/workflow/X/tags delete,scheduler/schedules/X/tags
delete,secrets/X/tags get,metadata/tags get,metadata/tags/workflow/X get,metadata/task/X/tags get,metadata/workflow/X/tags
get,scheduler/schedules/X/pause get,scheduler/schedules/X/resume get,scheduler/schedules/X/tags get,secrets-v2
get,secrets/X/exists get,secrets/X/tags get,token/userInfo post,metadata/tags/workflow/X post,metadata/task/X/tags
post,secrets post,token post,workflow/X/jump/X post,workflow/X/state post,workflow/X/variables post,workflow/bulk/delete
post,workflow/correlated/batch post,workflow/execute/X post,workflow/start/X/X put,metadata/task/X/tags
put,metadata/workflow/X/tags put,scheduler/schedules/X/tags put,secrets/X/tags
"""
"""What SDKs call beside it."""
DEVIATIONS = {
    "get,admin/config": "numbers and switches of our settings; no texts, which may be credentials",
    "get,environment": "variables set by the API, never those of the process",
    "get,queue/": "a message ends its task at once, so there are no queues behind the names",
    "get,queue/size": "always 0, see `queue/`",
    "get,schema": "the OpenAPI document; `GET schemas` lists schemas of payloads",
    "get,scheduler/schedules/X": "404 for an unknown one, where OSS may answer empty",
    "post,scheduler/schedules/X/backfill": "`dryRun` lists the moments and their runs; at most 500 moments at once",
    "get,scheduler/schedules/X/pause": "refused to browsers",
    "get,scheduler/schedules/X/resume": "refused to browsers",
    "get,scheduler/admin/pause": "pauses the schedules of the namespace one by one; refused to browsers",
    "get,scheduler/admin/resume": "resumes those that were paused together; refused to browsers",
    "get,workflow/search": "`nextCursor` and `cursor`; hits counted up to 10,000; declared attributes by their path",
    "get,tasks/poll/batch/X": "waits up to 30 s",
    "delete,metadata/workflow/X/X": "404 for an unknown one, where OSS fails",
    "post,metadata/workflow": "unknown enums and wrong types are 400 with their path",
    "post,tasks/X/X/X": "also IN_PROGRESS, which merges the output and leaves the task open",
    "post,tasks/queue/requeue/X": "nothing is ever off its queue; answers how many wait",
    "post,workflow": "idempotency keys are enforced: 409, or 422 for another request of the same key",
    "post,workflow/X/restart": "409 for a run that has not ended",
    "put,secrets/X": "never readable: there is no GET",
    "put,workflow/X/skiptask/X": "the body counts, the query is ignored",
    "post,workflow/X/jump/X": "forward, over tasks of the outermost level; without an input for the task",
    "post,workflow/test": "runs in memory; nothing is stored",
}
_TAGS, _BULK = {"test_surface.py::test_tags"}, {"test_surface.py::test_many_ended_runs_go_on"}
BY_HAND: dict[str, set[str]] = {
    "metadata/workflow/<str:name>/tags": _TAGS, "metadata/tags/workflow/<str:name>": _TAGS,
    "metadata/task/<str:name>/tags": _TAGS, "workflow/bulk/restart": _BULK, "workflow/bulk/retry": _BULK,
    "token/userInfo": {"test_keys.py"}, "schema": {"test_document.py"},
}  # fmt: skip
"""Tests whose paths are put together from parts."""
NOT_SERVED = {
    "GET `secrets/{key}`": "secrets are written and used, never read: 405",
    "GET `workflow/externalstoragelocation`, `tasks/externalstoragelocation`": "payloads travel inline, large ones too",
    "POST `workflow/{id}/upgrade`": "Orkes only; restart with `useLatestDefinitions`",
    "GET `workflow/execute/{name}`": "a GET that starts runs; POST does",
    "POST `tasks/{id}/ack`, DELETE `tasks/queue/{type}/{id}`": "left over from old clients; OSS lacks them too",
    "`files`, `agent`, `skills`, `providers`, `a2a`": "modules of OSS beside its core",
    "`users`, `groups`, `roles`, `applications`, `auth`": "Orkes only; API keys are at `keys`, people are Django's",
    "`prompts`, `integrations`, `registry`, `gateway`": "Orkes only: 404, which SDKs take for absent",
}


def main() -> None:
    """Write the file."""
    TARGET.write_text(render())


def render() -> str:
    """The text of docs/api.md, with the newline it ends in."""
    from tests.api.client import methods, routes

    tested: dict[tuple[str, str | None], set[str]] = {}
    for (called, path), name in _calls_of_tests():
        tested.setdefault((called, _pattern_of(path)), set()).add(name)
    rows = []
    for pattern, view in sorted(routes(), key=lambda route: route[0]):
        for method in methods(view):
            key = f"{method},{_plain(pattern)}"
            needed = getattr(view, "permissions", {}).get(method) or getattr(view, "permission", None) or "open"
            tests = sorted(tested.get((method, pattern), set()) | BY_HAND.get(pattern, set()))
            shown = ", ".join(f"`{name}`" for name in tests[:2]) or "the contract tests"
            origin = "OSS" if key in CONDUCTOR.split() else "SDKs" if key in CLIENTS.split() else "ours"
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", pattern)
            rows.append(f"| {method.upper()} `{path}` | {origin} | {needed} | {shown} | {DEVIATIONS.get(key, '')} |")
    gone = [f"| {path} | {why} |" for path, why in NOT_SERVED.items()]
    return "\n".join([*_HEAD, *rows, "", *_GONE, *gone, ""])


_HEAD = [
    "# The HTTP API",
    "",
    "Every path below `/api/`, made from the urls by `python -m tests.api.table`. *Origin*: Conductor OSS serves it, SDKs call",
    "it beside that, or it is ours. *Needs* is the permission of the caller's key or group. *Shown by* names tests that call",
    "it; the contract tests call every route: a stranger is refused, no input is a 500, and no status is undocumented.",
    "",
    "| path | origin | needs | shown by | differs |",
    "|---|---|---|---|---|",
]
_GONE = ["## Not served", "", "| path | why |", "|---|---|"]


def _plain(pattern: str) -> str:
    return re.sub(r"<[^>]*>", "X", pattern)


def _pattern_of(path: str) -> str | None:
    """The pattern that serves a path of a test."""
    try:
        return resolve("/api/" + path.replace("\0", "1")).route.removeprefix("api/")
    except Resolver404:
        return None


def _calls_of_tests() -> list[tuple[tuple[str, str], str]]:
    """((method, path), test) for every call with a literal method and path in a test; NUL stands for what is computed."""
    found = []
    for file in sorted((ROOT / "tests").glob("*/test_*.py")):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found += [(call, f"{file.name}::{node.name}") for call in _calls(node)]
        for row in (found_row for statement in tree.body if isinstance(statement, (ast.Assign, ast.AnnAssign))
                    for found_row in ast.walk(statement) if isinstance(found_row, ast.Tuple)):  # fmt: skip
            found += [(call, f"{file.name}, its table") for call in _pairs(row.elts)]
    return found


def _calls(test: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    for node in ast.walk(test):
        if isinstance(node, (ast.Call, ast.Tuple)):
            yield from _pairs(node.args if isinstance(node, ast.Call) else node.elts)


def _pairs(nodes: list[ast.expr]) -> Iterator[tuple[str, str]]:
    """A method and the path behind it."""
    for method, path in pairwise(_text(node) for node in nodes[:4]):
        if method is not None and path is not None and method.lower() in _METHODS:
            plain = re.sub(r"%\w+%|\{\w*\}", "\0", path.split("?")[0])
            yield method.lower(), plain.removeprefix("/").removeprefix("api/")


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
    return None


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orchestrator.settings")
    import django

    django.setup()
    main()
