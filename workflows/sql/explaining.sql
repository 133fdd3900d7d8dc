-- Why a run is not moving: reads of workflows_execution, workflows_task, workflows_timer, workflows_decidequeue,
-- dispatch_queuedtask, dispatch_workerpoll and outbox_event. No locks: an answer is a picture of one moment.

-- name: run
SELECT e.status, e.admitted_at, e.created_at, e.reason, q.enqueued_at, q.attempts, q.next_attempt_at, q.last_error,
       q.quarantined, now()
  FROM workflows_execution e LEFT JOIN workflows_decidequeue q ON q.workflow_id = e.id
 WHERE e.namespace = %(namespace)s AND e.id = %(id)s

-- name: open_tasks
-- `timed` says that a WAIT named a moment, so that a timer must exist.
SELECT t.id, t.ref, t.iteration, t.attempt, t.name, t.type, t.status, t.queue, t.domain, t.sub_workflow_id, t.state,
       CASE WHEN t.type = 'WAIT_FOR_WEBHOOK' THEN t.input END,
       t.type = 'WAIT' AND COALESCE(t.input ->> 'duration', t.input ->> 'until', '') <> '', t.callback_seconds,
       q.id IS NOT NULL, q.visible_at, q.worker_id, q.lease_expires_at, q.redeliveries, COALESCE(q.held, false)
  FROM workflows_task t LEFT JOIN dispatch_queuedtask q ON q.id = t.id
 WHERE t.workflow_id = %(workflow_id)s AND t.ended_at IS NULL AND NOT t.consumed ORDER BY t.id LIMIT %(batch)s

-- name: unseen_tasks
SELECT count(*) FROM workflows_task WHERE workflow_id = %(workflow_id)s AND ended_at IS NOT NULL AND NOT consumed

-- name: timers
SELECT id, kind, task_id, due_at, attempts, last_error, quarantined FROM workflows_timer
 WHERE workflow_id = %(workflow_id)s ORDER BY due_at LIMIT %(batch)s

-- name: queues
-- Who has asked for a task type lately, and how much of it waits, counted up to a hundred. Our own workers ask for
-- every namespace at once, under the empty one.
SELECT u.queue, (
    SELECT max(p.last_poll_at) FROM dispatch_workerpoll p
     WHERE p.namespace IN (%(namespace)s, '') AND p.queue = u.name AND p.domain IS NOT DISTINCT FROM u.domain), (
    SELECT count(*) FROM (
        SELECT 1 FROM dispatch_queuedtask q
         WHERE q.namespace = %(namespace)s AND q.queue = u.queue AND q.lease_token IS NULL AND q.visible_at <= now()
         LIMIT 100) AS counted)
  FROM unnest(%(queues)s::text[], %(names)s::text[], %(domains)s::text[]) AS u(queue, name, domain)

-- name: children
SELECT id, name, status, ended_at IS NOT NULL FROM workflows_execution WHERE id = ANY(%(ids)s::uuid[])

-- name: deliveries
-- Effects on their way to a run that a task waits for; only undelivered ones are looked through.
SELECT COALESCE(payload ->> 'parent_task_id', payload ->> 'starter_task_id')::uuid,
       COALESCE(payload ->> 'child_id', payload ->> 'workflow_id')::uuid, id, attempts, next_attempt_at, last_error,
       dead_at IS NOT NULL
  FROM outbox_event
 WHERE delivered_at IS NULL AND topic IN ('workflow.start_child', 'workflow.start')
   AND COALESCE(payload ->> 'parent_workflow_id', payload ->> 'starter_workflow_id') = %(workflow_id)s::text
 ORDER BY id LIMIT %(batch)s

-- name: dead_events
-- What EVENT tasks of a run published and nobody got, or a handler of it could not act on: the message's id is the task's.
-- And what came to a webhook for a task that waits for it.
SELECT t.id, t.ref, t.iteration, t.attempt, COALESCE(o.payload ->> 'event', o.payload ->> 'webhook'),
       o.payload ->> 'handler', o.topic = 'webhook.matched', o.id, o.attempts, o.last_error
  FROM outbox_event o JOIN workflows_task t
    ON (o.topic IN ('event.published', 'event.action') AND t.type = 'EVENT' AND t.id::text = o.payload ->> 'message_id')
    OR (o.topic = 'webhook.matched' AND t.ended_at IS NULL AND t.id::text = o.payload ->> 'task_id')
 WHERE o.dead_at IS NOT NULL AND o.topic IN ('event.published', 'event.action', 'webhook.matched')
   AND o.namespace = %(namespace)s AND t.workflow_id = %(workflow_id)s
 ORDER BY o.id LIMIT %(batch)s
