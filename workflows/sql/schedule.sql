-- workflows_schedule, workflows_schedulerun: when to start what, and what came of it. All state is in the row: any number
-- of timekeepers may run. Lock order: level 0, before the keys, gates and runs of the start it makes.

-- name: save
-- lock: SCHEDULE
INSERT INTO workflows_schedule AS s (id, namespace, name, workflow_name, definition, paused, paused_reason, next_at, created_at,
    updated_at, created_by)
VALUES (%(id)s, %(namespace)s, %(name)s, %(workflow_name)s, %(definition)s::jsonb, %(paused)s, NULL, %(next_at)s, now(), now(),
    %(created_by)s)
ON CONFLICT (namespace, name) DO UPDATE
   SET workflow_name = EXCLUDED.workflow_name, definition = EXCLUDED.definition, paused = EXCLUDED.paused,
       paused_reason = NULL, next_at = EXCLUDED.next_at, updated_at = now(), failures = 0, last_error = NULL

-- name: delete
-- lock: SCHEDULE
DELETE FROM workflows_schedule WHERE namespace = %(namespace)s AND name = %(name)s

-- name: set_paused
-- lock: SCHEDULE
-- Resuming counts from now: nobody owes the firings of the pause.
UPDATE workflows_schedule SET paused = %(paused)s, paused_reason = %(reason)s, next_at = %(next_at)s, updated_at = now()
 WHERE namespace = %(namespace)s AND name = %(name)s

-- name: find
SELECT id, namespace, name, workflow_name, definition, paused, paused_reason, next_at, created_at, updated_at, created_by,
       last_workflow_id, failures, last_error
  FROM workflows_schedule
 WHERE namespace = %(namespace)s AND (%(name)s::text IS NULL OR name = %(name)s)
   AND (%(workflow_name)s::text IS NULL OR workflow_name = %(workflow_name)s)
 ORDER BY name

-- name: claim
-- lock: SCHEDULE
-- One due schedule, passing over those another timekeeper fires.
SELECT id, namespace, name, workflow_name, definition, paused, paused_reason, next_at, created_at, updated_at, created_by,
       last_workflow_id, failures, last_error
  FROM workflows_schedule
 WHERE NOT paused AND next_at <= now() AND id <> ALL(%(done)s::uuid[])
 ORDER BY next_at FOR UPDATE SKIP LOCKED LIMIT 1

-- name: advance
-- lock: SCHEDULE
-- In the transaction of the start: a firing is never lost and never made twice. A failed one advances as well (INV-13).
UPDATE workflows_schedule
   SET next_at = %(next_at)s, last_workflow_id = COALESCE(%(workflow_id)s::uuid, last_workflow_id),
       failures = CASE WHEN %(error)s::text IS NULL THEN 0 ELSE failures + 1 END, last_error = %(error)s
 WHERE id = %(id)s

-- name: record
INSERT INTO workflows_schedulerun (id, namespace, schedule_name, workflow_name, workflow_id, scheduled_at, executed_at, state, reason)
VALUES (%(id)s, %(namespace)s, %(schedule_name)s, %(workflow_name)s, %(workflow_id)s, %(scheduled_at)s, now(), %(state)s,
    %(reason)s)

-- name: prune
DELETE FROM workflows_schedulerun WHERE executed_at < now() - make_interval(secs => %(seconds)s)
