"""Where the time of a measurement goes: statements by pg_stat_statements, Python functions by py-spy where it is installed."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from orchestrator.bench.meters import SQL, Figures, Meter
from orchestrator.db.sql import load

MODULE = "pg_stat_statements"
_MOST = 15
_APPS = ("orchestrator", "workflows", "dispatch", "outbox")
_NOISE = re.compile(r"--.*|'[^']*'|%\(\w+\)s|\$\d+|\b(true|false|null)\b|[^a-z_]")
_RESTING = ("Wakeup._wait", "stop_on_signals", "Thread._wait_for_tstate_lock", "Condition.wait ", "_worker ")
"""Where threads that only wait are found; their samples say nothing."""
_LINE = re.compile(r":\d+\)$")


@dataclass(frozen=True, slots=True)
class Profile:
    """What a measurement spent: lines for people, the heaviest first."""

    statements: tuple[str, ...]
    functions: Mapping[str, tuple[str, ...]]
    """Role -> lines."""


class ProfiledMeter(Meter):
    """A meter that also says where the time goes; what it costs is in the figures."""

    def __init__(
        self, admin: psycopg.Connection[Any], roles: Mapping[str, Sequence[int]], found: list[Profile]
    ) -> None:
        super().__init__(admin, roles)
        self._found = found
        self._spies: dict[str, _Spy] = {}
        self._statements: list[tuple[Any, ...]] = []

    def __enter__(self) -> ProfiledMeter:
        program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
        if program:
            self._spies = {role: _Spy(program, roots[0].pid) for role, roots in self._roles.items() if roots}
        self._admin.execute(SQL["reset_statements"])
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is None:
            self._statements = self._admin.execute(SQL["top_statements"], {"count": _MOST}).fetchall()
        for spy in self._spies.values():
            spy.stop()

    def figures(self, items: int, **more: float) -> Figures:
        names = dict(_known())
        lines = [
            f"{spent * 1000 / items:8.1f} us  {calls / items:7.3f} calls  {spent / calls:8.3f} ms a call  "
            f"{names.get(_skeleton(text)) or ' '.join(text.split())[:80]}"
            for text, calls, spent in self._statements
        ]
        self._found.append(Profile(tuple(lines), {role: tuple(spy.lines()) for role, spy in self._spies.items()}))
        return super().figures(items, **more)


class _Spy:
    """py-spy on one process."""

    def __init__(self, program: str, pid: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "stacks"
        command = [program, "record", "--pid", str(pid), "--format", "raw", "--rate", "200", "--duration", "3600"]
        self._process = subprocess.Popen(
            [*command, "--output", str(self._file)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has attached, or says why it cannot

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def lines(self) -> Iterator[str]:
        """Functions by their own share of the samples, with the share of all that they called."""
        own: Counter[str] = Counter()
        whole: Counter[str] = Counter()
        for stack, count in self._stacks():
            own[stack[-1]] += count
            whole.update(dict.fromkeys(stack, count))
        total = sum(own.values())
        for name, count in own.most_common(_MOST):
            yield f"{count / total:6.1%} own  {whole[name] / total:6.1%} in all  {name}"
        for name, count in whole.most_common(3 * _MOST):
            if own[name] / total < 0.01 and "threading.py" not in name:
                yield f"{'':10}  {count / total:6.1%} in all  {name}"

    def _stacks(self) -> Iterator[tuple[list[str], int]]:
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                text, _, count = line.rpartition(" ")
                stack = [_LINE.sub(")", frame) for frame in text.split(";")]
                if not stack[-1].startswith(_RESTING):
                    yield stack, int(count)


def _known() -> Iterator[tuple[str, str]]:
    """Our statements by what is left of them when names of parameters and constants are gone."""
    for app in _APPS:
        for path in files(app).joinpath("sql").iterdir():
            if path.name.endswith(".sql"):
                for statement in load(app, path.name).statements.values():
                    yield _skeleton(statement.text), statement.name


def _skeleton(text: str) -> str:
    return _NOISE.sub("", text.lower())
