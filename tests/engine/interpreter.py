"""A reference interpreter: runs a definition block by block, recursively, sharing nothing with the engine.

Branches run one after the other, to their ends; so where a run ends early it knows every task that may have been made,
and whether those are exactly the ones that were.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

Turn = tuple[int, ...]
Identity = tuple[str, str, int]
"""(path of refs from the outermost run, iteration, attempt)."""
OPEN = "OPEN"


@dataclass
class Plan:
    """How the attempts of a task end, in the turn given or in every turn; then it completes."""

    statuses: list[str]
    turn: int | None = None

    def status(self, turn: Turn, attempt: int) -> str:
        applies = self.turn is None or (turn and turn[-1] == self.turn)
        return self.statuses[attempt] if applies and attempt < len(self.statuses) else "COMPLETED"


Plans = dict[str, Plan]


def work(ref: str, turn: Turn, given: dict[str, Any]) -> dict[str, Any]:
    """What every worker puts out."""
    return {"of": ref, "got": given.get("x"), "pick": "abc"[(sum(map(ord, ref)) + sum(turn)) % 3]}


class Ended(Exception):
    """The run ends here: nothing behind this place is reached."""


@dataclass
class Interpreter:
    """The run of a definition: its tasks with their ends, and how it may end early."""

    definition: dict[str, Any]
    plans: Plans
    input: dict[str, Any] = field(default_factory=dict)
    prefix: str = ""
    tasks: dict[Identity, tuple[str, Any]] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)
    exact: bool = True
    """False when what ran beside the end of the run depends on the order of things."""

    def __post_init__(self) -> None:
        self.values: dict[str, dict[Turn, Any]] = {}
        self.loops: dict[str, tuple[str, ...]] = {}
        self.last: dict[tuple[str, Turn], str] = {}
        self.finished: set[tuple[str, Turn]] = set()
        self.permissive: dict[str, None] = {}
        self.output: Any = None
        with suppress(Ended):
            self.block(self.definition["tasks"], (), ())
        if self.output is None or not self.ends:
            self.output = self.value(self.definition.get("outputParameters") or {}, (), ())
        newest = [max((t, s) for (ref, t), s in self.last.items() if ref == name)[1] for name in self.permissive]
        bad = any(status.startswith("FAILED") for status in newest)
        self.status = self.ends[0] if self.ends else "FAILED" if bad else "COMPLETED"

    # Structure

    def block(self, tasks: list[dict[str, Any]], loops: tuple[str, ...], turn: Turn) -> None:
        kinds: dict[str, Callable[..., None]] = {
            "SWITCH": self.switch, "DO_WHILE": self.loop, "SET_VARIABLE": self.set, "TERMINATE": self.terminate,
            "SUB_WORKFLOW": self.child,
        }  # fmt: skip
        for index, task in enumerate(tasks):
            ref = task["taskReferenceName"]
            self.loops[ref] = loops
            if task["type"].startswith("FORK_JOIN"):
                self.fork(task, tasks[index + 1], loops, turn)
            elif task["type"] != "JOIN":
                kinds.get(task["type"], self.worker)(task, loops, turn)
            self.finished.add((ref, turn))

    def fork(self, task: dict[str, Any], join: dict[str, Any], loops: tuple[str, ...], turn: Turn) -> None:
        self.note(task, turn, "COMPLETED", {})
        self.note(join, turn, OPEN, None)
        self.loops[join["taskReferenceName"]] = loops
        dynamic = task["type"] == "FORK_JOIN_DYNAMIC"
        branches = [[made] for made in _dynamic([task])] if dynamic else task["forkTasks"]
        done = [self.branch(branch, loops, turn) for branch in branches]
        named = [] if dynamic else join["joinOn"]
        if not all(done) and (len(done) > 1 or named):
            self.exact = False
        for ref in named:
            whole = next(ended for ended, branch in zip(done, branches, strict=True) if _holds(branch, ref))
            if not whole and (ref, turn) not in self.finished:
                raise Ended
        if not named and not all(done):
            raise Ended
        wanted = named or [branch[-1]["taskReferenceName"] for branch in branches if branch]
        joined = [ref for ref in wanted if (ref, turn) in self.last]
        bad = any(self.last[ref, turn] not in ("COMPLETED", OPEN) for ref in joined)
        output = {ref: self.values[ref][turn] for ref in joined}
        self.note(join, turn, "COMPLETED_WITH_ERRORS" if bad else "COMPLETED", output)

    def branch(self, tasks: list[dict[str, Any]], loops: tuple[str, ...], turn: Turn) -> bool:
        try:
            self.block(tasks, loops, turn)
        except Ended:
            return False
        return True

    def switch(self, task: dict[str, Any], loops: tuple[str, ...], turn: Turn) -> None:
        case = self.inputs(task, loops, turn)["v"]
        case = "null" if case is None else str(case)
        self.note(task, turn, "COMPLETED", {"evaluationResult": [case], "selectedCase": case})
        self.block(task["decisionCases"].get(case, task["defaultCase"]), loops, turn)

    def loop(self, task: dict[str, Any], loops: tuple[str, ...], turn: Turn) -> None:
        ref, items = task["taskReferenceName"], task.get("items")
        turns = len(items) if items is not None else int(task["loopCondition"].rsplit("<")[-1])
        output: dict[str, Any] = {"iteration": turns}
        for number in range(1, turns + 1):
            inner = (*turn, number)
            output["iteration"] = number
            if items is not None:
                output |= {"loopItem": items[number - 1], "loopIndex": number - 1}
            self.note(task, turn, OPEN, dict(output))
            self.block(task["loopOver"], (*loops, ref), inner)
            members = [name for name, chain in self.loops.items() if chain == (*loops, ref)]
            made = {*members} - {b["taskReferenceName"] for b in _dynamic(task["loopOver"])}
            output[str(number)] = {name: self.values[name][inner] for name in made if (name, inner) in self.last}
        self.note(task, turn, "COMPLETED", output)

    # Leaves

    def worker(self, task: dict[str, Any], loops: tuple[str, ...], turn: Turn) -> None:
        ref = task["taskReferenceName"]
        output = work(ref, turn, self.inputs(task, loops, turn))
        plan = self.plans.get(ref, Plan([]))
        attempt = 0
        while (status := plan.status(turn, attempt)) == "FAILED" and attempt < task["retryCount"]:
            self.note(task, turn, status, output, attempt)
            attempt += 1
        self.over(task, turn, status, output, attempt)

    def child(self, task: dict[str, Any], loops: tuple[str, ...], turn: Turn) -> None:
        below = f"{self.path(task)}{_text(turn)}/"
        inner = task["subWorkflowParam"]["workflowDefinition"]
        run = Interpreter(inner, self.plans, self.inputs(task, loops, turn), below, self.tasks)
        self.over(task, turn, run.status, run.output)

    def over(self, task: dict[str, Any], turn: Turn, status: str, output: Any, attempt: int = 0) -> None:
        """The last attempt of a task has ended."""
        failed = status != "COMPLETED"
        self.note(task, turn, "COMPLETED_WITH_ERRORS" if failed and task.get("optional") else status, output, attempt)
        if task.get("permissive"):
            self.permissive[task["taskReferenceName"]] = None
        elif failed and not task.get("optional"):
            self.end("FAILED")

    def set(self, task: dict[str, Any], loops: tuple[str, ...], turn: Turn) -> None:
        self.variables |= self.inputs(task, loops, turn)
        self.note(task, turn, "COMPLETED", {})

    def terminate(self, task: dict[str, Any], loops: tuple[str, ...], turn: Turn) -> None:
        given = self.inputs(task, loops, turn)
        self.output = given["workflowOutput"]
        self.note(task, turn, "COMPLETED", self.output)
        self.end(given["terminationStatus"])

    def end(self, status: str) -> None:
        self.ends.append(status)
        raise Ended

    def path(self, task: dict[str, Any]) -> str:
        return f"{self.prefix}{task['taskReferenceName']}"

    def note(self, task: dict[str, Any], turn: Turn, status: str, output: Any, attempt: int = 0) -> None:
        ref = task["taskReferenceName"]
        self.tasks[self.path(task), _text(turn), attempt] = (status, output)
        self.last[ref, turn] = status
        self.values.setdefault(ref, {})[turn] = output

    # Values

    def inputs(self, task: dict[str, Any], loops: tuple[str, ...], turn: Turn) -> Any:
        return self.value(task.get("inputParameters") or {}, loops, turn)

    def value(self, template: Any, loops: tuple[str, ...], turn: Turn) -> Any:
        if isinstance(template, dict):
            return {key: self.value(item, loops, turn) for key, item in template.items()}
        if not isinstance(template, str):
            return template
        whole = re.fullmatch(r"\$\{([^}]*)\}", template)
        if whole:
            return self.look_up(whole[1].split("."), loops, turn)
        text = lambda found: "null" if found is None else str(found)  # noqa: E731
        return re.sub(r"\$\{([^}]*)\}", lambda m: text(self.look_up(m[1].split("."), loops, turn)), template)

    def look_up(self, path: list[str], loops: tuple[str, ...], turn: Turn) -> Any:
        root, kind, *keys = path
        if root == "workflow":
            value: Any = self.input if kind == "input" else self.variables
        else:
            value = self.newest(root, loops, turn)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def newest(self, ref: str, loops: tuple[str, ...], turn: Turn) -> Any:
        """The output in the newest turn that lies in the same turns of the loops both stand in."""
        theirs = self.loops.get(ref, ())
        shared = 0
        while shared < min(len(loops), len(theirs)) and loops[shared] == theirs[shared]:
            shared += 1
        seen = [t for t in self.values.get(ref, {}) if t[:shared] == turn[:shared]]
        return self.values[ref][max(seen)] if seen else None


def _text(turn: Turn) -> str:
    return ".".join(map(str, turn))


def blocks_of(task: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The blocks inside a task."""
    inside = [*task.get("decisionCases", {}).values(), *task.get("forkTasks", [])]
    return [*inside, task.get("defaultCase", []), task.get("loopOver", [])]


def _holds(block: list[dict[str, Any]], ref: str) -> bool:
    return any(t["taskReferenceName"] == ref or any(_holds(b, ref) for b in blocks_of(t)) for t in block)


def _dynamic(block: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tasks that dynamic forks make, each with the input that is given for it."""
    found: list[dict[str, Any]] = []
    for task in block:
        if task["type"] == "FORK_JOIN_DYNAMIC":
            given = task["inputParameters"]
            found += [
                {**made, "inputParameters": given["inputs"][made["taskReferenceName"]]} for made in given["tasks"]
            ]
        for inner in blocks_of(task):
            found += _dynamic(inner)
    return found
