"""The workflows that are measured; what workers do is a task of one name."""

from __future__ import annotations

from typing import Any

from orchestrator.bench.crew import QUEUE_NAME
from orchestrator.conf import conf
from workflows.services import definitions

Definition = dict[str, Any]
PAYLOAD = "x" * 40


def register_all() -> None:
    """Register every definition of the bench."""
    for definition in (chain(5), chain(200), fan(100), fan(1000), dynamic(), mixed(), _CHILD, turns(100), waiting()):
        register_one(definition)


def register_one(definition: Definition) -> None:
    """Register a definition, in the default namespace."""
    definitions.register(conf().DEFAULT_NAMESPACE, definition, overwrite=True)


def _step(ref: str, **inputs: Any) -> dict[str, Any]:
    return {"name": QUEUE_NAME, "taskReferenceName": ref, "type": "SIMPLE", "inputParameters": inputs}


def _named(name: str, *tasks: dict[str, Any], **fields: Any) -> Definition:
    return {"name": f"bench_{name}", "version": 1, "tasks": list(tasks), **fields}


def _join(ref: str) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": "JOIN", "joinOn": []}


def chain(length: int) -> Definition:
    """Steps one after the other."""
    return _named(f"chain_{length}", *(_step(f"s{i}", i=i, p=PAYLOAD) for i in range(length)))


def _fork(width: int) -> list[dict[str, Any]]:
    branches = [[_step(f"b{i}", p=PAYLOAD)] for i in range(width)]
    return [{"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": branches}, _join("j")]


def fan(width: int) -> Definition:
    """Branches of one step side by side, and a join."""
    return _named(f"fan_{width}", *_fork(width))


def turns(width: int) -> Definition:
    """A fan of that width, again and again."""
    loop = {
        "name": "loop", "taskReferenceName": "loop", "type": "DO_WHILE", "loopOver": _fork(width),
        "loopCondition": "$.loop['iteration'] < $.turns", "inputParameters": {"turns": "${workflow.input.turns}"},
    }  # fmt: skip
    return _named("turns", loop)


def dynamic() -> Definition:
    """A dynamic fork: a step for each of `items`."""
    inputs = {"forkTaskName": QUEUE_NAME, "forkTaskInputs": "${workflow.input.items}"}
    fork = {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN_DYNAMIC", "inputParameters": inputs}
    return _named("dynamic", fork, _join("j"))


def waiting() -> Definition:
    """One step that no worker of the crew serves: what starts is all that happens."""
    return _named("waiting", {"name": "bench_nobody", "taskReferenceName": "s", "type": "SIMPLE"})


_CHILD = _named("child", _step("c", got="${workflow.input.text}"), outputParameters={"text": "${c.output.ok}"})


def mixed() -> Definition:
    """What real definitions have: expressions, a variable, a switch, a loop, a sub-workflow."""
    keep = {"taskReferenceName": "keep", "name": "keep", "type": "SET_VARIABLE"}
    switch = {
        "name": "kind", "taskReferenceName": "kind", "type": "SWITCH", "evaluatorType": "javascript",
        "expression": "$.amount > 100 ? 'large' : 'small'", "inputParameters": {"amount": "${workflow.input.amount}"},
        "decisionCases": {"large": [_step("approve", by="${first.output.ok}")]}, "defaultCase": [_step("pass")],
    }  # fmt: skip
    loop = {
        "name": "loop", "taskReferenceName": "loop", "type": "DO_WHILE", "loopCondition": "$.loop['iteration'] < 3",
        "loopOver": [_step("item", text="${workflow.input.text}", turn="${loop.output.iteration}")],
    }  # fmt: skip
    child = {
        "name": "child", "taskReferenceName": "child", "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "bench_child", "version": 1}, "inputParameters": {"text": "${workflow.variables.text}"},
    }  # fmt: skip
    return _named(
        "mixed",
        _step("first", text="${workflow.input.text}", order={"id": "${workflow.input.id}", "who": "for ${workflow.input.who}"}),
        {**keep, "inputParameters": {"text": "${first.input.text}"}},
        switch, loop, child, _step("last", text="${child.output.text}"),
        outputParameters={"text": "${first.input.text}", "kind": "${kind.output.selectedCase}"},
    )  # fmt: skip
