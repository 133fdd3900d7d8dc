-- workflows_decidequeue: one row per run that awaits a pass. The row is the run's gate: whoever changes the run's
-- execution row, ends one of its tasks or writes its history holds it first, by enqueue (completers, timers, operators)
-- or by a claim (evaluators). Lock order: level 3; after the one sorted enqueue of a transaction, gates are only
-- claimed with SKIP LOCKED.

-- name: enqueue
-- lock: GATE
-- INV-2: DO UPDATE locks an existing request until we commit, so a claim cannot overtake our uncommitted change.
-- INV-12: the ids come sorted. It touches no indexed column and keeps attempts, back-off and quarantine.
INSERT INTO workflows_decidequeue AS q (workflow_id, enqueued_at, next_attempt_at)
SELECT id, now(), now() FROM unnest(%(ids)s::uuid[]) AS id
ON CONFLICT (workflow_id) DO UPDATE SET bumps = q.bumps + 1

-- name: claim
-- lock: GATE
-- INV-1: the request is taken before any state is read, inside the evaluation's own transaction.
-- MATERIALIZED: exactly `batch` rows by construction; a plan may otherwise run the subselect again.
-- SKIP LOCKED: the request of an uncommitted completion is left for the next round, nothing is lost.
WITH c AS MATERIALIZED (
    SELECT workflow_id FROM workflows_decidequeue
     WHERE reports_to IS NULL AND NOT quarantined AND next_attempt_at <= now()
     ORDER BY enqueued_at FOR UPDATE SKIP LOCKED LIMIT %(batch)s)
DELETE FROM workflows_decidequeue q USING c WHERE q.workflow_id = c.workflow_id
RETURNING q.workflow_id, q.attempts, q.enqueued_at, q.next_attempt_at, now()

-- name: claim_these
-- lock: GATE
-- INV-1, for named runs: never waits; a run somebody else holds is left to them.
WITH c AS MATERIALIZED (
    SELECT workflow_id FROM workflows_decidequeue
     WHERE workflow_id = ANY(%(ids)s::uuid[]) AND NOT quarantined
     ORDER BY workflow_id FOR UPDATE SKIP LOCKED)
DELETE FROM workflows_decidequeue q USING c WHERE q.workflow_id = c.workflow_id
RETURNING q.workflow_id, q.attempts, q.enqueued_at, q.next_attempt_at, now()

-- name: claim_waiting
-- lock: GATE
-- INV-1, blocking, one run, holding nothing else: SKIP LOCKED alone starves a busy run.
DELETE FROM workflows_decidequeue
 WHERE workflow_id = %(id)s AND reports_to IS NULL AND NOT quarantined AND next_attempt_at <= now()
RETURNING workflow_id, attempts, enqueued_at, next_attempt_at, now()

-- name: peek_overdue
SELECT workflow_id FROM workflows_decidequeue
 WHERE reports_to IS NULL AND NOT quarantined AND next_attempt_at <= now()
   AND enqueued_at < now() - make_interval(secs => %(seconds)s)
 ORDER BY enqueued_at LIMIT 1

-- name: put_back
-- lock: GATE
-- A claimed run that must be decided with its parent's gate held: attempts and times are kept (INV-13).
INSERT INTO workflows_decidequeue AS q (workflow_id, attempts, enqueued_at, next_attempt_at, reports_to)
SELECT workflow_id, attempts, enqueued_at, next_attempt_at, reports_to
  FROM jsonb_to_recordset(%(rows)s::jsonb)
       AS r(workflow_id uuid, attempts integer, enqueued_at timestamptz, next_attempt_at timestamptz, reports_to uuid)
 ORDER BY workflow_id
ON CONFLICT (workflow_id) DO UPDATE SET bumps = q.bumps + 1

-- name: peek_reports
SELECT workflow_id, reports_to FROM workflows_decidequeue
 WHERE reports_to IS NOT NULL AND NOT quarantined AND next_attempt_at <= now()
 ORDER BY enqueued_at LIMIT %(batch)s

-- name: record_failure
-- lock: GATE
-- INV-13: a run whose pass throws backs off by itself and is quarantined. Zero rows is fine.
UPDATE workflows_decidequeue
   SET attempts = attempts + 1,
       next_attempt_at = now() + make_interval(secs => LEAST(power(2, attempts), 300)),
       last_error = %(error)s,
       quarantined = attempts + 1 >= %(max_attempts)s
 WHERE workflow_id = %(id)s

-- name: release
-- lock: GATE
UPDATE workflows_decidequeue
   SET attempts = 0, next_attempt_at = now(), quarantined = false, bumps = bumps + 1
 WHERE workflow_id = %(id)s

-- name: discard
-- lock: GATE
DELETE FROM workflows_decidequeue WHERE workflow_id = ANY(%(ids)s::uuid[])
