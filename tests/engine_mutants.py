"""Mutants of the pure engine: small changes of its code, each of which the tests in tests/engine should notice.

`python -m tests.engine_mutants` (`make mutants`) lets mutmut make them in a copy of the tree, tries a sample that follows
from a seed, lists the survivors by place, and fails when too few were killed.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutations import copy_tree

ENGINE = "workflows.engine."
LEAST = 60
"""Percent of the mutants that must be killed; what is reached stands in docs/correctness.md."""
_SURVIVED = (0, 5, 33)
"""mutmut's verdicts: the tests passed, or no test calls the function. Any other is an end that a suite would notice."""

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

    def run(self, names: Iterable[str], processes: int) -> None:
        """Try the mutants of these names; the first run makes all of them."""
        command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(processes), *names]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"mutmut failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    def verdicts(self) -> dict[str, int | None]:
        """mutmut's exit code of every mutant that was made, None for those not tried yet."""
        found: dict[str, int | None] = {}
        for meta in sorted((self.folder / "mutants/workflows/engine").rglob("*.meta")):
            found |= json.loads(meta.read_text())["exit_code_by_key"]
        return found

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
        return Mutant(name, f"{path}.py:{start + offset}", before.strip(), after.strip(), _in_words(old, new))


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


def _in_words(old: Function, new: Function) -> bool:
    """Whether only a sentence said to people differs: a text with a space in it, that no code depends on."""
    for a, b in zip(ast.walk(old), ast.walk(new), strict=False):
        if type(a) is not type(b):
            return False
        if isinstance(a, ast.Constant) and isinstance(b, ast.Constant) and a.value != b.value:
            return isinstance(a.value, str) and " " in a.value.strip()
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=300, help="how many to try; 0: all of them")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", help="part of a module's or function's name")
    parser.add_argument("--least", type=float, default=LEAST, help="percent that must be killed")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        copy.run([f"{ENGINE}sinks.*"], given.processes)
        names = sorted(name for name in copy.verdicts() if given.only in name)
        mutants = [mutant for mutant in map(copy.mutant, names) if not mutant.in_words]
        if given.sample and given.sample < len(mutants):
            mutants = random.Random(given.seed).sample(mutants, given.sample)
        if not mutants:
            sys.exit("no mutant has such a name")
        copy.run([mutant.name for mutant in mutants], given.processes)
        verdicts = copy.verdicts()
    survivors = [mutant for mutant in mutants if verdicts[mutant.name] in _SURVIVED]
    for mutant in sorted(survivors, key=lambda mutant: mutant.place):
        print(f"SURVIVED {mutant.place}  {mutant.before}  ->  {mutant.after}")
    killed = len(mutants) - len(survivors)
    rate = 100 * killed / len(mutants)
    print(f"{killed} of {len(mutants)} mutants of the engine killed, {len(survivors)} survived: {rate:.1f} %")
    return 1 if rate < given.least else 0


if __name__ == "__main__":
    sys.exit(main())
