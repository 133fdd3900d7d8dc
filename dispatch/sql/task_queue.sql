-- dispatch_queuedtask: tasks waiting for or leased to a worker; rows leave with their task. Verbs: enqueue, lease, renew,
-- acknowledge, defer, reclaim. Lock order: level 5, before the task row. Lease, renew, release, defer and plain reclaim
-- need no gate: they move tasks between SCHEDULED and IN_PROGRESS only and write no history.

-- name: enqueue
INSERT INTO dispatch_queuedtask (id, workflow_id, namespace, queue, name, priority, held, visible_at, enqueued_at,
    response_seconds, timeout_seconds)
SELECT id, workflow_id, namespace, queue, name, priority, held, now() + make_interval(secs => delay_seconds), now(),
       response_seconds, timeout_seconds
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, workflow_id uuid, namespace text, queue text, name text,
       priority smallint, held boolean, delay_seconds double precision, response_seconds integer, timeout_seconds integer)

-- name: lease
-- lock: QUEUE
-- INV-7a: a random token and an expiry are stamped on the row; the task row is started in the same transaction.
-- One queue per call: the ready index is read in order, without a sort. `closed` names task definitions whose tasks only
-- `lease_named` may hand out. The lease never outlasts `respond_by`, the response deadline; a holder that does not renew by
-- itself has the task until then.
WITH c AS MATERIALIZED (
    SELECT id FROM dispatch_queuedtask
     WHERE namespace = %(namespace)s AND queue = %(queue)s AND lease_token IS NULL AND NOT held AND visible_at <= now()
       AND name <> ALL(%(closed)s::text[])
     ORDER BY priority DESC, id FOR UPDATE SKIP LOCKED LIMIT %(batch)s)
UPDATE dispatch_queuedtask q
   SET lease_token = gen_random_uuid(), worker_id = %(worker_id)s,
       respond_by = now() + make_interval(secs => NULLIF(q.response_seconds, 0)),
       lease_expires_at = now() + make_interval(secs => CASE WHEN %(renewed)s OR q.response_seconds = 0
           THEN LEAST(%(lease_seconds)s, NULLIF(q.response_seconds, 0)) ELSE q.response_seconds END)
  FROM c WHERE q.id = c.id
RETURNING q.id, q.workflow_id, q.namespace, q.lease_token, q.timeout_seconds, q.priority, q.name, q.queue

-- name: lease_shared
-- lock: QUEUE
-- The same for system workers, who serve a queue of every namespace: first in, first out.
WITH c AS MATERIALIZED (
    SELECT id FROM dispatch_queuedtask q
     WHERE queue = ANY(%(queues)s::text[]) AND lease_token IS NULL AND NOT held AND visible_at <= now()
       AND (name <> ALL(%(closed_names)s::text[]) OR NOT EXISTS (
            SELECT 1 FROM unnest(%(closed_namespaces)s::text[], %(closed_names)s::text[]) AS x(namespace, name)
             WHERE x.namespace = q.namespace AND x.name = q.name))
     ORDER BY priority DESC, id FOR UPDATE SKIP LOCKED LIMIT %(batch)s)
UPDATE dispatch_queuedtask q
   SET lease_token = gen_random_uuid(), worker_id = %(worker_id)s,
       respond_by = now() + make_interval(secs => NULLIF(q.response_seconds, 0)),
       lease_expires_at = now() + make_interval(secs => CASE WHEN %(renewed)s OR q.response_seconds = 0
           THEN LEAST(%(lease_seconds)s, NULLIF(q.response_seconds, 0)) ELSE q.response_seconds END)
  FROM c WHERE q.id = c.id
RETURNING q.id, q.workflow_id, q.namespace, q.lease_token, q.timeout_seconds, q.priority, q.name, q.queue

-- name: peek_lanes
-- Which tenants wait in which shared queues, each queue from a namespace on: one step down the ready index for each.
WITH RECURSIVE lanes(queue, namespace) AS (
    SELECT f.queue, f.namespace FROM unnest(%(queues)s::text[], %(afters)s::text[]) AS u(queue, after) CROSS JOIN LATERAL (
        SELECT q.queue, q.namespace FROM dispatch_queuedtask q
         WHERE q.queue = u.queue AND q.namespace > u.after AND q.lease_token IS NULL AND NOT q.held
         ORDER BY q.namespace LIMIT 1) f
    UNION ALL
    SELECT n.queue, n.namespace FROM lanes l CROSS JOIN LATERAL (
        SELECT q.queue, q.namespace FROM dispatch_queuedtask q
         WHERE q.queue = l.queue AND q.namespace > l.namespace AND q.lease_token IS NULL AND NOT q.held
         ORDER BY q.namespace LIMIT 1) n)
SELECT queue, namespace FROM lanes LIMIT %(batch)s

-- name: lease_lanes
-- lock: QUEUE
-- INV-7a, for shared queues with several tenants: an equal share of each lane, so that nobody's backlog crowds others out.
WITH c AS MATERIALIZED (
    SELECT p.id FROM unnest(%(queues)s::text[], %(namespaces)s::text[]) AS l(queue, namespace) CROSS JOIN LATERAL (
        SELECT q.id FROM dispatch_queuedtask q
         WHERE q.queue = l.queue AND q.namespace = l.namespace AND q.lease_token IS NULL AND NOT q.held
           AND q.visible_at <= now()
           AND (q.name <> ALL(%(closed_names)s::text[]) OR NOT EXISTS (
                SELECT 1 FROM unnest(%(closed_namespaces)s::text[], %(closed_names)s::text[]) AS x(namespace, name)
                 WHERE x.namespace = q.namespace AND x.name = q.name))
         ORDER BY q.priority DESC, q.id FOR UPDATE SKIP LOCKED LIMIT %(share)s) p
     LIMIT %(batch)s)
UPDATE dispatch_queuedtask q
   SET lease_token = gen_random_uuid(), worker_id = %(worker_id)s,
       respond_by = now() + make_interval(secs => NULLIF(q.response_seconds, 0)),
       lease_expires_at = now() + make_interval(secs => CASE WHEN %(renewed)s OR q.response_seconds = 0
           THEN LEAST(%(lease_seconds)s, NULLIF(q.response_seconds, 0)) ELSE q.response_seconds END)
  FROM c WHERE q.id = c.id
RETURNING q.id, q.workflow_id, q.namespace, q.lease_token, q.timeout_seconds, q.priority, q.name, q.queue

-- name: lease_named
-- lock: QUEUE
-- INV-9: tasks of one definition that has a limit. Their advisory lock is held, and what is in flight was counted in a
-- statement after it, so `room` is true until the commit.
WITH c AS MATERIALIZED (
    SELECT id FROM dispatch_queuedtask
     WHERE namespace = %(namespace)s AND queue = %(queue)s AND name = %(name)s AND lease_token IS NULL AND NOT held
       AND visible_at <= now()
     ORDER BY priority DESC, id FOR UPDATE SKIP LOCKED LIMIT %(room)s)
UPDATE dispatch_queuedtask q
   SET lease_token = gen_random_uuid(), worker_id = %(worker_id)s,
       respond_by = now() + make_interval(secs => NULLIF(q.response_seconds, 0)),
       lease_expires_at = now() + make_interval(secs => CASE WHEN %(renewed)s OR q.response_seconds = 0
           THEN LEAST(%(lease_seconds)s, NULLIF(q.response_seconds, 0)) ELSE q.response_seconds END)
  FROM c WHERE q.id = c.id
RETURNING q.id, q.workflow_id, q.namespace, q.lease_token, q.timeout_seconds, q.priority, q.name, q.queue

-- name: in_flight
-- How many tasks of each definition are leased now, on all of its queues.
SELECT u.namespace, u.name, (
    SELECT count(*) FROM dispatch_queuedtask q
     WHERE q.lease_token IS NOT NULL AND q.namespace = u.namespace AND q.name = u.name)
  FROM unnest(%(namespaces)s::text[], %(names)s::text[]) AS u(namespace, name)

-- name: ready_named
-- Which of these definitions have a task ready on which of these queues.
SELECT k.queue, u.namespace, u.name FROM unnest(%(namespaces)s::text[], %(names)s::text[]) AS u(namespace, name)
 CROSS JOIN unnest(%(queues)s::text[]) AS k(queue)
 WHERE EXISTS (
    SELECT 1 FROM dispatch_queuedtask q
     WHERE q.queue = k.queue AND q.namespace = u.namespace AND q.name = u.name AND q.lease_token IS NULL AND NOT q.held
       AND q.visible_at <= now())

-- name: give_back
-- INV-7c: a task that was refused its permits goes straight back. It takes no lock: this transaction leased the row.
UPDATE dispatch_queuedtask SET lease_token = NULL, lease_expires_at = NULL, respond_by = NULL, worker_id = NULL
 WHERE id = ANY(%(ids)s::uuid[])

-- name: let_through
-- lock: QUEUE
-- A run's maxConcurrentTasks: of its tasks on queues the first `cap` may be handed out, those let through before first of
-- all. Whoever adds, ends or lets through tasks of a run holds its gate, so what is counted here stands still.
UPDATE dispatch_queuedtask q SET held = false
  FROM (
    SELECT t.id, t.held, u.cap,
           row_number() OVER (PARTITION BY t.workflow_id ORDER BY t.held, t.priority DESC, t.id) AS position
      FROM unnest(%(workflow_ids)s::uuid[], %(caps)s::integer[]) AS u(workflow_id, cap)
      JOIN dispatch_queuedtask t ON t.workflow_id = u.workflow_id) r
 WHERE q.id = r.id AND r.held AND r.position <= r.cap

-- name: drop
-- lock: QUEUE
-- A leased row whose task was not SCHEDULED would otherwise be leased for ever.
DELETE FROM dispatch_queuedtask WHERE id = ANY(%(ids)s::uuid[])

-- name: renew
-- lock: QUEUE
-- INV-7a: only the holder, and only while the lease stands. INV-12: rows of several runs are locked in id order.
WITH c AS MATERIALIZED (
    SELECT q.id FROM dispatch_queuedtask q JOIN unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) AS u(id, token)
        ON q.id = u.id AND q.lease_token = u.token ORDER BY q.id FOR UPDATE OF q)
UPDATE dispatch_queuedtask q
   SET respond_by = now() + make_interval(secs => NULLIF(q.response_seconds, 0)),
       lease_expires_at = now() + make_interval(secs => CASE WHEN %(renewed)s OR q.response_seconds = 0
           THEN LEAST(%(lease_seconds)s, NULLIF(q.response_seconds, 0)) ELSE q.response_seconds END)
  FROM c WHERE q.id = c.id
RETURNING q.id, q.workflow_id

-- name: acknowledge
-- lock: QUEUE
-- INV-7a: the token is the fence; a reissued lease matches no row. INV-12: in id order.
WITH c AS MATERIALIZED (
    SELECT q.id FROM dispatch_queuedtask q JOIN unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) AS u(id, token)
        ON q.id = u.id AND q.lease_token = u.token ORDER BY q.id FOR UPDATE OF q)
DELETE FROM dispatch_queuedtask q USING c WHERE q.id = c.id
RETURNING q.id, q.workflow_id

-- name: defer
-- lock: QUEUE
-- INV-7a: back on the queue after a delay (zero releases it), by the holder only. INV-12: in id order.
WITH c AS MATERIALIZED (
    SELECT q.id, u.delay FROM dispatch_queuedtask q
      JOIN unnest(%(ids)s::uuid[], %(tokens)s::uuid[], %(delays)s::double precision[]) AS u(id, token, delay)
        ON q.id = u.id AND q.lease_token = u.token ORDER BY q.id FOR UPDATE OF q)
UPDATE dispatch_queuedtask q
   SET lease_token = NULL, lease_expires_at = NULL, respond_by = NULL, worker_id = NULL,
       visible_at = now() + make_interval(secs => c.delay)
  FROM c WHERE q.id = c.id
RETURNING q.id, q.workflow_id

-- name: delete_for_tasks
-- lock: QUEUE
-- INV-11: the end of a task, for any cause, takes it off its queue. INV-12: in id order.
WITH c AS MATERIALIZED (
    SELECT id FROM dispatch_queuedtask WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR UPDATE)
DELETE FROM dispatch_queuedtask q USING c WHERE q.id = c.id

-- name: delete_for_runs
-- lock: QUEUE
WITH c AS MATERIALIZED (
    SELECT id FROM dispatch_queuedtask WHERE workflow_id = ANY(%(workflow_ids)s::uuid[]) ORDER BY id FOR UPDATE)
DELETE FROM dispatch_queuedtask q USING c WHERE q.id = c.id

-- name: peek_expired
SELECT id, workflow_id, lease_token, redeliveries, COALESCE(respond_by <= now(), false) FROM dispatch_queuedtask
 WHERE lease_token IS NOT NULL AND lease_expires_at < now() ORDER BY lease_expires_at LIMIT %(batch)s

-- name: reclaim
-- lock: QUEUE
-- INV-7a: token and expiry are checked again by the statement that takes the row back: the lease may just have been renewed.
-- A lease whose response deadline has passed is not handed on: its attempt has timed out.
WITH c AS MATERIALIZED (
    SELECT q.id, u.token FROM dispatch_queuedtask q JOIN unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) AS u(id, token)
        ON q.id = u.id AND q.lease_token = u.token
     WHERE q.lease_expires_at < now() AND q.redeliveries < %(max_redeliveries)s
       AND (q.respond_by IS NULL OR q.respond_by > now())
     ORDER BY q.id FOR UPDATE OF q)
UPDATE dispatch_queuedtask q
   SET lease_token = NULL, lease_expires_at = NULL, respond_by = NULL, worker_id = NULL, redeliveries = redeliveries + 1,
       visible_at = now()
  FROM c WHERE q.id = c.id
RETURNING q.id, q.workflow_id, c.token

-- name: exhaust
-- lock: QUEUE
-- The same check for an attempt that is ended, its run's gate already held; how late it is by its response deadline.
SELECT extract(epoch FROM now() - respond_by)::float8 FROM dispatch_queuedtask
 WHERE id = %(id)s AND lease_token = %(token)s AND lease_expires_at < now() FOR UPDATE

-- name: put_off
-- lock: QUEUE
-- INV-13: an attempt that cannot be ended leaves the head of the expired leases to its neighbours.
UPDATE dispatch_queuedtask SET lease_expires_at = now() + make_interval(secs => %(seconds)s)
 WHERE id = %(id)s AND lease_token = %(token)s

-- name: hold
-- lock: QUEUE
-- A deadline stops the task's holder here first, and only then reads its own timer (rule S): a heartbeat that is
-- under way may be postponing it.
SELECT id FROM dispatch_queuedtask WHERE id = %(id)s FOR UPDATE

-- name: holders
-- lock: QUEUE
-- INV-7a: who holds a task is the fence of clients that send no token. Unlocked, a lease that has not committed would
-- be overlooked and its task ended under it. INV-12: in id order.
SELECT id, lease_token, worker_id FROM dispatch_queuedtask WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR UPDATE

-- name: make_visible
-- lock: QUEUE
UPDATE dispatch_queuedtask SET visible_at = now()
 WHERE workflow_id = %(workflow_id)s AND lease_token IS NULL AND visible_at > now()

-- name: ready
-- For parked polls: how many tasks are ready in each queue, counted up to a hundred.
SELECT u.namespace, u.queue, (
    SELECT count(*) FROM (
        SELECT 1 FROM dispatch_queuedtask q
         WHERE q.namespace = u.namespace AND q.queue = u.queue AND q.lease_token IS NULL AND NOT q.held
           AND q.visible_at <= now()
         LIMIT 100) AS counted)
  FROM unnest(%(namespaces)s::text[], %(queues)s::text[]) AS u(namespace, queue)

-- name: sizes
SELECT queue, count(*) FILTER (WHERE lease_token IS NULL), count(*) FILTER (WHERE lease_token IS NOT NULL)
  FROM dispatch_queuedtask WHERE namespace = %(namespace)s AND (%(queues)s::text[] IS NULL OR queue = ANY(%(queues)s::text[]))
 GROUP BY queue
