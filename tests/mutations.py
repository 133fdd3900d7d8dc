"""Mutations of the invariants: an edit that breaks the rule, and the test that must fail because of it.

`python -m tests.mutations` (`make mutants`) applies each to a copy of the tree and runs its test there.
An invariant whose test was never seen to fail is not held.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutation:
    """`find` stands exactly once in `file`; `test` is a pytest node id."""

    invariant: str
    file: str
    find: str
    replace: str
    test: str


QUEUE = "workflows/sql/decide_queue.sql"
GATE = "tests/races/test_decide_queue.py::"
TRANSITIONS = "tests/races/test_transitions.py::"
MATRIX = "tests/db/test_terminal_matrix.py::test_every_end_of_a_run_deals_with_everything"
RETENTION = "tests/db/test_retention.py::"
SAGA = "tests/db/test_compensation.py::"
EVENTS = "tests/db/test_events.py::"
LIMITS = "tests/races/test_limits.py::"
TURNS = "tests/races/test_turns.py::"
ADMISSION = "tests/races/test_admission.py::"
PEOPLE = "workflows/sql/human_task.sql"
MUTATIONS = [
    Mutation(
        "INV-9", PEOPLE,
        "     OR claimed_by IS NULL\n    AND (", "     OR (",
        "tests/races/test_human_tasks.py::test_two_who_claim_a_task_at_once_get_one_winner_and_one_conflict",
    ),
    Mutation(
        "INV-9", "workflows/services/human_tasks.py",
        "        first=lambda: _claim(namespace, task, who),\n", "",
        "tests/races/test_human_tasks.py::test_an_answer_waits_for_the_claim_of_another_and_is_refused",
    ),
    Mutation(
        "INV-11", "workflows/transitions.py",
        "        _empty_inbox(ended)\n", "",
        "tests/db/test_human_tasks.py::test_a_task_is_in_the_inbox_from_its_start_to_its_end",
    ),
    Mutation(
        "INV-11", "workflows/transitions.py",
        "    _empty_inbox(cancelled)\n", "",
        MATRIX,
    ),
    Mutation(
        "INV-2", QUEUE,
        "ON CONFLICT (workflow_id) DO UPDATE SET bumps = q.bumps + 1\n\n-- name: claim\n",
        "ON CONFLICT (workflow_id) DO NOTHING\n\n-- name: claim\n",
        GATE + "test_a_claim_returns_only_after_the_completion_that_enqueued_has_committed",
    ),
    Mutation(
        "INV-12", "workflows/managers/decide_queue.py",
        "_SQL.enqueue.send(ids=sorted(set(ids)))", "_SQL.enqueue.send(ids=list(ids))",
        GATE + "test_enqueues_of_the_same_runs_in_opposite_orders_do_not_deadlock",
    ),
    Mutation(
        "INV-13", QUEUE,
        "SET attempts = attempts + 1,", "SET attempts = attempts,",
        GATE + "test_a_failing_run_backs_off_alone_and_is_quarantined",
    ),
    Mutation(
        "INV-13", QUEUE,
        "SELECT workflow_id, attempts, enqueued_at, next_attempt_at, reports_to\n  FROM jsonb",
        "SELECT workflow_id, 0, enqueued_at, next_attempt_at, reports_to\n  FROM jsonb",
        GATE + "test_a_request_that_is_put_back_keeps_its_attempts_and_times",
    ),
    Mutation(
        "INV-2", QUEUE,
        "ON CONFLICT (workflow_id) DO UPDATE SET bumps = q.bumps + 1\n\n-- name: claim\n",
        "ON CONFLICT (workflow_id) DO NOTHING\n\n-- name: claim\n",
        "tests/races/test_lost_wakeup.py::test_grouped_fan_out_strands_no_run",
    ),
    Mutation(
        "INV-1", "workflows/services/evaluation.py",
        "            return PassResult(0)\n        runs =", "            return PassResult(0)\n    with transaction():\n        runs =",
        "tests/races/test_lost_wakeup.py::test_a_pass_that_rolls_back_consumes_nothing",
    ),
    Mutation(
        "INV-3", "workflows/services/evaluation.py",
        "        if again:\n            DecideQueue", "        if False:\n            DecideQueue",
        "tests/races/test_lost_wakeup.py::test_an_absorbed_insert_asks_for_one_more_pass",
    ),
    Mutation(
        "INV-4", "workflows/sql/execution.sql",
        " ORDER BY id FOR NO KEY UPDATE", " ORDER BY id",
        TRANSITIONS + "test_a_run_is_locked_by_one_transaction_at_a_time",
    ),
    Mutation(
        "INV-5", "outbox/services/relay.py",
        "    if handler is None:\n        return f", "    if handler is None:\n        return None\n        return f",
        TRANSITIONS + "test_an_event_without_a_handler_is_kept_backs_off_and_can_be_replayed",
    ),
    Mutation(
        "INV-6a", "workflows/transitions.py",
        "    return {task[0] for task in absorbed}", "    return set()",
        "tests/races/test_lost_wakeup.py::test_an_absorbed_insert_asks_for_one_more_pass",
    ),
    Mutation(
        "INV-6b", "workflows/sql/idempotency.sql",
        "ON CONFLICT (namespace, scope, key) DO NOTHING RETURNING", "RETURNING",
        "tests/races/test_starting.py::test_twenty_starts_with_one_key_make_one_run",
    ),
    Mutation(
        "INV-6b", "workflows/services/scheduling.py",
        "idempotency_key=firing_key(schedule, scheduled_at)", "idempotency_key=str(workflow_id)",
        "tests/db/test_schedules.py::test_backfills_that_race_each_other_and_the_timekeepers_start_each_moment_once",
    ),
    Mutation(
        "INV-6c", "workflows/handlers.py",
        '"child", children.key(payload), parent=True', '"child", None, parent=True',
        TRANSITIONS + "test_a_cascade_that_overtakes_the_childs_start_leaves_no_orphan",
    ),
    Mutation(
        "INV-6d", "workflows/transitions.py",
        "        for _, namespace, _, task in made\n        for effect", "        for _, namespace, _, task in tasks\n        for effect",
        TRANSITIONS + "test_an_absorbed_task_publishes_nothing",
    ),
    Mutation(
        "INV-7a", "dispatch/sql/task_queue.sql",
        "        ON q.id = u.id AND q.lease_token = u.token ORDER BY q.id FOR UPDATE OF q)\nDELETE",
        "        ON q.id = u.id ORDER BY q.id FOR UPDATE OF q)\nDELETE",
        TRANSITIONS + "test_only_the_holder_of_the_lease_may_write",
    ),
    Mutation(
        "INV-7a", "dispatch/sql/task_queue.sql",
        "       AND (q.respond_by IS NULL OR q.respond_by > now())\n", "",
        "tests/races/test_leases.py::test_an_attempt_that_is_overdue_is_ended_and_handed_to_nobody",
    ),
    Mutation(
        "INV-7b", "workflows/sql/task.sql",
        "   AND t.ended_at IS NULL\nRETURNING t.id, t.workflow_id, t.ref, t.iteration, t.attempt, t.type, t.status, t.sub_workflow_id, t.namespace, t.listeners\n\n-- name: restate",
        "RETURNING t.id, t.workflow_id, t.ref, t.iteration, t.attempt, t.type, t.status, t.sub_workflow_id, t.namespace, t.listeners\n\n-- name: restate",
        TRANSITIONS + "test_a_finished_task_stays_finished",
    ),
    Mutation(
        "INV-6d", "outbox/services/events.py",
        'if row.id in new and row.status == "SCHEDULED"', 'if row.status == "SCHEDULED"',
        EVENTS + "test_two_relays_that_dispatch_one_message_hand_its_actions_on_once",
    ),
    Mutation(
        "INV-6d", "outbox/sql/event_execution.sql",
        " WHERE id = %(id)s AND status = 'SCHEDULED' RETURNING id", " WHERE id = %(id)s RETURNING id",
        EVENTS + "test_one_delivery_that_is_acted_on_by_many_at_once_ends_one_turn_of_a_loop",
    ),
    Mutation(
        "INV-6d", "outbox/sql/webhook_delivery.sql", " AND matched_at IS NULL RETURNING id", " RETURNING id",
        "tests/db/test_webhooks.py::test_a_delivery_told_of_again_ends_no_other_attempt",
    ),
    Mutation(
        "INV-7c", "dispatch/services/leasing.py",
        "            Permit.sql.release(task for task, _, _ in taken)\n", "",
        LIMITS + "test_the_permit_of_a_crashed_worker_is_given_back_with_its_lease",
    ),
    Mutation(
        "INV-7c", "workflows/transitions.py",
        "        Permit.sql.release(task.id for task in ended)\n", "",
        LIMITS + "test_the_end_of_a_task_waits_for_its_lease_and_leaves_no_permit[task]",
    ),
    Mutation(
        "INV-7c", "workflows/transitions.py",
        "    Permit.sql.release_for_runs(ids)\n", "",
        LIMITS + "test_the_end_of_a_task_waits_for_its_lease_and_leaves_no_permit[run]",
    ),
    Mutation(
        "INV-7c", "dispatch/services/limiting.py",
        "    total = Semaphore.sql.lock(wanted)\n    taken = Permit.sql.taken(wanted, excluding=[one.id for one in own])\n",
        "    taken = Permit.sql.taken(wanted, excluding=[one.id for one in own])\n    total = Semaphore.sql.lock(wanted)\n",
        LIMITS + "test_permits_are_counted_after_the_semaphore_was_waited_for",
    ),
    Mutation(
        "INV-9", "dispatch/services/limiting.py",
        "    if counted:\n        take_advisory(", "    if not counted:\n        take_advisory(",
        LIMITS + "test_what_is_in_flight_is_counted_after_the_lock_was_waited_for",
    ),
    Mutation(
        "INV-9", "workflows/services/admission.py",
        "    if applicant.owned:\n        _take(namespace, name, key, counted)\n", "",
        ADMISSION + "test_twelve_starts_against_a_quota_of_three",
    ),
    Mutation(
        "INV-8", "workflows/services/applying.py",
        "    if consumed:\n", "    if not consumed:\n",
        "tests/races/test_lost_wakeup.py::test_a_pass_that_rolls_back_consumes_nothing",
    ),
    Mutation(
        "INV-9", "dispatch/services/dispatching.py",
        "            DecideQueue.sql.enqueue(runs)\n", "            pass\n",
        TRANSITIONS + "test_eight_completers_of_one_run_write_a_gapless_history",
    ),
    Mutation(
        "INV-10", "workflows/engine/proof.py",
        "if not pass_.root_ended or pass_.again or pass_.book.any_open():", "if pass_.again or pass_.book.any_open():",
        "tests/engine/test_operators.py::test_a_lost_branch_is_reported_stuck_and_never_completed",
    ),
    Mutation(
        "INV-11", "workflows/transitions.py",
        "    QueuedTask.sql.delete_for_runs(ids)\n", "",
        TRANSITIONS + "test_the_end_of_a_run_leaves_nothing_of_it_alive",
    ),
    Mutation(
        "INV-9", "workflows/partitions.py",
        "    if is_needed(cursor, suffix, completed, failed):\n", "    if False:\n",
        RETENTION + "test_a_late_start_of_an_old_id_is_waited_for_or_puts_the_emptying_off",
    ),
    Mutation(
        "INV-9", "workflows/services/retention.py",
        "erase(_peek(until, _BATCH, found))", "erase(found)",
        RETENTION + "test_a_run_that_was_retried_since_it_was_looked_at_is_kept",
    ),
    Mutation(
        "INV-11", "workflows/transitions.py",
        "    Timer.sql.delete_for_runs(ids)\n", "",
        MATRIX,
    ),
    Mutation(
        "INV-11", "workflows/transitions.py",
        "    _report_to_parents(ending)\n", "",
        MATRIX,
    ),
    Mutation(
        "INV-11", "workflows/transitions.py",
        "[*failures, *told]", "failures",
        MATRIX,
    ),
    Mutation(
        "INV-5", "workflows/transitions.py",
        "    _publish([event for task in ended if task.listeners for event in told(task, reasons[task.id])])\n", "",
        "tests/db/test_state_changes.py::test_every_end_of_a_task_tells",
    ),
    Mutation(
        "INV-11", "workflows/transitions.py",
        "task in cancelled if task.sub_workflow_id), *effects]", "task in ()), *effects]",
        MATRIX,
    ),
    Mutation(
        "INV-11", "workflows/transitions.py",
        "for run, end in ends if run.id not in busy]", "for run, end in ends]",
        SAGA + "test_a_second_cause_leaves_the_undoing_alone",
    ),
    Mutation(
        "INV-11", "workflows/engine/decider.py",
        "failed_refs, failure, undoable)", "failed_refs, failure, None)",
        "tests/engine/test_compensation.py::test_every_failure_undoes_and_not_only_that_of_a_worker",
    ),
    Mutation(
        "INV-11", "workflows/sql/task.sql",
        " ORDER BY t.ended_at DESC, t.id DESC LIMIT 1", " ORDER BY t.ended_at, t.id LIMIT 1",
        SAGA + "test_a_failed_run_undoes_its_tasks_and_leaves_nothing_alive",
    ),
    Mutation(
        "INV-9", "workflows/sql/admission.sql",
        "     ORDER BY id FOR NO KEY UPDATE)", "     ORDER BY id)",
        ADMISSION + "test_a_new_quota_does_not_count_a_run_that_is_just_ending",
    ),
    Mutation(
        "INV-9", "workflows/services/admission.py",
        "    take_advisory(keys)\n", "",
        ADMISSION + "test_a_start_counts_after_it_waited_for_the_quotas_lock",
    ),
    Mutation(
        "INV-8", "workflows/services/applying.py",
        "        QueuedTask.sql.let_through(list(caps.items()))\n", "",
        ADMISSION + "test_a_run_hands_out_no_more_tasks_than_it_may_and_drops_none",
    ),
    Mutation(
        "INV-7c", "dispatch/services/dispatching.py",
        "        Permit.sql.release(lease[1] for lease in leases)\n", "",
        LIMITS + "test_a_deferred_task_is_not_refused_by_itself",
    ),
    Mutation(
        "INV-7c", "dispatch/services/leasing.py",
        "            QueuedTask.sql.give_back(refused)\n", "",
        TURNS + "test_a_task_that_is_refused_one_permit_holds_no_other_and_goes_straight_back",
    ),
    Mutation(
        "INV-7c", "dispatch/services/limiting.py",
        "fits = all(", "fits = any(",
        TURNS + "test_a_task_that_is_refused_one_permit_holds_no_other_and_goes_straight_back",
    ),
    Mutation(
        "INV-13", "dispatch/services/leasing.py",
        "leases = QueuedTask.sql.lease_lanes(", "leases = [] and QueuedTask.sql.lease_lanes(",
        TURNS + "test_a_tenants_backlog_does_not_crowd_others_out",
    ),
    Mutation(
        "INV-9", "workflows/services/admission.py",
        "free = free and not waiting and", "free = free and",
        ADMISSION + "test_a_newcomer_does_not_overtake_those_who_wait",
    ),
    Mutation(
        "INV-9", "workflows/services/definitions.py",
        "known = Semaphore.sql.lock(", "known = Semaphore.sql.free(",
        TURNS + "test_a_semaphore_is_not_removed_under_a_definition_that_is_being_registered",
    ),
]  # fmt: skip


def copy_tree(target: Path) -> None:
    """A copy of what git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def survives(mutation: Mutation) -> str | None:
    """None when the test failed under the mutation; else what went wrong."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        path = tree / mutation.file
        text = path.read_text()
        if text.count(mutation.find) != 1:
            return f"the text to replace stands {text.count(mutation.find)} times"
        path.write_text(text.replace(mutation.find, mutation.replace))
        try:
            run = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutation.test],
                cwd=tree, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(tree)},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None  # it hangs, which no test of the whole suite would survive either
        if run.returncode == 0:
            return "the test passed"
        if run.returncode != 1 or " failed" not in run.stdout:
            return f"the test did not run: {run.stdout[-800:]}{run.stderr[-400:]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="an invariant id, or part of a test's name")
    only = parser.parse_args().only
    chosen = [m for m in MUTATIONS if not only or only == m.invariant or only in m.test]
    survived = 0
    for mutation in chosen:
        problem = survives(mutation)
        survived += problem is not None
        print(f"{'SURVIVED' if problem else 'killed  '} {mutation.invariant:7} {mutation.file}: {mutation.test}", flush=True)
        if problem:
            print(f"         {problem}", flush=True)
    print(f"{len(chosen) - survived} killed, {survived} survived")
    return 1 if survived or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
