from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from orchestrator.demo import ORDER, WORKFLOW
from orchestrator.errors import OstinatoError
from orchestrator.management.commands.run_web import refuse_taken_port
from orchestrator.management.folder import DataFolder, write_private
from orchestrator.management.prepare import ADMIN, prepare_database
from orchestrator.management.terminal import Terminal
from orchestrator.postgres import EmbeddedPostgres
from orchestrator.runtime import heartbeat
from orchestrator.runtime.stop import Stop, stop_on_signals
from orchestrator.supervisor import Child, Supervisor, command_child

DATABASE = "ostinato"
_QUIET = {"log_checkpoints": "off", "log_line_prefix": ""}
_TELL_SECONDS = 15.0
HOME = Path(__file__).resolve().parent.parent.parent.parent
LOOPS = {
    "decider": ["run_decider"],
    "relay": ["run_relay"],
    "timekeeper": ["run_timekeeper"],
    "system-tasks": ["run_system_tasks"],
    "worker": ["run_worker", "orchestrator.demo_tasks"],
}


class Command(BaseCommand):
    help = "Run everything on this machine: PostgreSQL (unless DATABASE_URL is set), web, and all loops."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=os.environ.get("HOST", "127.0.0.1"))
        parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8080")))
        parser.add_argument("--prepare", action="store_true", help="only migrate, create the administrator and seed")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["prepare"]:
            prepare_database()
            return
        folder = DataFolder(settings.DATA_DIR)
        refuse_taken_port(options["host"], options["port"])
        with folder.locked():
            Up(folder, options["host"], options["port"]).run()


class Up:
    """One run of `up`."""

    def __init__(self, folder: DataFolder, host: str, port: int) -> None:
        self.folder = folder
        self.host = host
        self.port = port
        self.terminal = Terminal()
        self.stop = Stop()
        self.supervisor = Supervisor(self.terminal.say, folder.status, self.stop)
        self.postgres: EmbeddedPostgres | None = None

    def run(self) -> None:
        """Start everything, wait for the stop, stop everything."""
        stop_on_signals(self.stop, second=self.supervisor.kill)
        try:
            env = self._environment()
            if "DATABASE_URL" not in env:
                env["DATABASE_URL"] = self._start_postgres()
                write_private(self.folder.database_url, env["DATABASE_URL"])
                # With a database of its own it is alone; where others share it, so must they the folder.
                env.setdefault("OSTINATO_OFFLOAD_DIR", str(self.folder.payloads))
            self._prepare(env)
            self._start_children(env)
            if self._wait_healthy():
                self._greet()
            self.stop.wait()
        except OstinatoError as error:
            raise CommandError(error.message) from error
        finally:
            self.terminal.say("up", "stopping")
            self.supervisor.shut_down()
            if self.postgres is not None:
                self.postgres.stop()
            self.terminal.say("up", "stopped")

    def _environment(self) -> dict[str, str]:
        """What the children see: secrets from the data folder, and our packages before a folder of the same name."""
        env = dict(os.environ)
        path = [str(HOME), *filter(None, [env.get("PYTHONPATH")])]
        env.update(
            DATA_DIR=str(self.folder.path),
            PYTHONPATH=os.pathsep.join(path),
            PYTHONUNBUFFERED="1",
            PROMETHEUS_MULTIPROC_DIR=str(self.folder.metrics),
            HOST=self.host,
            PORT=str(self.port),
        )
        env[heartbeat.VARIABLE] = str(self.folder.status)
        env.setdefault("SECRET_KEY", self.folder.secret("secret-key"))
        if self.terminal.colours:
            env["FORCE_COLOR"] = "1"
        if self.host in ("127.0.0.1", "::1", "localhost"):
            env.setdefault("OSTINATO_DEMO_OPEN", "1")
        return env

    def _start_postgres(self) -> str:
        self.terminal.say("up", f"starting PostgreSQL, data in {self.folder.postgres}")
        self.postgres = server = EmbeddedPostgres(self.folder.postgres, _QUIET)
        server.prepare()

        def launch(lifeline: int) -> subprocess.Popen[bytes]:
            server.prepare()
            return server.start(lifeline, output=subprocess.PIPE)

        self.supervisor.start(Child("postgres", launch, last=True, stop_signal=signal.SIGINT))
        server.wait_ready()
        server.create_database(DATABASE)
        return server.url(DATABASE)

    def _prepare(self, env: dict[str, str]) -> None:
        """In a process of its own, whose settings see the environment made above."""
        process = subprocess.Popen(
            _ostinato("up", "--prepare"),
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.stop.subscribe(process.terminate)
        assert process.stdout is not None
        for line in process.stdout:
            self.terminal.say("prepare", line.decode(errors="replace").rstrip())
        if process.wait() and not self.stop.requested:
            raise CommandError("The database could not be prepared; the lines above say why.")

    def _start_children(self, env: dict[str, str]) -> None:
        if self.stop.requested:
            return
        web = ["run_web", "--host", self.host, "--port", str(self.port)]
        self.supervisor.start(command_child("web", _ostinato(*web), env))
        for name, command in LOOPS.items():
            self.supervisor.start(command_child(name, _ostinato(*command), env, beats=True))

    def _wait_healthy(self) -> bool:
        """Ask the way an operator would, and say what is missing now and then; False when the stop came first."""
        told = time.monotonic()
        while not self.stop.wait(0.2):
            healthy, answer = self._ask_health()
            if healthy:
                return True
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                self.terminal.say("up", f"not healthy yet: {answer}")
        return False

    def _ask_health(self) -> tuple[bool, str]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            response = connection.getresponse()
            return response.status == 200, response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            return False, f"no answer on port {self.port} ({error})"
        finally:
            connection.close()

    def _greet(self) -> None:
        paint = self.terminal.paint
        url = f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"
        kept = self.folder.admin_password
        password = kept.read_text().strip() if kept.exists() else "(the one that was set by hand)"
        order = json.dumps({**ORDER, "orderId": "A-2"})
        self.terminal.block(
            f"{paint('Ostinato is up', '1;32')}   {paint(url + '/ops/', '1;4')}",
            "",
            f"Administrator   {paint(ADMIN, '1')}   password {paint(password, '1')}   {url}/admin/",
            f"Data            {self.folder.path}",
            "",
            "Try next:",
            f"  curl -X POST {url}/api/workflow/{WORKFLOW} -H 'Content-Type: application/json' -d '{order}'",
            f"  curl '{url}/api/workflow/search?size=5'",
            f"  {_program()} demo   # one more run; prints the address of its page",
            "",
            paint("Ctrl-C stops everything.", "2"),
        )


def _program() -> str:
    """How this very program was called."""
    script = Path(sys.argv[0])
    return f"{os.path.relpath(sys.executable)} {script}" if script.suffix == ".py" else script.name


def _ostinato(*arguments: str) -> list[str]:
    # -P: the working folder must not shadow our packages.
    return [sys.executable, "-P", "-m", "orchestrator", *arguments]
