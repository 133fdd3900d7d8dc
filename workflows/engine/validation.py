"""What may be registered: every problem with its path, what was expected and what came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workflows.engine.blueprint import OPERATORS, SYSTEM_TASKS
from workflows.engine.durations import parse_duration, parse_until
from workflows.engine.expressions import ExpressionError, compile_template, expressions

ROOTS = frozenset({"workflow", "CPEWF_TASK_ID"})
WORKFLOW_FIELDS = frozenset(
    {"input", "output", "variables", "status", "workflowId", "workflowType", "version", "correlationId", "priority",
     "parentWorkflowId", "parentWorkflowTaskId", "reasonForIncompletion", "schemaVersion", "createTime", "createdBy",
     "taskToDomain", "env", "secrets"}
)  # fmt: skip
KNOWN_TYPES = OPERATORS | SYSTEM_TASKS | {"SIMPLE", "DYNAMIC"}
NOT_YET = frozenset({"FORK_JOIN_DYNAMIC", "EXCLUSIVE_JOIN", "EVENT", "KAFKA_PUBLISH", "HTTP_POLL", "PULL_WORKFLOW_MESSAGES"})
"""Conductor's types that this version does not run: refused by name, not left to hang on a queue."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem; `path` is like `tasks[2].inputParameters.x`."""

    path: str
    message: str


def validate(definition: Any) -> list[Problem]:
    """Every problem of a workflow definition; none means that it may be registered."""
    if not isinstance(definition, dict):
        return [Problem("", f"expected an object, got {type(definition).__name__}")]
    problems: list[Problem] = []
    if not isinstance(definition.get("name"), str) or not definition["name"].strip():
        problems.append(Problem("name", "WorkflowDef name cannot be null or empty"))
    version = definition.get("version", 1)
    if version is not None and (type(version) is not int or version < 1):
        problems.append(Problem("version", f"expected a whole number from 1, got {version!r}"))
    problems += _fields(definition, _WORKFLOW_SHAPES, "")
    if definition.get("timeoutPolicy") not in (None, "TIME_OUT_WF", "ALERT_ONLY"):
        problems.append(Problem("timeoutPolicy", f"expected TIME_OUT_WF or ALERT_ONLY, got {definition['timeoutPolicy']!r}"))
    tasks = definition.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        return [*problems, Problem("tasks", "WorkflowTask list cannot be empty")]
    walker = _Walker()
    walker.block(tasks, "tasks")
    problems += walker.problems
    for value, path, own in [*walker.templates, (definition.get("outputParameters"), "outputParameters", None)]:
        problems += _references(value, path, walker.refs, own)
    return problems


_WORKFLOW_SHAPES: dict[str, tuple[type, ...]] = {
    "inputParameters": (list,),
    "outputParameters": (dict,),
    "inputTemplate": (dict,),
    "variables": (dict,),
    "timeoutSeconds": (int,),
    "schemaVersion": (int,),
    "restartable": (bool,),
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
}


def _fields(value: dict[str, Any], shapes: dict[str, tuple[type, ...]], path: str) -> list[Problem]:
    found = []
    for name, types in shapes.items():
        given = value.get(name)
        if given is not None and (type(given) not in types):
            expected = " or ".join(_WORDS[t] for t in types)
            found.append(Problem(f"{path}{name}", f"expected {expected}, got {type(given).__name__} {given!r:.60}"))
    return found


_WORDS: dict[type, str] = {list: "a list", dict: "an object", int: "a whole number", str: "a text", bool: "true or false"}


class _Walker:
    """Walks the tasks of a definition and collects problems, refs and templates."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.refs: dict[str, str] = {}
        self.templates: list[tuple[Any, str, str | None]] = []

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
            self.task(task, at, following)

    def task(self, task: dict[str, Any], path: str, following: Any) -> None:
        ref = task.get("taskReferenceName")
        if not isinstance(task.get("name"), str) or not task["name"]:
            self.add(f"{path}.name", "WorkflowTask name cannot be empty or null")
        if not isinstance(ref, str) or not ref:
            self.add(f"{path}.taskReferenceName", "WorkflowTask taskReferenceName name cannot be empty or null")
        elif ref in self.refs:
            self.add(f"{path}.taskReferenceName", f"taskReferenceName {ref!r} is not unique: it stands at {self.refs[ref]} too")
        elif ref in ROOTS:
            self.add(f"{path}.taskReferenceName", f"{ref!r} is a reserved name")
        else:
            self.refs[ref] = path
        shapes = _fields(task, _TASK_SHAPES, f"{path}.")
        self.problems += shapes
        type_ = task.get("type") or "SIMPLE"
        if type_ in NOT_YET:
            self.add(f"{path}.type", f"task type {type_} is not supported yet")
        if type(task.get("retryCount")) is int and task["retryCount"] < 0:
            self.add(f"{path}.retryCount", f"expected 0 or more, got {task['retryCount']}")
        own = ref if isinstance(ref, str) else None
        for name in ("inputParameters", "items", "subWorkflowParam"):
            if name == "subWorkflowParam" and isinstance(task.get(name), dict):
                param = {k: v for k, v in task[name].items() if k != "workflowDefinition" or isinstance(v, str)}
                self.templates.append((param, f"{path}.{name}", own))
            else:
                self.templates.append((task.get(name), f"{path}.{name}", own))
        if not shapes:
            check = _CHECKS.get(type_)
            if check:
                check(self, task, path, following)


def _switch(walker: _Walker, task: dict[str, Any], path: str, following: Any) -> None:
    if task["type"] == "SWITCH":
        evaluator = task.get("evaluatorType")
        if evaluator not in ("value-param", "javascript", "graaljs"):
            walker.add(f"{path}.evaluatorType", f"expected value-param, javascript or graaljs, got {evaluator!r}")
        if not task.get("expression"):
            walker.add(f"{path}.expression", "a SWITCH needs an expression")
        elif evaluator == "value-param" and task["expression"] not in (task.get("inputParameters") or {}):
            walker.add(f"{path}.expression", f"expected the name of an input parameter, got {task['expression']!r}")
    elif not (task.get("caseValueParam") or task.get("caseExpression")):
        walker.add(f"{path}.caseValueParam", "a DECISION needs a caseValueParam or a caseExpression")
    if not task.get("decisionCases"):
        walker.add(f"{path}.decisionCases", "decisionCases cannot be empty")
    for key, block in (task.get("decisionCases") or {}).items():
        walker.block(block, f"{path}.decisionCases.{key}")
    walker.block(task.get("defaultCase") or [], f"{path}.defaultCase")


def _fork(walker: _Walker, task: dict[str, Any], path: str, following: Any) -> None:
    branches = task.get("forkTasks")
    if not branches:
        walker.add(f"{path}.forkTasks", "a FORK_JOIN needs at least one branch")
    for index, branch in enumerate(branches or []):
        walker.block(branch, f"{path}.forkTasks[{index}]")
    if not isinstance(following, dict) or following.get("type") != "JOIN":
        walker.add(path, "a FORK_JOIN must be followed by a JOIN")


def _join(walker: _Walker, task: dict[str, Any], path: str, following: Any) -> None:
    for index, ref in enumerate(task.get("joinOn") or []):
        if not isinstance(ref, str):
            walker.add(f"{path}.joinOn[{index}]", f"expected a task reference, got {ref!r}")
        elif ref not in walker.refs:
            walker.add(f"{path}.joinOn[{index}]", f"there is no task {ref!r} before this JOIN")


def _loop(walker: _Walker, task: dict[str, Any], path: str, following: Any) -> None:
    listed = task.get("items") is not None or "_items" in (task.get("inputParameters") or {})
    if not task.get("loopCondition") and not listed:
        walker.add(f"{path}.loopCondition", "a DO_WHILE needs a loopCondition or items")
    if not task.get("loopOver"):
        walker.add(f"{path}.loopOver", "a DO_WHILE needs at least one task")
    walker.block(task.get("loopOver") or [], f"{path}.loopOver")


def _sub_workflow(walker: _Walker, task: dict[str, Any], path: str, following: Any) -> None:
    param = task.get("subWorkflowParam")
    if not isinstance(param, dict) or not (param.get("name") or param.get("workflowDefinition")):
        walker.add(f"{path}.subWorkflowParam", "a SUB_WORKFLOW needs a subWorkflowParam with a name or a workflowDefinition")
        return
    inline = param.get("workflowDefinition")
    if isinstance(inline, dict):
        walker.problems += [
            Problem(f"{path}.subWorkflowParam.workflowDefinition.{p.path}", p.message) for p in validate(inline)
        ]
    elif inline is not None and not (isinstance(inline, str) and inline.startswith("${")):
        walker.add(f"{path}.subWorkflowParam.workflowDefinition", "expected an object or an expression")


def _terminate(walker: _Walker, task: dict[str, Any], path: str, following: Any) -> None:
    status = (task.get("inputParameters") or {}).get("terminationStatus")
    if status not in ("COMPLETED", "FAILED", "TERMINATED") and not (isinstance(status, str) and "${" in status):
        walker.add(f"{path}.inputParameters.terminationStatus", f"expected COMPLETED, FAILED or TERMINATED, got {status!r}")
    if task.get("optional"):
        walker.add(f"{path}.optional", "a TERMINATE cannot be optional")


def _wait(walker: _Walker, task: dict[str, Any], path: str, following: Any) -> None:
    given = task.get("inputParameters") or {}
    if given.get("duration") and given.get("until"):
        walker.add(f"{path}.inputParameters", "a WAIT takes a duration or an until, not both")
    for name, parse in (("duration", parse_duration), ("until", parse_until)):
        value = given.get(name)
        if isinstance(value, str) and value and "${" not in value:
            try:
                parse(value)
            except ValueError as error:
                walker.add(f"{path}.inputParameters.{name}", str(error))


def _needs(*names: str) -> Any:
    def check(walker: _Walker, task: dict[str, Any], path: str, following: Any) -> None:
        for name in names:
            if not (task.get("inputParameters") or {}).get(name):
                walker.add(f"{path}.inputParameters.{name}", f"a {task['type']} needs {name}")

    return check


def _dynamic(walker: _Walker, task: dict[str, Any], path: str, following: Any) -> None:
    if not task.get("dynamicTaskNameParam"):
        walker.add(f"{path}.dynamicTaskNameParam", "a DYNAMIC needs a dynamicTaskNameParam")


def _http(walker: _Walker, task: dict[str, Any], path: str, following: Any) -> None:
    given = task.get("inputParameters") or {}
    template = (task.get("taskDefinition") or {}).get("inputTemplate") or {}
    if not any(source.get(name) for source in (given, template) for name in ("http_request", "uri")):
        walker.add(f"{path}.inputParameters.http_request", "an HTTP task needs an http_request or a uri")


_CHECKS: dict[str, Any] = {
    "SWITCH": _switch,
    "DECISION": _switch,
    "FORK_JOIN": _fork,
    "JOIN": _join,
    "DO_WHILE": _loop,
    "SUB_WORKFLOW": _sub_workflow,
    "TERMINATE": _terminate,
    "WAIT": _wait,
    "INLINE": _needs("expression"),
    "LAMBDA": _needs("scriptExpression"),
    "JSON_JQ_TRANSFORM": _needs("queryExpression"),
    "START_WORKFLOW": _needs("startWorkflow"),
    "DYNAMIC": _dynamic,
    "HTTP": _http,
}


def _references(value: Any, path: str, refs: dict[str, str], own: str | None) -> Iterator[Problem]:
    """Problems of the expressions in a value: syntax with its position, and roots that do not exist."""
    for at, text in _texts(value, path):
        try:
            found = list(expressions(compile_template(text)))
        except ExpressionError as error:
            yield Problem(at, f"{error} (at character {error.position})")
            continue
        for expression in found:
            first = expression.path.steps[0] if expression.path.steps else None
            if expression.root == "workflow":
                if isinstance(first, str) and first not in WORKFLOW_FIELDS:
                    yield Problem(at, f"{expression.text} (at character {expression.position}): a workflow has no {first!r}")
            elif expression.root not in refs and expression.root not in ROOTS:
                yield Problem(
                    at, f"{expression.text} (at character {expression.position}): there is no task {expression.root!r}"
                )


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")


_TASK_DEFINITION_NUMBERS = {
    "retryCount": 0, "retryDelaySeconds": 0, "timeoutSeconds": 0, "totalTimeoutSeconds": 0, "pollTimeoutSeconds": 0,
    "responseTimeoutSeconds": 1, "backoffScaleFactor": 1, "maxRetryDelaySeconds": 0, "backoffJitterMs": 0,
    "concurrentExecLimit": 0, "rateLimitPerFrequency": 0, "rateLimitFrequencyInSeconds": 0,
}  # fmt: skip
_TASK_DEFINITION_WORDS = {
    "retryLogic": ("FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF"),
    "timeoutPolicy": ("TIME_OUT_WF", "RETRY", "ALERT_ONLY"),
}


def validate_task_definition(definition: dict[str, Any]) -> list[Problem]:
    """Every problem of a task definition."""
    problems = []
    if not isinstance(definition.get("name"), str) or not definition["name"].strip():
        problems.append(Problem("name", "TaskDef name cannot be null or empty"))
    for name, least in _TASK_DEFINITION_NUMBERS.items():
        given = definition.get(name)
        if given is not None and (type(given) is not int or given < least):
            problems.append(Problem(name, f"expected a whole number from {least}, got {given!r}"))
    for name, words in _TASK_DEFINITION_WORDS.items():
        if definition.get(name) not in (None, *words):
            problems.append(Problem(name, f"expected one of {', '.join(words)}, got {definition[name]!r}"))
    if not problems:
        timeout, response = definition.get("timeoutSeconds") or 0, definition.get("responseTimeoutSeconds") or 0
        if timeout and response and "responseTimeoutSeconds" in definition and response > timeout:
            problems.append(Problem("responseTimeoutSeconds", f"{response} is longer than timeoutSeconds {timeout}"))
    return problems
