-- workflows_execution: a run. Lock order: level 4, own runs only, by id, after their gates; a parent's row is never
-- locked by a child. The key never changes, so NO KEY UPDATE is enough.

-- name: insert
INSERT INTO workflows_execution (id, namespace, name, version, revision_id, status, priority, correlation_id, idempotency_key,
    input, variables, task_to_domain, parent_workflow_id, parent_task_id, depth, created_by, attributes, created_at, updated_at,
    admitted_at)
SELECT id, namespace, name, version, revision_id, 'RUNNING', priority, correlation_id, idempotency_key, input, variables,
       task_to_domain, parent_workflow_id, parent_task_id, depth, created_by, attributes, now(), now(), CASE WHEN admitted THEN now() END
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, namespace text, name text, version integer, revision_id uuid,
       priority smallint, correlation_id text, idempotency_key text, input jsonb, variables jsonb, task_to_domain jsonb,
       parent_workflow_id uuid, parent_task_id uuid, depth smallint, created_by text, attributes jsonb,
       admitted boolean)

-- name: clock
-- The hosts' clocks may be wrong, and now() is the start of a caller's transaction.
SELECT clock_timestamp()

-- name: lock
-- lock: EXECUTION
-- INV-4: one evaluation or operator action per run. Its own statement (rule S): it reads nothing else that the lock
-- protects. INV-12: in id order.
SELECT id, namespace, name, version, revision_id, status, priority, correlation_id, input, output, variables, task_to_domain,
       parent_workflow_id, parent_task_id, depth, root_ended, reason, created_by, created_at, admitted_at, now()
  FROM workflows_execution
 WHERE id = ANY(%(ids)s::uuid[])
 ORDER BY id FOR NO KEY UPDATE

-- name: progress
-- lock: EXECUTION
UPDATE workflows_execution e
   SET updated_at = now(), root_ended = r.root_ended, variables = COALESCE(r.variables, e.variables)
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, root_ended boolean, variables jsonb)
 WHERE e.id = r.id AND e.id = ANY(%(ids)s::uuid[])

-- name: finish
-- lock: EXECUTION
-- INV-11: the one statement that ends a run; a run that has ended stays ended.
UPDATE workflows_execution e
   SET status = r.status, output = r.output, reason = r.reason, failed_refs = r.failed_refs,
       variables = COALESCE(r.variables, e.variables), failure_workflow_id = r.failure_workflow_id,
       root_ended = r.root_ended, ended_at = now(), updated_at = now()
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, status text, output jsonb, reason text, failed_refs jsonb,
       variables jsonb, failure_workflow_id uuid, root_ended boolean)
 WHERE e.id = r.id AND e.id = ANY(%(ids)s::uuid[])
   AND e.status IN ('RUNNING', 'PAUSED')

-- name: set_status
-- lock: EXECUTION
-- Guarded: the caller names the statuses it may leave.
UPDATE workflows_execution
   SET status = %(status)s, updated_at = now()
 WHERE id = %(id)s AND status = ANY(%(expected)s::text[])

-- name: reopen
-- lock: EXECUTION
-- A retry, rerun or restart brings an ended run back; the caller holds its gate.
UPDATE workflows_execution
   SET status = 'RUNNING', output = NULL, reason = NULL, failed_refs = NULL, ended_at = NULL, root_ended = false,
       failure_workflow_id = NULL, last_retried_at = now(), updated_at = now(), admitted_at = COALESCE(admitted_at, now()),
       revision_id = COALESCE(%(revision_id)s::uuid, revision_id), version = COALESCE(%(version)s::integer, version),
       input = COALESCE(%(input)s::jsonb, input),
       attributes = %(attributes)s::jsonb, variables = COALESCE(%(variables)s::jsonb, variables),
       correlation_id = COALESCE(%(correlation_id)s::text, correlation_id)
 WHERE id = %(id)s AND ended_at IS NOT NULL

-- name: admit
-- lock: EXECUTION
-- A run that waited for its turn; one that ended meanwhile is left out.
UPDATE workflows_execution SET admitted_at = now(), updated_at = now()
 WHERE id = ANY(%(ids)s::uuid[]) AND admitted_at IS NULL AND ended_at IS NULL
RETURNING id

-- name: set_variables
-- lock: EXECUTION
UPDATE workflows_execution SET variables = variables || %(variables)s::jsonb, updated_at = now() WHERE id = %(id)s

-- name: delete
-- lock: EXECUTION
-- Never a run that has not ended, whatever was asked.
DELETE FROM workflows_execution WHERE id = ANY(%(ids)s::uuid[]) AND ended_at IS NOT NULL

-- name: parent_of
-- Immutable, so it may be read before the gate is held: it tells which gates to take.
SELECT namespace, parent_workflow_id, parent_task_id FROM workflows_execution WHERE id = %(id)s

-- name: peek_finished
-- Runs whose time of keeping is over, oldest first by the primary key (ids are times); a child is kept as long as its
-- parent, which may still be retried.
SELECT e.id FROM workflows_execution e
  LEFT JOIN workflows_execution p ON p.id = e.parent_workflow_id
 WHERE e.id < %(floor)s AND (%(ids)s::uuid[] IS NULL OR e.id = ANY(%(ids)s::uuid[]))
   AND e.ended_at < CASE WHEN e.status = 'COMPLETED' THEN %(completed)s::timestamptz ELSE %(failed)s::timestamptz END
   AND (p.id IS NULL OR p.ended_at < LEAST(%(completed)s::timestamptz, %(failed)s::timestamptz))
 ORDER BY e.id LIMIT %(batch)s

-- name: stuck
-- The sweeper's question: RUNNING, admitted, idle, no request for a pass, and either nothing that could ever wake it or
-- an open task with no path to an end. The run's own deadline ends it, but never lets it go on. `explain` says which.
SELECT e.namespace, e.id FROM workflows_execution e
 WHERE e.status = 'RUNNING' AND e.admitted_at IS NOT NULL AND e.updated_at < now() - make_interval(secs => %(idle)s)
   AND NOT EXISTS (SELECT 1 FROM workflows_decidequeue q WHERE q.workflow_id = e.id)
   AND (NOT EXISTS (SELECT 1 FROM workflows_timer m
                     WHERE m.workflow_id = e.id AND NOT m.quarantined AND m.kind <> 'WORKFLOW')
    AND NOT EXISTS (SELECT 1 FROM workflows_task t
                     WHERE t.workflow_id = e.id AND t.ended_at IS NULL AND NOT t.consumed
                       AND t.type NOT IN ('JOIN', 'EXCLUSIVE_JOIN', 'DO_WHILE', 'COMPENSATION'))
     OR EXISTS (SELECT 1 FROM workflows_task t
                 WHERE t.workflow_id = e.id AND t.ended_at IS NULL AND NOT t.consumed
                   AND t.updated_at < now() - make_interval(secs => %(idle)s)
                   AND (t.queue IS NOT NULL AND NOT EXISTS (SELECT 1 FROM dispatch_queuedtask d WHERE d.id = t.id)
                     OR t.type = 'WAIT' AND COALESCE(t.input ->> 'duration', t.input ->> 'until', '') <> ''
                        AND NOT EXISTS (SELECT 1 FROM workflows_timer m WHERE m.workflow_id = e.id AND m.task_id = t.id)
                     OR EXISTS (SELECT 1 FROM workflows_execution c
                                 WHERE c.id = t.sub_workflow_id AND c.ended_at IS NOT NULL))))
 ORDER BY e.id LIMIT %(batch)s
