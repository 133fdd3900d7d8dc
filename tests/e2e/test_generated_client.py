"""A Python client generated from the OpenAPI document that a server serves: it logs in, registers, starts, works, reads."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.access import PERMISSIONS
from orchestrator.services import keys
from orchestrator.services.keys import KeyRequest
from tests import flows
from tests.processes import LOOPS, Processes
from tests.support import eventually

pytestmark = pytest.mark.e2e
PACKAGE = "generated_ostinato_client"
TEXT_BODIES = {"PUT /api/environment/{name}", "PUT /api/secrets/{name}", "POST /api/tasks/{task_id}/log"}
"""Plain text goes in there, which the generator does not write; of its other warnings there must be none."""


@pytest.fixture
def system(committed: None) -> Iterator[Processes]:
    with Processes(OSTINATO_DEMO_OPEN="false") as processes:
        for name, command in LOOPS.items():
            processes.start(name, *command)
        processes.start_web()
        yield processes


class Generated:
    """The modules of the package, each imported when it is named."""

    def call(self, group: str, operation: str) -> Any:
        return importlib.import_module(f"{PACKAGE}.api.{group}.{operation}").sync_detailed

    def body(self, name: str, content: dict[str, Any]) -> Any:
        return getattr(importlib.import_module(f"{PACKAGE}.models"), name).from_dict(content)

    def client(self, **options: Any) -> Any:
        kind = "AuthenticatedClient" if "token" in options else "Client"
        return getattr(importlib.import_module(f"{PACKAGE}.client"), kind)(raise_on_unexpected_status=True, **options)


@pytest.fixture
def generated(system: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Generated]:
    settings = tmp_path / "settings.yaml"
    settings.write_text("post_hooks: []\n")
    command = [
        sys.executable, "-m", "openapi_python_client", "generate", "--url", f"http://127.0.0.1:{system.port}/api/schema",
        "--meta", "none", "--output-path", str(tmp_path / PACKAGE), "--config", str(settings),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    warned = re.findall(r"^WARNING parsing (\S+ \S+).*\n\n(.*)$", said, re.M)
    assert said.count("WARNING") == len(warned), said
    assert set(warned) <= {(operation, "Unsupported content type text/plain") for operation in TEXT_BODIES}, said
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Generated()
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_a_generated_client_runs_a_workflow(system: Processes, generated: Generated) -> None:
    key, secret = keys.create(KeyRequest(flows.NAMESPACE, "generated", PERMISSIONS), actor="ann")
    name = flows.unique("generated")
    base = f"http://127.0.0.1:{system.port}"
    token = generated.call("token", "create_token")(
        client=generated.client(base_url=base),
        body=generated.body("CreateTokenBody", {"keyId": str(key.id), "keySecret": secret}),
    )
    with generated.client(base_url=base, token=token.parsed["token"], prefix="", auth_header_name="X-Authorization") as client:

        def call(group: str, operation: str, *path: Any, **given: Any) -> Any:
            return generated.call(group, operation)(*path, client=client, **given)

        definition = {
            "name": name, "version": 1, "tasks": [{**flows.simple("a", name), "inputParameters": {"n": "${workflow.input.n}"}}],
            "outputParameters": {"doubled": "${a.output.doubled}"},
        }  # fmt: skip
        registered = call("metadata", "register_workflow", body=generated.body("RegisterWorkflowBody", definition))
        assert registered.status_code == 200
        run = call("workflow", "start_workflow", body=generated.body("StartWorkflowBody", {"name": name, "input": {"n": 21}}))
        polled = eventually(lambda: call("tasks", "poll_task", name, workerid="w").parsed)
        assert polled["inputData"] == {"n": 21}
        result = {
            "taskId": polled["taskId"], "workflowInstanceId": run.parsed, "workerId": "w", "status": "COMPLETED",
            "outputData": {"doubled": polled["inputData"]["n"] * 2},
        }  # fmt: skip
        done = call("tasks", "update_task", body=generated.body("UpdateTaskBody", result))
        assert done.parsed == polled["taskId"]
        read = eventually(lambda: _ended(call("workflow", "get_workflow", run.parsed).parsed))
        assert (read["status"], read["output"]) == ("COMPLETED", {"doubled": 42})
        missing = call("workflow", "get_workflow", "00000000-0000-7000-8000-000000000000")
        assert (missing.status_code, missing.parsed.code) == (404, "NOT_FOUND")


def _ended(run: Any) -> Any:
    return run if run["status"] != "RUNNING" else None
