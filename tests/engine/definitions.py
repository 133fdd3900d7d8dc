"""Builders of definitions for the engine's tests."""

from __future__ import annotations

from typing import Any

from tests.engine.simulator import Run


def simple(ref: str, **fields: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": "SIMPLE", **fields}


def task(type: str, ref: str, **fields: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": type, **fields}


def switch(ref: str, expression: str, cases: dict[str, Any], default: Any = ()) -> dict[str, Any]:
    return task(
        "SWITCH", ref, evaluatorType="value-param", expression="v", inputParameters={"v": expression},
        decisionCases=cases, defaultCase=list(default),
    )  # fmt: skip


def fork(ref: str, *branches: list[dict[str, Any]], on: list[str] | None = None) -> list[dict[str, Any]]:
    return [task("FORK_JOIN", ref, forkTasks=list(branches)), task("JOIN", f"{ref}_join", joinOn=on or [])]


def loop(ref: str, turns: int, *body: dict[str, Any]) -> dict[str, Any]:
    return task("DO_WHILE", ref, loopCondition=f"$.{ref}['iteration'] < {turns}", loopOver=list(body))


def run(*tasks: dict[str, Any], input: dict[str, Any] | None = None, **fields: Any) -> Run:
    return Run({"name": "w", "tasks": list(tasks), **fields}, input)
