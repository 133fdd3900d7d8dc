"""What may be registered: every problem with its path, what was expected and what came."""

from __future__ import annotations

from typing import Any

from workflows.engine import state_changes
from workflows.engine.blueprint import CONTAINERS
from workflows.engine.checks import CHECKS, Place
from workflows.engine.fields import unknown_in_task, unknown_in_workflow
from workflows.engine.masked_fields import mask_problems
from workflows.engine.problems import MOST, ROOTS, Problem, references
from workflows.engine.rate_keys import validate_limits
from workflows.engine.schemas import FIELDS, check_schemas, only_named
from workflows.engine.sinks import sink_problem
from workflows.engine.task_definitions import validate_task_definition

__all__ = ["Problem", "validate", "validate_task_definition"]

NOT_YET = frozenset({"KAFKA_PUBLISH"})
"""Conductor's types that this version does not run: refused by name, not left to hang on a queue."""


def validate(definition: Any) -> list[Problem]:
    """Every problem of a workflow definition; none means that it may be registered."""
    if not isinstance(definition, dict):
        return [Problem("", f"expected an object, got {type(definition).__name__}")]
    problems: list[Problem] = []
    if not isinstance(definition.get("name"), str) or not definition["name"].strip():
        problems.append(Problem("name", "WorkflowDef name cannot be null or empty"))
    version = definition.get("version", 1)
    if version is not None and (type(version) is not int or not 1 <= version < 2**31):
        problems.append(Problem("version", f"expected a whole number from 1, got {version!r}"))
    problems += _fields(definition, _WORKFLOW_SHAPES, "")
    problems += unknown_in_workflow(definition)
    seconds = definition.get("timeoutSeconds")
    if type(seconds) is int and seconds > MOST:
        problems.append(Problem("timeoutSeconds", f"expected a whole number up to {MOST}, got {seconds}"))
    policy = definition.get("timeoutPolicy")
    if policy not in (None, "TIME_OUT_WF", "ALERT_ONLY"):
        problems.append(Problem("timeoutPolicy", f"expected TIME_OUT_WF or ALERT_ONLY, got {policy!r}"))
    sink = definition.get("workflowStatusListenerSink")
    wrong = sink_problem(sink) if sink else None
    if wrong:
        problems.append(Problem("workflowStatusListenerSink", wrong))
    problems += validate_limits(definition)
    problems += mask_problems(definition)
    problems += check_schemas(definition, enforced=True)
    tasks = definition.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        return [*problems, Problem("tasks", "WorkflowTask list cannot be empty")]
    walker = _Walker()
    walker.block(tasks, "tasks")
    problems += walker.problems
    for value, path in [*walker.templates, (definition.get("outputParameters"), "outputParameters")]:
        problems += references(value, path, walker.refs)
    return problems


_WORKFLOW_SHAPES: dict[str, tuple[type, ...]] = {
    "inputParameters": (list,),
    "outputParameters": (dict,),
    "inputTemplate": (dict,),
    "variables": (dict,),
    "timeoutSeconds": (int,),
    "schemaVersion": (int,),
    "restartable": (bool,),
    "enforceSchema": (bool,),
    "workflowStatusListenerEnabled": (bool,),
    "description": (str,),
    "failureWorkflow": (str,),
    "ownerEmail": (str,),
}
_TASK_SHAPES: dict[str, tuple[type, ...]] = {
    "inputParameters": (dict,),
    "optional": (bool,),
    "permissive": (bool,),
    "asyncComplete": (bool,),
    "startDelay": (int,),
    "retryCount": (int,),
    "joinOn": (list,),
    "decisionCases": (dict,),
    "defaultCase": (list,),
    "forkTasks": (list,),
    "loopOver": (list,),
    "loopCondition": (str,),
    "subWorkflowParam": (dict,),
    "taskDefinition": (dict,),
    "compensateWith": (dict,),
}


def _fields(value: dict[str, Any], shapes: dict[str, tuple[type, ...]], path: str) -> list[Problem]:
    found = []
    for name, types in shapes.items():
        given = value.get(name)
        if given is not None and (type(given) not in types):
            expected = " or ".join(_WORDS[t] for t in types)
            got = f"{type(given).__name__} {str(given)[:60]!r}"
            found.append(Problem(f"{path}{name}", f"expected {expected}, got {got}"))
    return found


_NO_UNDOING = CONTAINERS | {"TERMINATE"}
_WORDS: dict[type, str] = {
    list: "a list",
    dict: "an object",
    int: "a whole number",
    str: "a text",
    bool: "true or false",
}


class _Walker:
    """Walks the tasks of a definition and collects problems, refs and templates."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.refs: dict[str, str] = {}
        self.templates: list[tuple[Any, str]] = []

    def add(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))

    def block(self, tasks: Any, path: str) -> None:
        if not isinstance(tasks, list):
            self.add(path, f"expected a list of tasks, got {type(tasks).__name__}")
            return
        for index, task in enumerate(tasks):
            at = f"{path}[{index}]"
            if not isinstance(task, dict):
                self.add(at, f"expected a task, got {type(task).__name__}")
                continue
            following = tasks[index + 1] if index + 1 < len(tasks) else None
            self.task(task, Place(at, tasks[index - 1] if index else None, following))

    def inline(self, definition: dict[str, Any], path: str) -> None:
        """Check a definition inside this one, which has refs of its own."""
        self.problems += [Problem(f"{path}.{problem.path}", problem.message) for problem in validate(definition)]
        for field in FIELDS:
            if isinstance(definition, dict) and only_named(definition.get(field)):
                self.add(f"{path}.{field}.data", "a definition inside another brings the text of its schemas")

    def task(self, task: dict[str, Any], place: Place) -> None:
        path = place.path
        if not isinstance(task.get("name"), str) or not task["name"]:
            self.add(f"{path}.name", "WorkflowTask name cannot be empty or null")
        self.ref(task.get("taskReferenceName"), path)
        shapes = _fields(task, _TASK_SHAPES, f"{path}.")
        self.problems += shapes
        type_ = task.get("type") or "SIMPLE"
        if not isinstance(type_, str):
            self.add(f"{path}.type", f"expected a text, got {type_!r}")
            return
        self.problems += unknown_in_task(task, path, place.following)
        if type_ in NOT_YET:
            self.add(f"{path}.type", f"task type {type_} is not supported yet")
        for name in ("retryCount", "startDelay"):
            if type(task.get(name)) is int and not 0 <= task[name] <= MOST:
                self.add(f"{path}.{name}", f"expected 0 to {MOST}, got {task[name]}")
        self.values(task, path)
        ref, changes = task.get("taskReferenceName"), task.get("onStateChange")
        self.problems += state_changes.problems(changes, f"{path}.onStateChange", ref)
        if isinstance(task.get("taskDefinition"), dict):
            inner = validate_task_definition({"name": task.get("name"), **task["taskDefinition"]})
            self.problems += [Problem(f"{path}.taskDefinition.{p.path}", p.message) for p in inner]
        if not shapes and type_ in CHECKS:
            CHECKS[type_](self, task, place)
        if isinstance(task.get("compensateWith"), dict):
            self.compensation(type_, task["compensateWith"], f"{path}.compensateWith")

    def compensation(self, of: str, task: dict[str, Any], path: str) -> None:
        """What undoes a task is one task of its own, with retries of its own; a block has nothing to undo itself."""
        if of in _NO_UNDOING:
            self.add(path, f"a {of} cannot be undone; compensate the tasks inside it")
        if task.get("type") in _NO_UNDOING | {"SET_VARIABLE", "NOOP"}:
            self.add(f"{path}.type", f"a {task['type']} cannot undo a task")
        if task.get("compensateWith") is not None:
            self.add(f"{path}.compensateWith", "what undoes a task cannot be undone itself")
        self.task({name: value for name, value in task.items() if name != "compensateWith"}, Place(path, None, None))

    def ref(self, ref: Any, path: str) -> None:
        at = f"{path}.taskReferenceName"
        if not isinstance(ref, str) or not ref:
            self.add(at, "WorkflowTask taskReferenceName name cannot be empty or null")
        elif ref in self.refs:
            self.add(at, f"taskReferenceName {ref!r} is not unique: it stands at {self.refs[ref]} too")
        elif ref in ROOTS:
            self.add(at, f"{ref!r} is a reserved name")
        else:
            self.refs[ref] = path

    def values(self, task: dict[str, Any], path: str) -> None:
        """Note the values whose expressions are checked once all refs are known; an inline definition has its own."""
        for name in ("inputParameters", "items"):
            self.templates.append((task.get(name), f"{path}.{name}"))
        if isinstance(task.get("sink"), str):
            self.templates.append((task["sink"], f"{path}.sink"))
        self.templates += state_changes.payloads(task.get("onStateChange"), f"{path}.onStateChange")
        param = task.get("subWorkflowParam")
        if isinstance(param, dict):
            kept = {k: v for k, v in param.items() if k != "workflowDefinition" or isinstance(v, str)}
            self.templates.append((kept, f"{path}.subWorkflowParam"))
