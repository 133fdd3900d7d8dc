-- workflows_task: attempts of tasks. Lock order: level 6, after queue rows. Every statement carries the run's id, so that
-- it prunes partitions.

-- name: insert
-- INV-6a: identity is (run, ref, iteration path, attempt); an absorbed insert returns no id and earns one more pass.
INSERT INTO workflows_task (id, workflow_id, namespace, ref, iteration, attempt, name, type, status, consumed, queue, domain,
    priority, input, output, state, spec, listeners, reason, cause, response_seconds, timeout_seconds, retried_task_id,
    sub_workflow_id, first_scheduled_at, scheduled_at, started_at, updated_at, ended_at)
SELECT id, workflow_id, namespace, ref, iteration, attempt, name, type, status, consumed, queue, domain, priority, input, output,
       state, spec, listeners, reason, cause, response_seconds, timeout_seconds, retried_task_id, sub_workflow_id,
       COALESCE(first_scheduled_at, now()), now(), CASE WHEN status <> 'SCHEDULED' THEN now() END, now(),
       CASE WHEN ended THEN now() END
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, workflow_id uuid, namespace text, ref text, iteration text,
       attempt integer, name text, type text, status text, consumed boolean, queue text, domain text, priority smallint,
       input jsonb, output jsonb, state jsonb, spec jsonb, listeners jsonb, reason text, cause text, response_seconds integer,
       timeout_seconds integer, retried_task_id uuid, sub_workflow_id uuid, first_scheduled_at timestamptz, ended boolean)
ON CONFLICT (workflow_id, ref, iteration, attempt) DO NOTHING
RETURNING id

-- name: read_frontier
-- Open tasks and ended ones that no pass has consumed (INV-8): never the whole run. Payloads of queued tasks that are
-- still open are of no use to a pass and stay where they are.
SELECT workflow_id, id, ref, iteration, attempt, name, type, status, consumed,
       CASE WHEN queue IS NULL OR ended_at IS NOT NULL THEN input END,
       CASE WHEN queue IS NULL OR ended_at IS NOT NULL THEN output END, state, spec, reason, cause, sub_workflow_id, worker_id,
       domain, poll_count, first_scheduled_at, scheduled_at, started_at, ended_at
  FROM workflows_task WHERE workflow_id = ANY(%(ids)s::uuid[]) AND NOT consumed

-- name: read_refs
-- The newest row of each named ref: latest iteration, finished attempts before pending ones, latest attempt.
SELECT t.workflow_id, t.id, t.ref, t.iteration, t.attempt, t.name, t.type, t.status, t.consumed, t.input, t.output, t.state,
       t.spec, t.reason, t.cause, t.sub_workflow_id, t.worker_id, t.domain, t.poll_count, t.first_scheduled_at,
       t.scheduled_at, t.started_at, t.ended_at
  FROM unnest(%(ids)s::uuid[], %(refs)s::text[]) AS u(workflow_id, ref)
 CROSS JOIN LATERAL (
    SELECT * FROM workflows_task t
     WHERE t.workflow_id = u.workflow_id AND t.ref = u.ref
     ORDER BY string_to_array(t.iteration, '.')::integer[] DESC, (t.ended_at IS NOT NULL) DESC, t.attempt DESC
     LIMIT 1) t

-- name: read_original
-- The completed task to undo next: the one that finished before `after`, or last of all. One made at run time carries
-- its definition.
SELECT t.workflow_id, t.id, t.ref, t.iteration, t.attempt, t.name, t.type, t.status, t.consumed, t.input, t.output, t.state,
       t.spec, t.reason, t.cause, t.sub_workflow_id, t.worker_id, t.domain, t.poll_count, t.first_scheduled_at,
       t.scheduled_at, t.started_at, t.ended_at
  FROM workflows_task t
 WHERE t.workflow_id = %(workflow_id)s AND t.status = 'COMPLETED'
   AND (t.ref = ANY(%(refs)s::text[]) OR jsonb_typeof(t.spec -> 'compensateWith') = 'object')
   AND (%(after)s::uuid IS NULL OR (t.ended_at, t.id) < (
        SELECT o.ended_at, o.id FROM workflows_task o WHERE o.workflow_id = %(workflow_id)s AND o.id = %(after)s))
 ORDER BY t.ended_at DESC, t.id DESC LIMIT 1

-- name: read_turn
-- The newest attempts of refs in one turn of a loop and in the turns around it.
SELECT DISTINCT ON (t.ref, t.iteration)
       t.workflow_id, t.id, t.ref, t.iteration, t.attempt, t.name, t.type, t.status, t.consumed, t.input, t.output, t.state,
       t.spec, t.reason, t.cause, t.sub_workflow_id, t.worker_id, t.domain, t.poll_count, t.first_scheduled_at,
       t.scheduled_at, t.started_at, t.ended_at
  FROM workflows_task t
 WHERE t.workflow_id = %(workflow_id)s AND t.ref = ANY(%(refs)s::text[]) AND t.iteration = ANY(%(turns)s::text[])
   AND t.ended_at IS NOT NULL
 ORDER BY t.ref, t.iteration, t.attempt DESC

-- name: undoing
-- Runs that undo their tasks.
SELECT workflow_id FROM workflows_task
 WHERE workflow_id = ANY(%(ids)s::uuid[]) AND ended_at IS NULL AND NOT consumed AND type = 'COMPENSATION'

-- name: has_any
-- INV-8: "not started" is its own fact, not the absence of unconsumed rows.
-- The outer id is qualified: a bare one would be the task's own.
SELECT u.id FROM unnest(%(ids)s::uuid[]) AS u(id) WHERE EXISTS (SELECT 1 FROM workflows_task t WHERE t.workflow_id = u.id)

-- name: lock
-- lock: TASK
-- Where rows of several runs meet (parents' tasks), they are locked in order before they are written (INV-12).
SELECT id FROM workflows_task
 WHERE workflow_id = ANY(%(workflow_ids)s::uuid[]) AND id = ANY(%(ids)s::uuid[])
 ORDER BY workflow_id, id FOR NO KEY UPDATE

-- name: end
-- lock: TASK
-- INV-7b, INV-11: the one statement that ends tasks; a task that has ended stays ended. A failure has a reason, so that
-- an index on reasons finds failures and no other end touches it.
UPDATE workflows_task t
   SET status = r.status, output = COALESCE(r.output, t.output), cause = r.cause,
       reason = COALESCE(r.reason, CASE WHEN r.status IN ('FAILED', 'FAILED_WITH_TERMINAL_ERROR', 'TIMED_OUT')
                                        THEN 'no reason was given' END),
       consumed = r.consumed, worker_id = COALESCE(r.worker_id, t.worker_id), state = COALESCE(r.state, t.state),
       lease_token = NULL, started_at = COALESCE(t.started_at, now()), ended_at = now(), updated_at = now()
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, workflow_id uuid, status text, output jsonb, reason text, cause text,
       consumed boolean, worker_id text, state jsonb)
 WHERE t.workflow_id = r.workflow_id AND t.id = r.id AND t.workflow_id = ANY(%(workflow_ids)s::uuid[])
   AND t.ended_at IS NULL
RETURNING t.id, t.workflow_id, t.ref, t.iteration, t.attempt, t.type, t.status, t.sub_workflow_id, t.namespace, t.listeners

-- name: restate
-- lock: TASK
-- An optional failure becomes COMPLETED_WITH_ERRORS, and a result that violates its schema FAILED, in the pass that
-- consumes it; only an evaluation does this. `o` is the row as it was, which the run's gate keeps still: a failure has told
-- its listeners, a result that counted as completed has not.
UPDATE workflows_task t
   SET status = r.status, reason = COALESCE(r.reason, t.reason), consumed = true, updated_at = now()
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, workflow_id uuid, status text, reason text)
  JOIN workflows_task o ON o.workflow_id = r.workflow_id AND o.id = r.id AND o.workflow_id = ANY(%(workflow_ids)s::uuid[])
 WHERE t.workflow_id = r.workflow_id AND t.id = r.id AND t.workflow_id = ANY(%(workflow_ids)s::uuid[])
RETURNING t.id, t.workflow_id, t.ref, t.iteration, t.attempt, t.type, t.status, t.sub_workflow_id, t.namespace,
       CASE WHEN o.status = 'COMPLETED' THEN t.listeners END

-- name: update_open
-- lock: TASK
-- Bookkeeping of an open operator (a join's count, a loop's turn).
UPDATE workflows_task t
   SET state = COALESCE(r.state, t.state), output = COALESCE(r.output, t.output), updated_at = now()
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, workflow_id uuid, state jsonb, output jsonb)
 WHERE t.workflow_id = r.workflow_id AND t.id = r.id AND t.workflow_id = ANY(%(workflow_ids)s::uuid[])
   AND t.ended_at IS NULL

-- name: consume
-- lock: TASK
-- INV-8: exactly the rows this pass consumed; a rollback un-marks them.
UPDATE workflows_task t SET consumed = true
  FROM unnest(%(workflow_ids)s::uuid[], %(ids)s::uuid[]) AS u(workflow_id, id)
 WHERE t.workflow_id = u.workflow_id AND t.id = u.id AND t.workflow_id = ANY(%(workflow_ids)s::uuid[])

-- name: cancel_open
-- lock: TASK
-- INV-11: the end of a run ends every open task of it.
UPDATE workflows_task
   SET status = 'CANCELED', reason = COALESCE(reason, %(reason)s), consumed = true, lease_token = NULL, ended_at = now(),
       updated_at = now()
 WHERE workflow_id = ANY(%(workflow_ids)s::uuid[]) AND ended_at IS NULL AND NOT consumed
RETURNING id, workflow_id, ref, iteration, attempt, type, status, sub_workflow_id, namespace, listeners

-- name: start
-- lock: TASK
-- INV-7a: the task's start is part of its lease. A task that is not SCHEDULED cannot be handed out.
UPDATE workflows_task t
   SET status = 'IN_PROGRESS', worker_id = %(worker_id)s, lease_token = u.token, started_at = COALESCE(t.started_at, now()),
       poll_count = t.poll_count + 1, updated_at = now()
  FROM unnest(%(workflow_ids)s::uuid[], %(ids)s::uuid[], %(tokens)s::uuid[]) AS u(workflow_id, id, token)
 WHERE t.workflow_id = u.workflow_id AND t.id = u.id AND t.workflow_id = ANY(%(workflow_ids)s::uuid[])
   AND t.status = 'SCHEDULED'
RETURNING t.id, t.workflow_id, t.lease_token, t.ref, t.iteration, t.attempt, t.name, t.type, t.input, t.output, t.spec,
       t.listeners, t.domain, t.priority, t.poll_count, t.response_seconds, t.timeout_seconds, t.retried_task_id, t.first_scheduled_at,
       t.scheduled_at, t.started_at, t.updated_at

-- name: unstart
-- INV-7c: as if it had not been handed out. It takes no lock: this transaction started the row.
UPDATE workflows_task
   SET status = 'SCHEDULED', lease_token = NULL, worker_id = NULL, poll_count = poll_count - 1,
       started_at = CASE WHEN poll_count > 1 THEN started_at END
 WHERE workflow_id = ANY(%(workflow_ids)s::uuid[]) AND id = ANY(%(ids)s::uuid[]) AND status = 'IN_PROGRESS'

-- name: reset
-- lock: TASK
-- INV-7a: back to SCHEDULED (release, defer, reclaim), only while the named lease still holds it.
UPDATE workflows_task t
   SET status = 'SCHEDULED', lease_token = NULL, updated_at = now(), output = COALESCE(u.output::jsonb, t.output),
       callback_seconds = u.callback
  FROM unnest(%(workflow_ids)s::uuid[], %(ids)s::uuid[], %(tokens)s::uuid[], %(outputs)s::text[], %(callbacks)s::integer[])
       AS u(workflow_id, id, token, output, callback)
 WHERE t.workflow_id = u.workflow_id AND t.id = u.id AND t.workflow_id = ANY(%(workflow_ids)s::uuid[])
   AND t.lease_token = u.token AND t.status = 'IN_PROGRESS'
RETURNING t.id

-- name: park
-- lock: TASK
-- The holder's work is done and the task is not: it waits for its end from outside, as an operator's task does that never
-- had a queue. The queue row is gone (the fence), so no lease holds it; the response time begins anew.
UPDATE workflows_task t
   SET queue = NULL, lease_token = NULL, output = COALESCE(u.output::jsonb, t.output), updated_at = now()
  FROM unnest(%(workflow_ids)s::uuid[], %(ids)s::uuid[], %(outputs)s::text[]) AS u(workflow_id, id, output)
 WHERE t.workflow_id = u.workflow_id AND t.id = u.id AND t.workflow_id = ANY(%(workflow_ids)s::uuid[])
   AND t.ended_at IS NULL
RETURNING t.id, now() + make_interval(secs => NULLIF(t.response_seconds, 0))

-- name: touch
-- lock: TASK
-- A heartbeat shows on the task; nothing else of it changes.
UPDATE workflows_task SET updated_at = now()
 WHERE workflow_id = ANY(%(workflow_ids)s::uuid[]) AND id = ANY(%(ids)s::uuid[]) AND ended_at IS NULL

-- name: find
-- Tasks known by their ids alone, and whether there are secrets that their results could carry.
SELECT id, workflow_id, namespace, status, ref, type, queue, lease_token, worker_id, sub_workflow_id,
       EXISTS (SELECT 1 FROM orchestrator_secret s WHERE s.namespace = t.namespace)
  FROM workflows_task t WHERE id = ANY(%(ids)s::uuid[])

-- name: find_open
-- Open tasks of a run by ref, newest iteration and attempt first; `ref` may be null for all.
SELECT id, ref, iteration, attempt, type, status, queue, sub_workflow_id
  FROM workflows_task
 WHERE workflow_id = %(workflow_id)s AND ended_at IS NULL AND NOT consumed AND (%(ref)s::text IS NULL OR ref = %(ref)s)
 ORDER BY string_to_array(iteration, '.')::integer[] DESC, attempt DESC

-- name: find_pulling
-- Open tasks that wait for messages of their run, oldest first.
SELECT workflow_id, id, input FROM workflows_task
 WHERE workflow_id = ANY(%(workflow_ids)s::uuid[]) AND ended_at IS NULL AND NOT consumed AND type = 'PULL_WORKFLOW_MESSAGES'
 ORDER BY workflow_id, id

-- name: find_awaiting
-- Open tasks of a namespace that wait for a delivery to the webhook, or to any; found by an index of their own.
SELECT workflow_id, id, ref, input FROM workflows_task
 WHERE namespace = %(namespace)s AND NOT consumed AND type = 'WAIT_FOR_WEBHOOK' AND ended_at IS NULL
   AND COALESCE(input ->> 'webhook', %(webhook)s::text) = %(webhook)s
 ORDER BY id

-- name: outline
-- The whole run without its payloads, for an operator's action: books only where an action reads them.
SELECT id, ref, iteration, attempt, type, status, ended_at IS NOT NULL, consumed, sub_workflow_id, spec IS NOT NULL,
       CASE WHEN type IN ('JOIN', 'DO_WHILE', 'SWITCH', 'DECISION') OR spec IS NOT NULL THEN state END,
       CASE WHEN type = 'JOIN' THEN input -> 'joinOn' END
  FROM workflows_task WHERE workflow_id = %(workflow_id)s ORDER BY id

-- name: read_tasks
SELECT workflow_id, id, ref, iteration, attempt, name, type, status, consumed, input, output, state, spec, reason, cause,
       sub_workflow_id, worker_id, domain, poll_count, first_scheduled_at, scheduled_at, started_at, ended_at
  FROM workflows_task WHERE workflow_id = %(workflow_id)s AND id = ANY(%(ids)s::uuid[])

-- name: unskip
-- lock: TASK
-- A task that was skipped before its turn holds its identity, so the insert at its turn is absorbed: only then is it
-- to be passed over, once. Its mark goes with the first time.
UPDATE workflows_task t SET consumed = false, state = NULL, updated_at = now()
  FROM unnest(%(workflow_ids)s::uuid[], %(refs)s::text[], %(iterations)s::text[], %(attempts)s::integer[])
       AS u(workflow_id, ref, iteration, attempt)
 WHERE t.workflow_id = u.workflow_id AND t.ref = u.ref AND t.iteration = u.iteration AND t.attempt = u.attempt
   AND t.workflow_id = ANY(%(workflow_ids)s::uuid[])
   AND t.status = 'SKIPPED' AND t.consumed AND t.state @> '{"awaits_turn": true}'::jsonb

-- name: reopen
-- lock: TASK
-- An operator row that was cancelled with its run (JOIN, DO_WHILE) goes on where it was.
UPDATE workflows_task
   SET status = 'IN_PROGRESS', reason = NULL, cause = NULL, ended_at = NULL, consumed = false, updated_at = now()
 WHERE workflow_id = %(workflow_id)s AND id = ANY(%(ids)s::uuid[]) AND ended_at IS NOT NULL

-- name: delete_for_runs
-- lock: TASK
DELETE FROM workflows_task WHERE workflow_id = ANY(%(workflow_ids)s::uuid[])

-- name: delete
-- lock: TASK
DELETE FROM workflows_task WHERE workflow_id = %(workflow_id)s AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s::uuid[]))
