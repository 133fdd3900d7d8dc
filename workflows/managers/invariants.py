"""Checks of the invariants, one verb each; they only read."""

from __future__ import annotations

from typing import Any

from orchestrator.db import sql

_SQL = sql.load("workflows", "invariants.sql")
CHECKS = tuple(_SQL.statements)
Findings = list[dict[str, Any]]


def _named(cursor: sql.HotCursor) -> Findings:
    names = [column.name for column in cursor.description or ()]
    return [{name: str(value) for name, value in zip(names, row, strict=True)} for row in cursor.fetchall()]


class InvariantQueries:
    """Rows that break an invariant, at most 100 of each kind."""

    def two_live_attempts(self) -> Findings:
        """Two open attempts of one ref and iteration."""
        return _named(_SQL.two_live_attempts.send())

    def queue_row_without_open_task(self) -> Findings:
        """Queue rows whose task has ended or is gone."""
        return _named(_SQL.queue_row_without_open_task.send())

    def queued_task_without_queue_row(self) -> Findings:
        """Open worker tasks that are on no queue."""
        return _named(_SQL.queued_task_without_queue_row.send())

    def lease_mismatch(self) -> Findings:
        """Queue and task rows that disagree on the holder."""
        return _named(_SQL.lease_mismatch.send())

    def permit_without_lease(self) -> Findings:
        """Permits that no lease holds."""
        return _named(_SQL.permit_without_lease.send())

    def held_without_reason(self) -> Findings:
        """Tasks that wait for others of their run, of which there is none."""
        return _named(_SQL.held_without_reason.send())

    def place_of_ended(self) -> Findings:
        """Places under a limit that no run has, or that its run knows nothing of."""
        return _named(_SQL.place_of_ended.send())

    def unconsumed_without_request(self) -> Findings:
        """Completions that nobody will look at."""
        return _named(_SQL.unconsumed_without_request.send())

    def open_task_of_ended_run(self) -> Findings:
        """Open tasks of runs that have ended."""
        return _named(_SQL.open_task_of_ended_run.send())

    def timer_of_ended(self) -> Findings:
        """Deadlines of tasks or runs that have ended."""
        return _named(_SQL.timer_of_ended.send())

    def inbox_of_ended(self) -> Findings:
        """Inbox rows whose task has ended or is gone."""
        return _named(_SQL.inbox_of_ended.send())

    def human_without_inbox(self) -> Findings:
        """Open HUMAN tasks that no inbox shows."""
        return _named(_SQL.human_without_inbox.send())

    def history_gap(self) -> Findings:
        """Runs whose history has a gap."""
        return _named(_SQL.history_gap.send())

    def child_not_reported(self) -> Findings:
        """Ended children whose parent's task is still open."""
        return _named(_SQL.child_not_reported.send())

    def stray_partition_row(self) -> Findings:
        """Runs in the DEFAULT partition."""
        return _named(_SQL.stray_partition_row.send())

    def quarantined(self) -> Findings:
        """Runs and timers that were put aside."""
        return _named(_SQL.quarantined.send())

    def dead_letter(self) -> Findings:
        """Effects that could not be delivered."""
        return _named(_SQL.dead_letter.send())
