"""Reads behind the gauges, one verb each."""

from __future__ import annotations

from orchestrator.db import sql

_SQL = sql.load("workflows", "measuring.sql")


class MeasureQueries:
    """Counts and ages over all namespaces; they only read, each by a partial index."""

    def quarantined(self) -> list[tuple[str, int]]:
        """(kind, number) of what was put aside."""
        return [(row[0], row[1]) for row in _SQL.quarantined.rows()]

    def strays(self) -> int:
        """Runs in the DEFAULT partition, counted up to a thousand."""
        row = _SQL.strays.row()
        return int(row[0]) if row else 0

    def oldest(self) -> list[tuple[str, float]]:
        """(kind, seconds) that the oldest of each kind has waited; 0 when none waits."""
        return [(row[0], float(row[1])) for row in _SQL.oldest.rows()]
