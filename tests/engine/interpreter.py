"""A reference interpreter: runs a definition block by block, recursively, sharing nothing with the engine.

It knows only structure: how often each task runs, and what the variables are at the end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any


class Interpreter:
    """Counts how often each ref runs; conditions are the generator's: a fixed case, a fixed number of turns."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.ran: Counter[str] = Counter()
        self.block(definition["tasks"])

    def block(self, tasks: list[dict[str, Any]]) -> None:
        for task in tasks:
            self.ran[task["taskReferenceName"]] += 1
            if task["type"] == "SWITCH":
                case = task["inputParameters"]["v"]
                cases = task["decisionCases"]
                self.block(cases[case] if case in cases else task["defaultCase"])
            elif task["type"] == "FORK_JOIN":
                for branch in task["forkTasks"]:
                    self.block(branch)
            elif task["type"] == "DO_WHILE":
                for _ in range(task["turns"]):
                    self.block(task["loopOver"])
