from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.db import sql
from tests.lock_order import LockOrderRecorder


@pytest.fixture(autouse=True)
def lock_order() -> Iterator[LockOrderRecorder]:
    """Every race also checks the written lock order."""
    recorder = LockOrderRecorder()
    sql.OBSERVERS.append(recorder)
    yield recorder
    sql.OBSERVERS.remove(recorder)
    assert recorder.violations == []
