-- workflows_timer: deadlines. Lock order: level 9. A timekeeper peeks without a lock, takes the run's gate, and then
-- claims the timer row: the row is the fence, and zero rows means somebody ended it first.

-- name: insert
INSERT INTO workflows_timer (id, namespace, kind, workflow_id, task_id, due_at)
SELECT id, namespace, kind, workflow_id, task_id, due_at
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, namespace text, kind text, workflow_id uuid, task_id uuid,
       due_at timestamptz)

-- name: delete_for_tasks
-- lock: TIMER
DELETE FROM workflows_timer
 WHERE workflow_id = ANY(%(workflow_ids)s::uuid[]) AND task_id = ANY(%(ids)s::uuid[])

-- name: delete_for_runs
-- lock: TIMER
DELETE FROM workflows_timer WHERE workflow_id = ANY(%(workflow_ids)s::uuid[])

-- name: peek_due
SELECT id, kind, workflow_id, task_id, due_at, now() FROM workflows_timer
 WHERE NOT quarantined AND due_at <= now() ORDER BY due_at LIMIT %(batch)s

-- name: claim
-- lock: TIMER
DELETE FROM workflows_timer WHERE id = %(id)s AND NOT quarantined AND due_at <= now() RETURNING id

-- name: record_failure
-- lock: TIMER
-- INV-13: a timer whose firing throws backs off by itself.
UPDATE workflows_timer
   SET attempts = attempts + 1, due_at = now() + make_interval(secs => LEAST(power(2, attempts), 300)),
       last_error = %(error)s, quarantined = attempts + 1 >= %(max_attempts)s
 WHERE id = %(id)s

-- name: release
-- lock: TIMER
UPDATE workflows_timer SET quarantined = false, attempts = 0, due_at = now() WHERE id = %(id)s AND quarantined
