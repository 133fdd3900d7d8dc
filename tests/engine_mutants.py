"""Mutants of the pure engine: small changes of its code, each of which a test in tests/engine should notice.

`python -m tests.engine_mutants` (`make mutants`) lets mutmut make them in a copy of the tree, tries a sample that follows
from a seed, lists the survivors by place, and fails when too few were killed. A mutant does not count when it differs in
nothing but what is said to people: in a literal or f-string with words in it, or in what that shows.

mutmut is not in the project's environment, for it brings setproctitle, with which a web server renames its processes.
It is read from `.mutants/lib`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutations import ROOT, copy_tree

LEAST = 60
"""Percent of the mutants that must be killed; what is reached stands in docs/correctness.md."""
_PROSE = re.compile(r"[A-Za-z]{2}")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One changed function; `before` and `after` are the line that differs."""

    name: str
    place: str
    before: str
    after: str
    in_words: bool


class Copy:
    """A copy of the tree in which mutmut works."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        copy_tree(folder)

    def make(self) -> list[Mutant]:
        """Let mutmut make the mutants, and note which tests reach which function; it tries but a few."""
        command = [
            "-c",
            "from mutmut.__main__ import cli; cli()",
            "run",
            "--max-children",
            "1",
            "workflows.engine.sinks.*",
        ]
        self._python(command, self.folder)
        metas = sorted((self.folder / "mutants/workflows/engine").rglob("*.meta"))
        return [
            self.mutant(name) for meta in metas for name in sorted(json.loads(meta.read_text())["exit_code_by_key"])
        ]

    def try_out(self, mutants: list[Mutant], processes: int) -> dict[str, int]:
        """How the tests of each mutant ended: 0 when all of them passed."""
        names = "\n".join(mutant.name for mutant in mutants)
        said = self._python(["-m", "tests.mutant_trials", str(processes)], self.folder / "mutants", names)
        return {name: int(code) for name, code in map(str.split, said.splitlines())}

    def _python(self, command: list[str], folder: Path, given: str | None = None) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT / ".mutants/lib")},
            input=given, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"{command} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def mutant(self, name: str) -> Mutant:
        module, _, mangled = name.rpartition(".")
        path = module.replace(".", "/")
        if (self.folder / path).is_dir():
            path += "/__init__"
        original = f"{mangled.rpartition('__mutmut_')[0]}__mutmut_orig"
        lines, functions = _functions(self.folder / "mutants" / f"{path}.py")
        old, new = functions[original], functions[mangled]
        pairs = zip(_source(lines, old), _source(lines, new), strict=False)
        offset, before, after = next((i, a, b) for i, (a, b) in enumerate(pairs) if _unnamed(a) != _unnamed(b))
        start = _functions(self.folder / f"{path}.py")[1][original.removesuffix("__mutmut_orig")].lineno
        return Mutant(name, f"{path}.py:{start + offset}", before.strip(), after.strip(), _same(old.body, new.body))


@cache
def _functions(path: Path) -> tuple[list[str], dict[str, Function]]:
    """The lines of a file, and its functions and methods by the names that mutmut makes of theirs."""
    text = path.read_text()
    found: dict[str, Function] = {}
    for node in ast.parse(text).body:
        if isinstance(node, Function):
            found |= {node.name: node, f"x_{node.name}": node}
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, Function):
                    found |= {inner.name: inner, f"xǁ{node.name}ǁ{inner.name}": inner}
    return text.splitlines(), found


def _source(lines: list[str], function: Function) -> Iterator[str]:
    yield from lines[function.lineno - 1 : function.end_lineno]


def _unnamed(line: str) -> str:
    """A line without the name of the function, which differs between mutants."""
    return line.partition("(")[2] if line.lstrip().startswith(("def ", "async def ")) else line


def _same(old: object, new: object) -> bool:
    """Whether two pieces of code differ in nothing but what they say to people."""
    if isinstance(old, ast.AST):
        if _is_prose(old) and (isinstance(new, ast.JoinedStr | ast.Constant)):
            return True
        return type(old) is type(new) and all(_same(getattr(old, f, None), getattr(new, f, None)) for f in old._fields)
    if isinstance(old, list):
        return isinstance(new, list) and len(old) == len(new) and all(map(_same, old, new))
    return type(old) is type(new) and old == new


def _is_prose(node: ast.AST) -> bool:
    """A literal, or an f-string with all it shows, that says a word and a space: the engine has no other such texts."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    said = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return any(" " in text and _PROSE.search(text) for text in said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=400, help="how many to try; 0: all of them")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", help="part of a module's or function's name")
    parser.add_argument("--least", type=float, default=LEAST, help="percent that must be killed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        made = [mutant for mutant in copy.make() if given.only in mutant.name]
        mutants = [mutant for mutant in made if not mutant.in_words]
        print(f"{len(made)} mutants made, {len(made) - len(mutants)} of them differ in wording alone", flush=True)
        if given.sample and given.sample < len(mutants):
            mutants = random.Random(given.seed).sample(mutants, given.sample)
        if not mutants:
            sys.exit("no mutant has such a name")
        verdicts = copy.try_out(mutants, given.processes)
    survivors = [mutant for mutant in mutants if not verdicts[mutant.name]]
    for mutant in sorted(survivors, key=lambda mutant: mutant.place):
        print(f"SURVIVED {mutant.place}  {mutant.before}  ->  {mutant.after}")
    killed = len(mutants) - len(survivors)
    rate = 100 * killed / len(mutants)
    print(f"engine: tried {len(mutants)}, killed {killed} ({rate:.1f} %), survived {len(survivors)}")
    return 1 if rate < given.least else 0


if __name__ == "__main__":
    sys.exit(main())
