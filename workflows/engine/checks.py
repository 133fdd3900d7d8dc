"""What each task type demands of its definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from workflows.engine import human
from workflows.engine.durations import parse_duration, parse_until
from workflows.engine.messages import batch_size, is_blocking
from workflows.engine.sinks import event_name
from workflows.engine.webhooks import wanted


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task stands: its path, and its neighbours in its block."""

    path: str
    previous: Any
    following: Any


class Walker(Protocol):
    """Collects the problems of a definition."""

    refs: dict[str, str]

    def add(self, path: str, message: str) -> None: ...

    def block(self, tasks: Any, path: str) -> None: ...

    def inline(self, definition: dict[str, Any], path: str) -> None: ...


Check = Callable[[Walker, dict[str, Any], Place], None]


def _switch(walker: Walker, task: dict[str, Any], place: Place) -> None:
    path = place.path
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


def _fork(walker: Walker, task: dict[str, Any], place: Place) -> None:
    path = place.path
    branches = task.get("forkTasks")
    if not branches:
        walker.add(f"{path}.forkTasks", "a FORK_JOIN needs at least one branch")
    for index, branch in enumerate(branches or []):
        walker.block(branch, f"{path}.forkTasks[{index}]")
    _joined(walker, task, place)


def _joined(walker: Walker, task: dict[str, Any], place: Place) -> None:
    following = place.following
    if not isinstance(following, dict) or following.get("type") != "JOIN":
        walker.add(place.path, f"a {task['type']} must be followed by a JOIN")


def _dynamic_fork(walker: Walker, task: dict[str, Any], place: Place) -> None:
    tasks, inputs = task.get("dynamicForkTasksParam"), task.get("dynamicForkTasksInputParamName")
    legacy = task.get("dynamicForkJoinTasksParam")
    listed = "forkTaskInputs" in (task.get("inputParameters") or {})
    if tasks and legacy:
        walker.add(
            f"{place.path}.dynamicForkJoinTasksParam",
            "dynamicForkTasksParam and dynamicForkJoinTasksParam exclude one another",
        )
    elif tasks and not inputs:
        walker.add(
            f"{place.path}.dynamicForkTasksInputParamName",
            "dynamicForkTasksParam needs a dynamicForkTasksInputParamName",
        )
    elif not (tasks or legacy or listed):
        walker.add(
            f"{place.path}.dynamicForkTasksParam",
            "a FORK_JOIN_DYNAMIC needs a dynamicForkTasksParam, a dynamicForkJoinTasksParam or an input forkTaskInputs",
        )
    for name, value in (("dynamicForkTasksParam", tasks), ("dynamicForkJoinTasksParam", legacy)):
        if value and value not in (task.get("inputParameters") or {}):
            walker.add(f"{place.path}.{name}", f"expected the name of an input parameter, got {value!r}")
    _joined(walker, task, place)


def _exclusive_join(walker: Walker, task: dict[str, Any], place: Place) -> None:
    if not task.get("joinOn"):
        walker.add(f"{place.path}.joinOn", "an EXCLUSIVE_JOIN needs a joinOn")
    _join(walker, task, place)


def _join(walker: Walker, task: dict[str, Any], place: Place) -> None:
    path = place.path
    if task.get("joinMode") not in (None, "", "SYNC", "ASYNC"):  # a join counts what ends: it is both
        walker.add(f"{path}.joinMode", f"expected SYNC or ASYNC, got {task['joinMode']!r}")
    if isinstance(place.previous, dict) and place.previous.get("type") == "FORK_JOIN_DYNAMIC":
        return  # joins the branches that were made, whatever it names
    for index, ref in enumerate(task.get("joinOn") or []):
        if not isinstance(ref, str):
            walker.add(f"{path}.joinOn[{index}]", f"expected a task reference, got {ref!r}")
        elif ref not in walker.refs:
            walker.add(f"{path}.joinOn[{index}]", f"there is no task {ref!r} before this JOIN")


def _loop(walker: Walker, task: dict[str, Any], place: Place) -> None:
    path = place.path
    given = task.get("inputParameters") or {}
    listed = task.get("items") is not None or "_items" in given or (not task.get("loopCondition") and "items" in given)
    if task.get("loopCondition") and task.get("evaluatorType") not in (None, "", "javascript", "graaljs"):
        walker.add(f"{path}.evaluatorType", f"expected javascript or graaljs, got {task['evaluatorType']!r}")
    if not task.get("loopCondition") and not listed:
        walker.add(f"{path}.loopCondition", "a DO_WHILE needs a loopCondition or items")
    if not task.get("loopOver"):
        walker.add(f"{path}.loopOver", "a DO_WHILE needs at least one task")
    walker.block(task.get("loopOver") or [], f"{path}.loopOver")


def _sub_workflow(walker: Walker, task: dict[str, Any], place: Place) -> None:
    path = place.path
    param = task.get("subWorkflowParam")
    if not isinstance(param, dict) or not (param.get("name") or param.get("workflowDefinition")):
        at = f"{path}.subWorkflowParam"
        walker.add(at, "a SUB_WORKFLOW needs a subWorkflowParam with a name or a workflowDefinition")
        return
    inline = param.get("workflowDefinition")
    if isinstance(inline, dict):
        walker.inline(inline, f"{path}.subWorkflowParam.workflowDefinition")
    elif inline is not None and not (isinstance(inline, str) and inline.startswith("${")):
        walker.add(f"{path}.subWorkflowParam.workflowDefinition", "expected an object or an expression")


def _terminate(walker: Walker, task: dict[str, Any], place: Place) -> None:
    path = place.path
    status = (task.get("inputParameters") or {}).get("terminationStatus")
    if status not in ("COMPLETED", "FAILED", "TERMINATED") and not (isinstance(status, str) and "${" in status):
        at = f"{path}.inputParameters.terminationStatus"
        walker.add(at, f"expected COMPLETED, FAILED or TERMINATED, got {status!r}")
    if task.get("optional"):
        walker.add(f"{path}.optional", "a TERMINATE cannot be optional")


def _wait(walker: Walker, task: dict[str, Any], place: Place) -> None:
    path = place.path
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


def _human(walker: Walker, task: dict[str, Any], place: Place) -> None:
    for path, message in human.problems(task.get("inputParameters") or {}):
        walker.add(f"{place.path}.inputParameters.{path}", message)


def _needs(*names: str) -> Check:
    def check(walker: Walker, task: dict[str, Any], place: Place) -> None:
        for name in names:
            if not (task.get("inputParameters") or {}).get(name):
                walker.add(f"{place.path}.inputParameters.{name}", f"a {task['type']} needs {name}")

    return check


def _dynamic(walker: Walker, task: dict[str, Any], place: Place) -> None:
    path = place.path
    if not task.get("dynamicTaskNameParam"):
        walker.add(f"{path}.dynamicTaskNameParam", "a DYNAMIC needs a dynamicTaskNameParam")


def _http(walker: Walker, task: dict[str, Any], place: Place) -> None:
    path = place.path
    given = task.get("inputParameters") or {}
    template = (task.get("taskDefinition") or {}).get("inputTemplate") or {}
    if not any(source.get(name) for source in (given, template) for name in ("http_request", "uri")):
        walker.add(f"{path}.inputParameters.http_request", "an HTTP task needs an http_request or a uri")
    elsewhere = given.get("asyncComplete")
    if elsewhere is not None and type(elsewhere) is not bool and not (isinstance(elsewhere, str) and "${" in elsewhere):
        walker.add(f"{path}.inputParameters.asyncComplete", f"expected true or false, got {elsewhere!r:.40}")


def _http_poll(walker: Walker, task: dict[str, Any], place: Place) -> None:
    _http(walker, task, place)
    given = task.get("inputParameters") or {}
    template = (task.get("taskDefinition") or {}).get("inputTemplate") or {}
    places = [one for source in (given, template) for one in (source, source.get("http_request"))]
    if not any(one.get("terminationCondition") if isinstance(one, dict) else one for one in places):
        at = f"{place.path}.inputParameters.http_request.terminationCondition"
        walker.add(at, "an HTTP_POLL needs a terminationCondition")


def _business_rule(walker: Walker, task: dict[str, Any], place: Place) -> None:
    given = task.get("inputParameters") or {}
    _needs("rules")(walker, task, place)
    if given.get("ruleFileLocation"):
        walker.add(f"{place.path}.inputParameters.ruleFileLocation", "rules are given as a list, not read from a file")


def _update_task(walker: Walker, task: dict[str, Any], place: Place) -> None:
    given = task.get("inputParameters") or {}
    if not given.get("taskId") and not (given.get("workflowId") and given.get("taskRefName")):
        walker.add(f"{place.path}.inputParameters", "an UPDATE_TASK needs a taskId, or a workflowId and a taskRefName")


def _pull_messages(walker: Walker, task: dict[str, Any], place: Place) -> None:
    given = task.get("inputParameters") or {}
    for name, parse in (("batchSize", batch_size), ("blocking", is_blocking)):
        value = given.get(name)
        if not (isinstance(value, str) and "${" in value):
            try:
                parse(given)
            except ValueError as error:
                walker.add(f"{place.path}.inputParameters.{name}", str(error).partition(": ")[2])


def _webhook(walker: Walker, task: dict[str, Any], place: Place) -> None:
    given = dict(task.get("inputParameters") or {})
    matches = given.get("matches")
    if isinstance(matches, str) and "${" in matches:
        matches = {matches: matches}
    if isinstance(matches, dict):  # a path that is known only when it starts could be any
        given["matches"] = {"$" if "${" in text else text: value for text, value in matches.items()}
    try:
        wanted(given)
    except ValueError as error:
        field, _, said = str(error).partition(": ")
        walker.add(f"{place.path}.inputParameters.{field}", said)


def _event(walker: Walker, task: dict[str, Any], place: Place) -> None:
    path, sink = f"{place.path}.sink", task.get("sink")
    if not isinstance(sink, str) or not sink:
        walker.add(path, f"an EVENT needs a sink, such as conductor:name; got {sink!r:.40}")
    elif "${" not in sink:
        try:
            event_name(sink, "workflow", "task")
        except ValueError as error:
            walker.add(path, str(error))


CHECKS: dict[str, Check] = {
    "SWITCH": _switch,
    "DECISION": _switch,
    "FORK_JOIN": _fork,
    "FORK_JOIN_DYNAMIC": _dynamic_fork,
    "JOIN": _join,
    "EXCLUSIVE_JOIN": _exclusive_join,
    "DO_WHILE": _loop,
    "SUB_WORKFLOW": _sub_workflow,
    "TERMINATE": _terminate,
    "WAIT": _wait,
    "HUMAN": _human,
    "INLINE": _needs("expression"),
    "LAMBDA": _needs("scriptExpression"),
    "JSON_JQ_TRANSFORM": _needs("queryExpression"),
    "START_WORKFLOW": _needs("startWorkflow"),
    "DYNAMIC": _dynamic,
    "HTTP": _http,
    "HTTP_POLL": _http_poll,
    "BUSINESS_RULE": _business_rule,
    "GET_WORKFLOW": _needs("id"),
    "UPDATE_TASK": _update_task,
    "PULL_WORKFLOW_MESSAGES": _pull_messages,
    "WAIT_FOR_WEBHOOK": _webhook,
    "EVENT": _event,
}
