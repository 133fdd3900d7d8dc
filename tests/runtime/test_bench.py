"""The bench runs to its end and its figures are figures. What they are is the bench's own business: no time is asserted."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from orchestrator.bench import peers, running
from orchestrator.bench.meters import Figures
from orchestrator.bench.report import table, verdicts
from orchestrator.bench.stage import Stage
from orchestrator.bench.workloads import WORKLOADS


def bench(folder: Path, *arguments: str) -> Any:
    """The JSON of a bench."""
    file = folder / "bench.json"
    bench_output(folder, "--json", str(file), *arguments)
    return json.loads(file.read_text())


def bench_output(folder: Path, *arguments: str) -> str:
    """What a bench says, in a process of its own."""
    command = [sys.executable, "-m", "orchestrator", "bench", "--rounds", "1", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "DATA_DIR": str(folder), "OSTINATO_LOG_LEVEL": "ERROR"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_finite(rows: dict[str, list[dict[str, Any]]]) -> None:
    for row, rounds in rows.items():
        for figures in rounds:
            numbers = [value for value in (figures | figures["more"]).values() if isinstance(value, (int, float))]
            assert all(math.isfinite(number) and number >= 0 for number in numbers), (row, figures)
            assert figures["items"] > 0 and figures["seconds"] > 0, row


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_the_rows_of_one_crew_run_to_their_end(tmp_path: Path) -> None:
    rows = bench(tmp_path, "--only", "W2,W5,W6,W10", "--scale", "0.01")["rows"]
    assert {row for row in rows if not row.endswith("/bare")} == {"W2", "W5", "W6", "W10"}
    assert_finite(rows)


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_a_profile_names_our_statements(tmp_path: Path) -> None:
    said = bench_output(tmp_path, "--only", "W2", "--scale", "0.02", "--profile")
    assert "statements, for each item:" in said
    for name in ("workflows.task.insert", "workflows.task.end", "workflows.task.consume", "dispatch.task_queue.lease"):
        assert f"  {name}\n" in said


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_every_row_runs_to_its_end(tmp_path: Path) -> None:
    found = bench(tmp_path, "--scale", "0.01")
    assert {row for row in found["rows"] if not row.endswith("/bare")} == {workload.key for workload in WORKLOADS}
    assert_finite(found["rows"])
    assert all(math.isfinite(target["value"]) for target in found["targets"])


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_retention_takes_a_month_beside_load(tmp_path: Path) -> None:
    said = bench_output(tmp_path, "--retire", "2000")
    assert "retention took 1 months and runs in " in said
    assert "load alone" in said and "while retention takes it" in said


def test_a_peer_that_does_not_work_is_told_with_its_reason(tmp_path: Path, postgres_server: str) -> None:
    peer = peers.Peer("absurd", "Absurd", (), 1)
    programs = tmp_path / peer.name / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to("/usr/bin/env")  # runs the script's path as a program, which it is not
    stage = Stage(postgres_server)
    try:
        with pytest.raises(peers.PeerFailed, match="absurd ended before it was ready: "):
            peers.measure(peer, tmp_path, stage)
    finally:
        stage.admin.execute("DROP DATABASE IF EXISTS bench_absurd WITH (FORCE)")
        stage.close()


def test_rows_are_chosen_by_name_with_their_variants() -> None:
    assert [w.key for w in running.choose("W1")] == ["W1", "W1x2"]
    assert [w.key for w in running.choose("w10, W6")] == ["W6", "W10"]
    assert len(running.choose("")) == len(WORKLOADS)
    with pytest.raises(CommandError, match="no workload W11"):
        running.choose("W1,W11")


def test_the_table_shows_medians_ratios_and_verdicts() -> None:
    def figures(speed: int) -> Figures:
        return Figures(speed, 1.0, 100.0, 150.0, 3000.0, {"decider": 70 << 20})

    rounds = {"W1": [figures(s) for s in (500, 700, 600)], "W1/bare": [figures(s) for s in (1000, 1000, 2000)]}
    head, mine, bare = table(WORKLOADS, rounds).splitlines()
    assert mine.split()[:2] == ["W1", "chain"] and " 600 " in mine and " 33% " in mine and " 50% " in mine
    assert bare.split()[:2] == ["bare", "pipeline"] and " 1,000 " in bare
    assert head.index("PG us") + len("PG us") == mine.index(" 100 ") + len(" 100")
    assert verdicts(rounds) == [
        "W1    ratio 0.5, target >= 0.6: missed",
        "W1    cpu us 250, target <= 240: missed",
        "W1    wal 3,000, target <= 3,200: met",
        "decider  memory 70 MB, target <= 150 MB: met",
    ]
