"""jq in a warm child process: empty environment, limits of memory, files and CPU, killed when it does not answer.

In our own process jq would read the environment and files, and a program that never ends could not be stopped. The
child limits its own CPU for each program, so that it also ends when we are gone.
"""

from __future__ import annotations

import contextlib
import json
import re
import select
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from orchestrator.conf import conf

_HEAD = struct.Struct(">I")
_MODULE = re.compile(r"(?<![\w.$])(?:import|include)\b\s*[\"#@]")
"""For a clear answer only: the child can open no file, whatever the program says."""
_MOST_BYTES = 16 * 1024 * 1024


class JqError(ValueError):
    """A program that failed or ran out of its limits; the text is the reason."""


class JqProcess:
    """One child; used by one thread."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def run(self, program: str, document: Any) -> list[Any]:
        """All results of a program over a document; raises JqError."""
        if _MODULE.search(program):
            raise JqError("import and include are not allowed")
        seconds = max(1, int(conf().SCRIPT_SECONDS))
        message = json.dumps({"program": program, "document": document, "seconds": seconds}).encode()
        try:
            answer = self._exchange(message, seconds + 1.0)
        except (OSError, EOFError, TimeoutError):
            self.close()
            raise JqError(f"the program ran longer than {seconds} s or needed too much memory") from None
        if "error" in answer:
            raise JqError(str(answer["error"]))
        results: list[Any] = answer["results"]
        return results

    def _exchange(self, message: bytes, seconds: float) -> dict[str, Any]:
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(_HEAD.pack(len(message)) + message)
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], seconds)
        if not ready:
            raise TimeoutError
        head = child.stdout.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise EOFError
        size = _HEAD.unpack(head)[0]
        answer: dict[str, Any] = json.loads(child.stdout.read(size))
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                [sys.executable, "-I", str(Path(__file__).with_name("jq_child.py")), *_search_path()],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, cwd="/",
            )  # fmt: skip
        return self._child

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            child, self._child = self._child, None
            child.kill()
            with contextlib.suppress(BrokenPipeError):  # what it did not read is lost with it
                child.communicate()


def _search_path() -> list[str]:
    import jq

    return [str(Path(jq.__file__).parent)]
