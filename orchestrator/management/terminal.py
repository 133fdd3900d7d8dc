"""What `up` and `doctor` write to the terminal: prefixed lines, colours only where they are seen."""

from __future__ import annotations

import os
import sys
import threading
from itertools import cycle

_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")


class Terminal:
    """Lines of several processes in one place; whole lines, never mixed."""

    def __init__(self, width: int = 12) -> None:
        self.colours = (sys.stdout.isatty() and "NO_COLOR" not in os.environ) or os.environ.get("FORCE_COLOR") == "1"
        self._width = width
        self._lock = threading.Lock()
        self._next = cycle(_COLOURS)
        self._colour_of: dict[str, str] = {}

    def say(self, name: str, line: str) -> None:
        """One line of one process."""
        with self._lock:
            if name not in self._colour_of:
                self._colour_of[name] = next(self._next)
            self._print(f"{self.paint(name.ljust(self._width), self._colour_of[name])} {self.paint('│', '2')} {line}")

    def block(self, *lines: str) -> None:
        """Lines of our own, set apart."""
        with self._lock:
            self._print("\n" + "\n".join(f"  {line}" if line else "" for line in lines) + "\n")

    def paint(self, text: str, code: str) -> str:
        """The text in a colour (an ANSI code) if colours are on."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text

    def _print(self, text: str) -> None:
        try:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
        except (BrokenPipeError, OSError):
            # The reader of our output is gone (`up | head`): go on without it.
            return
