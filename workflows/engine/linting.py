"""What is probably not meant in a definition that may be registered: nothing here is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workflows.engine import state_changes
from workflows.engine.blueprint import CONTAINERS
from workflows.engine.expressions import Expression, ExpressionError, compile_template, expressions
from workflows.engine.structure import blocks_of, done_with, refs_in, tasks_of
from workflows.engine.validation import validate


@dataclass(frozen=True, slots=True)
class Finding:
    """Something found at a path; an `error` would be refused at registration."""

    level: str
    rule: str
    path: str
    message: str


def lint(definition: Any) -> list[Finding]:
    """The errors of a definition, or, when it has none, its warnings."""
    problems = validate(definition)
    if problems:
        return [Finding("error", "invalid", problem.path, problem.message) for problem in problems]
    return list(_Linter(definition).findings())


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around a block: the refs of the enclosing loops, of which a later one ran in the turn before, and those
    of branches that run beside it, each with its fork."""

    repeated: frozenset[str] = frozenset()
    beside: Mapping[str, str] = field(default_factory=dict)

    def inside(self, task: dict[str, Any], name: str) -> _Around:
        """The same for a block of a task."""
        if task.get("type") == "DO_WHILE":
            return replace(self, repeated=self.repeated | frozenset(refs_in([task])))
        if task.get("type") == "FORK_JOIN":
            others = {ref for other, block in blocks_of(task) if other != name for ref in refs_in(block)}
            return replace(self, beside={**self.beside, **dict.fromkeys(others, str(task["taskReferenceName"]))})
        return self

    def after(self, task: dict[str, Any], tasks: list[dict[str, Any]]) -> _Around:
        """The same behind a task: a JOIN may have waited for tasks of another branch."""
        if task.get("type") != "JOIN" or not self.beside:
            return self
        done = {ref for named in task.get("joinOn") or [] for ref in done_with(tasks, named)}
        return replace(self, beside={ref: fork for ref, fork in self.beside.items() if ref not in done})


class _Linter:
    """Walks a valid definition in the order of its text."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition
        self.order = {ref: index for index, ref in enumerate(refs_in(tasks_of(definition["tasks"])))}

    def findings(self) -> Iterator[Finding]:
        definition = self.definition
        if definition.get("timeoutPolicy") and not definition.get("timeoutSeconds"):
            yield _warning("inert-field", "timeoutPolicy", "has no effect without timeoutSeconds")
        if definition.get("workflowStatusListenerSink") and not definition.get("workflowStatusListenerEnabled"):
            at = "workflowStatusListenerSink"
            yield _warning("inert-field", at, "has no effect without workflowStatusListenerEnabled")
        yield from self.block(tasks_of(definition["tasks"]), "tasks", _Around())

    def block(self, tasks: list[dict[str, Any]], path: str, around: _Around) -> Iterator[Finding]:
        over = ""
        for index, task in enumerate(tasks):
            at = f"{path}[{index}]"
            if over:
                yield _warning(
                    "unreachable", at, f"{task['taskReferenceName']!r} is never reached: {over!r} ends the run"
                )
                return
            yield from self.task(task, at, around)
            if task.get("type") == "FORK_JOIN" and index + 1 < len(tasks):
                yield from _unjoined(task, tasks[index + 1], at)
            for name, inner in blocks_of(task):
                yield from self.block(inner, f"{at}.{name}", around.inside(task, name))
            around = around.after(task, tasks_of(self.definition["tasks"]))
            over = task["taskReferenceName"] if _ends_run(task) else ""

    def task(self, task: dict[str, Any], path: str, around: _Around) -> Iterator[Finding]:
        type_ = task.get("type") or "SIMPLE"
        if type_ in CONTAINERS and task.get("retryCount"):
            yield _warning("inert-field", f"{path}.retryCount", f"a {type_} is not retried; the tasks inside it are")
        if task.get("optional") and task.get("permissive"):
            yield _warning("inert-field", f"{path}.permissive", "has no effect on an optional task")
        yield from self.timeouts(task, path)
        values = [(task.get(name), f"{path}.{name}") for name in ("inputParameters", "items", "sink")]
        for value, where in [*values, *state_changes.payloads(task.get("onStateChange"), f"{path}.onStateChange")]:
            for at, text in _texts(value, where):
                yield from self.references(task, at, text, around)

    def references(self, task: dict[str, Any], path: str, text: str, around: _Around) -> Iterator[Finding]:
        """References to what has not run yet, or may not have: they give null."""
        try:
            found = list(expressions(compile_template(text)))
        except ExpressionError:
            return
        own = self.order[task["taskReferenceName"]]
        for expression in found:
            place, fork = self.order.get(expression.root), around.beside.get(expression.root)
            if fork is not None:
                why = f"may be null: it runs in another branch of {fork!r} at the same time"
                yield _warning("reference-across-branches", path, f"{_at(expression)} {why}")
            elif place is not None and place >= own and expression.root not in around.repeated:
                yield _warning("reference-too-early", path, f"{_at(expression)} is null: it runs later")

    def timeouts(self, task: dict[str, Any], path: str) -> Iterator[Finding]:
        """A longer time inside a shorter one never comes to its end."""
        given = task.get("taskDefinition") or {}
        total, whole = given.get("totalTimeoutSeconds") or 0, self.definition.get("timeoutSeconds") or 0
        for name in ("timeoutSeconds", "responseTimeoutSeconds", "pollTimeoutSeconds", "totalTimeoutSeconds"):
            seconds, at = given.get(name) or 0, f"{path}.taskDefinition.{name}"
            if total and seconds > total:
                yield _warning("conflicting-timeouts", at, f"{seconds} is longer than totalTimeoutSeconds {total}")
            if whole and seconds > whole:
                yield _warning("conflicting-timeouts", at, f"{seconds} is longer than the workflow's {whole}")


def _at(expression: Expression) -> str:
    return f"{expression.text} (at character {expression.position})"


def _warning(rule: str, path: str, message: str) -> Finding:
    return Finding("warning", rule, path, message)


def _unjoined(fork: dict[str, Any], join: dict[str, Any], path: str) -> Iterator[Finding]:
    wanted = set(join.get("joinOn") or [])
    for index, branch in enumerate(fork.get("forkTasks") or []):
        if wanted and branch and not wanted & set(refs_in(tasks_of(branch))):
            at, ref = f"{path}.forkTasks[{index}]", join["taskReferenceName"]
            yield _warning("unjoined-branch", at, f"{ref!r} waits for no task of this branch")


def _ends_run(task: dict[str, Any]) -> bool:
    """Whether nothing behind a task can be reached."""
    type_, blocks = task.get("type"), blocks_of(task)
    if type_ == "TERMINATE":
        return True
    if type_ in ("SWITCH", "DECISION"):
        return bool(task.get("defaultCase")) and all(any(map(_ends_run, block)) for _, block in blocks)
    listed = task.get("items") is not None or "_items" in (task.get("inputParameters") or {})
    return type_ == "DO_WHILE" and not listed and any(map(_ends_run, tasks_of(task.get("loopOver"))))


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
