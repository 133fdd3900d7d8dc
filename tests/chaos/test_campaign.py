"""Random workflows on processes that are killed, cut off and robbed of their server; every run reaches its right end."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connections

from tests.chaos.campaign import FAKETIME, FULL, SHORT, Campaign, Scale, Starters, Victims, environment
from tests.chaos.checking import verdict
from tests.chaos.proxy import Proxy
from tests.chaos.server import Server, serving
from tests.chaos.workload import Judged, generated, mixed
from tests.support import eventually
from workflows.services.sweeping import invariant_report, sweep

_OPEN = "SELECT count(*) FROM workflows_execution WHERE ended_at IS NULL"


@pytest.fixture
def server(django_test_environment: None, django_db_blocker: Any) -> Iterator[Server]:
    with django_db_blocker.unblock(), serving() as found:
        yield found


@pytest.mark.parametrize(
    "scale",
    [
        pytest.param(SHORT, id="short", marks=pytest.mark.timeout(150)),
        pytest.param(FULL, id="full", marks=[pytest.mark.stress, pytest.mark.timeout(1800)]),
    ],
)
def test_nothing_is_lost_doubled_or_stuck(
    server: Server, tmp_path: Path, settings: Any, capsys: pytest.CaptureFixture[str], scale: Scale
) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))
    print(f"CHAOS_SEED={seed}")
    chance = random.Random(seed)
    judged: dict[str, Judged] = {one.definition["name"]: one for one in generated(chance, scale.definitions)}
    special = mixed()
    judged[special.definition["name"]] = special
    few = scale.runs // 20
    names = [chance.choice(list(judged)) for _ in range(scale.runs - few)] + [special.definition["name"]] * few
    chance.shuffle(names)
    ledger = tmp_path / "ledger"
    ledger.touch()
    connections.close_all()  # ours would be cut as well
    with Proxy(server.socket_path) as proxy, Victims(proxy, tmp_path, chance, scale, **environment(ledger)) as victims:
        victims.start_all()
        starters = Starters(victims, names)
        campaign = Campaign(server, proxy, victims, chance)
        campaign.run(scale)
        eventually(lambda: starters.done, scale.seconds)
        eventually(lambda: server.ask(_OPEN) == [(0,)], scale.seconds)
        killed = campaign.kills
    started: dict[UUID, Judged] = {run: judged[name] for run, name in starters.started.items()}
    found = verdict(server, started, ledger)
    figures = (
        f"runs {len(started)}, kills {killed}, restarts {server.restarts}, cuts {proxy.cuts}, "
        f"lost {len(found.lost)}, doubled {len(found.doubled) + len(starters.twice)}, stuck {len(found.stuck)}"
    )
    with capsys.disabled():
        print(f"\n{figures} (CHAOS_SEED={seed}, clocks {'differ' if FAKETIME else 'are right: no faketime here'})")
    print(f"killed {dict(sorted(victims.killed.items()))}, backends terminated {server.terminations}")
    assert (found.lost, found.doubled, starters.twice, found.stuck) == ([], [], [], [])
    assert len(started) == scale.runs
    assert server.complaints() == []
    assert {name: rows for name, rows in invariant_report().items() if rows} == {}
    settings.OSTINATO = {**settings.OSTINATO, "STUCK_SECONDS": 0.0}
    assert sweep() == 0
