"""Wake-up hints, sent after the commit: at most one per channel and payload for each transaction.

NOTIFY inside a hot transaction serialises commits, so it is sent by itself afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from orchestrator.db import sql
from orchestrator.db.transactions import after_commit

_SQL = sql.load("orchestrator", "hints.sql")

DECIDE = "ostinato_decide"
QUEUE = "ostinato_queue"
OUTBOX = "ostinato_outbox"
TIMER = "ostinato_timer"
HISTORY = "ostinato_history"


def hint(*channels: str, history: Iterable[UUID] = ()) -> None:
    """Wake the listeners of `channels`, and the readers of these runs' history, after the commit."""
    payloads = [(channel, "") for channel in dict.fromkeys(channels)]
    payloads += [(HISTORY, str(workflow_id)) for workflow_id in dict.fromkeys(history)]
    if payloads:
        after_commit(lambda: notify(payloads))


def notify(payloads: list[tuple[str, str]]) -> None:
    """Send (channel, payload) notifications now."""
    with sql.batch():
        for channel, payload in payloads:
            _SQL.notify.send(channel=channel, payload=payload)
