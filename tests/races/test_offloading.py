"""Removal of objects beside those who write the same content: whatever a committed row names is there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from orchestrator.db.transactions import transaction
from orchestrator.stores.files import FileStore
from tests import flows
from tests.support import Contender, race
from workflows import offloading
from workflows.models import Execution, Offloaded
from workflows.services import control
from workflows.services.collecting import collect

pytestmark = pytest.mark.usefixtures("committed")
GIVEN = {"h": "x" * 600}


@pytest.fixture(autouse=True)
def store(settings: Any, tmp_path: Path) -> FileStore:
    settings.OSTINATO = {**settings.OSTINATO, "OFFLOAD_DIR": str(tmp_path), "OFFLOAD_BYTES": 500}
    offloading.cache.clear()
    return FileStore(tmp_path)


def later() -> datetime:
    """A moment at which everything written until now is old."""
    return datetime.now(UTC) + timedelta(minutes=61)


def orphan(name: str, store: FileStore) -> str:
    """An object that was named by a run, which is gone."""
    run = flows.start(name, GIVEN)
    control.terminate(flows.NAMESPACE, run, actor="ann")
    control.remove(flows.NAMESPACE, run, actor="ann")
    ((key, _),) = store.page("", 10)
    return key


def is_whole(run: UUID) -> bool:
    offloading.cache.clear()
    return bool(Execution.objects.get(id=run).input == GIVEN)


def test_what_an_open_transaction_wrote_again_is_left_alone(store: FileStore) -> None:
    """Its row cannot be seen yet, and by the clock of this test it is old."""
    name = flows.register(flows.simple("a"))
    key = orphan(name, store)
    with transaction():
        run = flows.start(name, GIVEN)
        assert Contender(lambda: collect(later())).result() == 0
        assert store.get(key) is not None
    collect(later())
    assert is_whole(run)


def test_a_start_that_meets_the_removal_of_its_content_waits_and_writes_it_again(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = flows.register(flows.simple("a"))
    key = orphan(name, store)
    real, starts = FileStore.remove, []

    def remove(self: FileStore, gone: str) -> None:
        starts.append(Contender(lambda: flows.start(name, GIVEN)).until_blocked())
        real(self, gone)

    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "remove", remove)
        collect(later())
    run = starts[0].result()
    assert store.get(key) is not None and is_whole(run)


def test_content_written_again_since_the_list_was_made_is_young(store: FileStore, monkeypatch: Any) -> None:
    """The writer is between its object and its row when the list is looked at, and rolls back: nothing names it yet."""
    name = flows.register(flows.simple("a"))
    key = orphan(name, store)
    real, before = Offloaded.sql.unnamed, store.modified(key)
    moment = (before or later()) + timedelta(hours=1, microseconds=1)

    def unnamed(keys: list[str]) -> list[str]:
        found = real(keys)
        store.put(key, offloading.json.dumps(GIVEN).encode())
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Offloaded.sql, "unnamed", unnamed)
        collect(moment)
    assert store.get(key) is not None


def test_starts_of_one_content_beside_removals_lose_nothing(store: FileStore) -> None:
    name = flows.register(flows.simple("a"))
    runs: list[UUID] = []

    def body(number: int) -> None:
        for _ in range(15):
            if number == 0:
                runs.append(flows.start(name, GIVEN))
                continue
            run = flows.start(name, GIVEN)
            control.terminate(flows.NAMESPACE, run, actor="ann")
            control.remove(flows.NAMESPACE, run, actor="ann")
            collect(later())

    assert race(3, body) == [None] * 3
    assert len(runs) == 15 and all(map(is_whole, runs))
    assert len(store.page("", 10)) == 1
