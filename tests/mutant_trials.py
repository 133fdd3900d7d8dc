"""Trials of mutants: the tests are collected once, and each mutant gets a fork of that process and the tests that reach it.

`python -m tests.mutant_trials PROCESSES < names` runs in the tree that mutmut made, and prints each name with how it ended;
tests/engine_mutants.py starts it. mutmut's own way collects the tests anew for each mutant and decides at each call which
code to run; here a function simply gets the mutant's code, and all are tried several times as fast.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import TextIO

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings
from mutmut.mutation import trampoline

_MEMORY = 2 * 1024**3
_families: list[tuple[FunctionType, dict[str, FunctionType]]] = []
"""Each function of the engine, with its mutants by name."""


def _note(mutants: dict[str, FunctionType], is_classmethod: bool = False) -> Callable[[FunctionType], FunctionType]:
    """In place of mutmut's decorator: the function stays as it is, its mutants are defined after it."""

    def noted(function: FunctionType) -> FunctionType:
        _families.append((function, mutants))
        return function

    return noted


class Trials:
    """Runs the mutants in place of the tests."""

    def __init__(self, names: list[str], processes: int, out: TextIO) -> None:
        stats = json.loads(Path("mutmut-stats.json").read_text())
        self.names, self.processes, self.out = names, processes, out
        self.durations: dict[str, float] = stats["duration_by_test"]
        self.reaching: dict[str, list[str]] = stats["tests_by_mangled_function_name"]
        self.running: dict[int, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        functions = {
            f"{mutant.__module__}.{name}": (function, mutant)
            for function, mutants in _families
            for name, mutant in mutants.items()
        }
        for name in self.names:
            tests = [test for test in self.reaching.get(name.rpartition("__mutmut_")[0], ()) if test in items]
            tests.sort(key=lambda test: self.durations[test])
            while len(self.running) >= self.processes:
                self._reap()
            function, mutant = functions[name]
            original, function.__code__ = function.__code__, mutant.__code__
            if not (pid := os.fork()):
                os._exit(_try([items[test] for test in tests], [self.durations[test] for test in tests]))
            function.__code__ = original
            self.running[pid] = name
        while self.running:
            self._reap()
        return True

    def _reap(self) -> None:
        pid, status = os.wait()
        print(self.running.pop(pid), os.waitstatus_to_exitcode(status), file=self.out, flush=True)


def _try(items: list[pytest.Item], seconds: list[float]) -> int:
    """0 when every test passes; in a child, which is ended when a test takes far more than the seconds it took."""
    try:
        with suppress(OSError, ValueError):  # not everywhere
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        return int(any(_fails(item, duration) for item, duration in zip(items, seconds, strict=True)))
    except BaseException:
        return 1


def _fails(item: pytest.Item, seconds: float) -> bool:
    limit = math.ceil(time.process_time() + 2 * seconds + 2)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def main() -> int:
    trampoline.wrap_in_trampoline = _note
    # The same examples each time; a failure is one, however small.
    settings.register_profile("trials", derandomize=True, database=None, phases=[Phase.explicit, Phase.generate])
    settings.load_profile("trials")
    names = sys.stdin.read().split()
    with os.fdopen(os.dup(1), "w") as verdicts:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what pytest and the tests say is of no interest
        options = ["-q", "-s", "--noconftest", "-p", "no:cacheprovider", "tests/engine"]
        return pytest.main(options, plugins=[Trials(names, int(sys.argv[1]), verdicts)])


if __name__ == "__main__":
    sys.exit(main())
