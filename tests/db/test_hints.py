"""Wake-up hints."""

from __future__ import annotations

import pytest

from orchestrator.db import hints
from orchestrator.db.transactions import transaction

pytestmark = pytest.mark.usefixtures("committed")


def test_a_transaction_sends_one_hint_however_often_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[str]] = []
    monkeypatch.setattr(hints, "notify", lambda channels, payloads: sent.append(list(channels)))
    with transaction():
        for _ in range(5):
            hints.hint(hints.DECIDE, hints.QUEUE)
        assert sent == [], "nothing is sent before the commit"
    assert sent == [[hints.DECIDE, hints.QUEUE]]
