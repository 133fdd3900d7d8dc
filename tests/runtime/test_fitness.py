"""A database that cannot keep the invariants is refused when a loop starts."""

from __future__ import annotations

import pytest
from django.core.management.base import SystemCheckError
from django.db import connections

from orchestrator.runtime.loop import Loop, refuse_unfit_database, run_loops
from orchestrator.runtime.stop import Stop


@pytest.mark.invariant("INV-2")
def test_a_loop_refuses_another_isolation_level(committed: None) -> None:
    connection = connections["default"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        name = cursor.fetchone()[0]
        cursor.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
    connections.close_all()
    try:
        with pytest.raises(SystemCheckError, match="READ COMMITTED"):
            refuse_unfit_database(Stop())
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER DATABASE {name} RESET default_transaction_isolation")
        connections.close_all()
    refuse_unfit_database(Stop())


def test_a_fit_database_lets_loops_run(committed: None) -> None:
    steps: list[int] = []
    run_loops([Loop("once", lambda: steps.append(1) or 0, once=True)])
    assert steps == [1]
