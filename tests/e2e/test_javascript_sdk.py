"""The published JavaScript SDK, unchanged: it registers, runs a worker, executes, searches. Its bodies come in chunks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import flows
from tests.database import ROOT
from tests.processes import LOOPS, Processes

SDK = Path(os.environ.get("OSTINATO_JAVASCRIPT_SDK", ROOT / ".venv" / "javascript"))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not here (scripts/install_test_services)"),
    pytest.mark.skipif(
        not (SDK / "node_modules" / "@io-orkes" / "conductor-javascript").is_dir(),
        reason=f"Conductor's JavaScript SDK is not in {SDK} (scripts/install_test_services)",
    ),
]


@pytest.fixture
def system(committed: None) -> Iterator[Processes]:
    with Processes(OSTINATO_DEMO_OPEN="true") as processes:
        for name, command in LOOPS.items():
            processes.start(name, *command)
        processes.start_web()
        yield processes


def test_the_javascript_sdk(system: Processes) -> None:
    script = Path(__file__).with_name("javascript_client.cjs")
    done = subprocess.run(
        ["node", str(script), str(SDK), f"http://127.0.0.1:{system.port}", flows.unique("js")],
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (seen["taskRetries"], seen["registered"], seen["found"]) == (1, 1, True)
    assert (seen["status"], seen["output"]) == ("COMPLETED", {"text": "Hello world – “ünïcode”"})
    assert seen["tries"] == ["FAILED", "COMPLETED"]
    assert seen["executed"] == {"status": "COMPLETED", "output": {"text": "Hello again – “ünïcode”"}}
    assert "No such workflow found by id" in seen["missing"]
