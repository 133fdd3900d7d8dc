"""Heartbeats of loops: files in the supervisor's status folder, read by the health check."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

VARIABLE = "OSTINATO_STATUS"
"""The supervisor's status folder; without a supervisor there is none, and nothing is written."""
CHILD = "OSTINATO_CHILD"
"""The name a child has under its supervisor."""
FRESH_SECONDS = 30.0
GRACE_SECONDS = 20.0
"""A child that never beats counts as up when it has lived this long."""
_EVERY_SECONDS = 1.0
_last = 0.0


def beat() -> None:
    """Say that this process went round; at most once a second, and free without a supervisor."""
    global _last
    folder, name = os.environ.get(VARIABLE), os.environ.get(CHILD)
    now = time.monotonic()
    if not folder or not name or now - _last < _EVERY_SECONDS:
        return
    _last = now
    _write(Path(folder) / f"{name}.beat", str(os.getpid()))


def write_children(folder: Path, children: dict[str, dict[str, object]]) -> None:
    """The supervisor's list of children: name -> {"pid", "since" (monotonic seconds), "beats"}."""
    _write(folder / "children.json", json.dumps(children))


def states(folder: Path) -> dict[str, str]:
    """Each child's state: `up`, `starting`, `down` or `stuck` (no heartbeat for half a minute)."""
    try:
        children = json.loads((folder / "children.json").read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {name: _state(folder, name, child) for name, child in children.items()}


def _state(folder: Path, name: str, child: dict[str, object]) -> str:
    pid, since = child["pid"], child["since"]
    if pid is None or not isinstance(since, (int, float)):
        return "down"
    if not child["beats"]:
        return "up"
    path = folder / f"{name}.beat"
    try:
        ours = path.read_text() == str(pid)
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        ours, age = False, 0.0
    if not ours:
        return "up" if time.monotonic() - since > GRACE_SECONDS else "starting"
    return "up" if age < FRESH_SECONDS else "stuck"


def _write(path: Path, text: str) -> None:
    """Whole or not at all: readers never see half a file."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        partial.write_text(text)
        partial.replace(path)
    except FileNotFoundError:
        # The supervisor is gone and its folder with it.
        return
