"""Removal of objects of the payload store that no row names: of runs that are gone, and of writers that never committed.

An object is written before its row commits, so a young one is left alone; and whoever writes one that is there already
holds it until the end of the transaction, so that it is either seen here as named or held, or as new.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog

from orchestrator import stores
from orchestrator.db.transactions import transaction
from orchestrator.stores import Store
from workflows.models import Offloaded
from workflows.services.retention import RETIRED

log = structlog.get_logger(__name__)
GRACE = timedelta(hours=1)
_PAGE = 500
_reached: dict[str, str] = {}
"""Store -> the object that this process looked at last; a walk goes on there."""


def collect(now: datetime | None = None) -> int:
    """Look at a page of each store's objects, and remove those to go; 0 when the walks are through."""
    before = (now or datetime.now(UTC)) - GRACE
    return sum(_collect_page(name, before) for name in stores.KINDS if stores.is_set(name))


def _collect_page(name: str, before: datetime) -> int:
    store = stores.find(name)
    page = store.page(_reached.pop(name, ""), _PAGE)
    old = [key for key, modified in page if modified < before]
    removed = [key for key in (Offloaded.sql.unnamed(old) if old else []) if _remove(store, key, before)]
    if removed:
        RETIRED.labels("payload").inc(len(removed))
        log.info("payloads_removed", store=name, count=len(removed))
    if len(page) < _PAGE:
        return 0
    _reached[name] = page[-1][0]
    return len(page)


def _remove(store: Store, key: str, before: datetime) -> bool:
    """Look again under the object's lock, each time in a statement of its own (rule S); then nobody can begin to name it."""
    with transaction():
        if not Offloaded.sql.try_take(key) or not Offloaded.sql.unnamed([key]):
            return False
        modified = store.modified(key)
        if modified is None or modified >= before:
            return False
        store.remove(key)
    return True
