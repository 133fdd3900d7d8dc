"""The lifeline: a pipe whose write end only the supervisor holds, so its death is seen as end of file.

Our own processes call `watch_lifeline()`; programs that are not ours run under this file as a script
(standard library only, so that it starts in a few milliseconds and needs no import path).
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

VARIABLE = "OSTINATO_LIFELINE"
_PR_SET_PDEATHSIG = 1


def watch_lifeline(then: Callable[[], None] | None = None) -> None:
    """Send this process SIGTERM (or call `then`) when the supervisor is gone; nothing without one."""
    fd = os.environ.pop(VARIABLE, "")
    if not fd:
        return
    action = then or (lambda: os.kill(os.getpid(), signal.SIGTERM))

    def wait() -> None:
        os.read(int(fd), 1)
        action()

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def guard(command: list[str], uid: int | None, gid: int | None, stop_signal: int) -> int:
    """Run a program until it ends; pass signals on, and stop it when the supervisor is gone."""
    child = subprocess.Popen(
        command, user=uid, group=gid, extra_groups=None if uid is None else [], preexec_fn=_die_with_parent(stop_signal)
    )

    def forward(number: int, frame: object) -> None:
        child.send_signal(stop_signal if number == signal.SIGTERM else number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, forward)
    watch_lifeline(lambda: child.send_signal(stop_signal))
    return child.wait()


def _die_with_parent(number: int) -> Callable[[], object] | None:
    """Linux only: covers SIGKILL of the wrapper itself. Runs after the switch of user, which resets it."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, number)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    parser.add_argument("--stop-signal", type=int, default=signal.SIGTERM)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    return guard(options.command, options.uid, options.gid, options.stop_signal)


if __name__ == "__main__":
    sys.exit(main())
