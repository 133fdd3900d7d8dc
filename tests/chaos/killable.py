"""The program that is killed: a management command that ends itself by SIGKILL at a named point of its transactions.

CHAOS_CRASH_AT names it: "after relay._settle 3" is right after the third commit of the transaction that `_settle` in a
services' module `relay` owns, "before" right before it. Threads of the process count together.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from django.db.backends.base.base import BaseDatabaseWrapper

from orchestrator.__main__ import main

CRASH_AT = "CHAOS_CRASH_AT"


def arm(moment: str, owner: str, count: int) -> None:
    """Put the trap into the one place that commits: Django's connection."""
    commit = BaseDatabaseWrapper._commit
    left = count

    def trapped(self: BaseDatabaseWrapper) -> None:
        nonlocal left
        here = owner_of(sys._getframe(1)) == owner
        left -= here
        if here and moment == "before" and left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self)
        if here and left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    BaseDatabaseWrapper._commit = trapped


def owner_of(frame: FrameType | None) -> str | None:
    """`module.function` of the innermost service on the stack: the one whose transaction commits."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if ".services." in module:
            return f"{module.rsplit('.', 1)[-1]}.{frame.f_code.co_name}"
        frame = frame.f_back
    return None


if __name__ == "__main__":
    if os.environ.get(CRASH_AT):
        when, where, number = os.environ[CRASH_AT].split()
        arm(when, where, int(number))
    main()
