-- dispatch_semaphore, dispatch_semaphorewaiter: named permits of a tenant, and which queues wait for them. Lock order:
-- level 8, rows by (namespace, name), before the permits are counted in a statement of its own (rule S).

-- name: put
-- lock: PERMIT
INSERT INTO dispatch_semaphore AS s (id, namespace, name, permits, description, created_at, updated_at)
VALUES (%(id)s, %(namespace)s, %(name)s, %(permits)s, %(description)s, now(), now())
ON CONFLICT (namespace, name) DO UPDATE SET permits = EXCLUDED.permits,
    description = COALESCE(EXCLUDED.description, s.description), updated_at = now()

-- name: lock
-- lock: PERMIT
-- INV-9: two queues that want one semaphore take turns here. INV-12: in name order.
SELECT s.namespace, s.name, s.permits FROM dispatch_semaphore s
  JOIN unnest(%(namespaces)s::text[], %(names)s::text[]) AS u(namespace, name)
    ON s.namespace = u.namespace AND s.name = u.name
 ORDER BY s.namespace, s.name FOR NO KEY UPDATE OF s

-- name: delete
-- lock: PERMIT
WITH w AS (DELETE FROM dispatch_semaphorewaiter WHERE namespace = %(namespace)s AND semaphore = %(name)s)
DELETE FROM dispatch_semaphore WHERE namespace = %(namespace)s AND name = %(name)s

-- name: find
-- Semaphores with what is taken of them; name null means all.
SELECT s.name, s.permits, s.description, s.created_at, s.updated_at, COALESCE(p.taken, 0)
  FROM dispatch_semaphore s LEFT JOIN LATERAL (
    SELECT sum(permits) AS taken FROM dispatch_permit p WHERE p.namespace = s.namespace AND p.semaphore = s.name) p ON true
 WHERE s.namespace = %(namespace)s AND (%(name)s::text IS NULL OR s.name = %(name)s) ORDER BY s.name

-- name: waiters
-- Where tasks stand that want a semaphore and did not get it, those that have asked longest ago first.
SELECT w.semaphore, w.queue, w.name, w.asked_at, r.ready FROM dispatch_semaphorewaiter w CROSS JOIN LATERAL (
    SELECT count(*) AS ready FROM (
        SELECT 1 FROM dispatch_queuedtask q
         WHERE q.namespace = w.namespace AND q.queue = w.queue AND q.name = w.name AND q.lease_token IS NULL
           AND NOT q.held AND q.visible_at <= now() LIMIT 100) AS counted) r
 WHERE w.namespace = %(namespace)s AND (%(name)s::text IS NULL OR w.semaphore = %(name)s) AND r.ready > 0
   AND w.asked_at > clock_timestamp() - make_interval(secs => %(seconds)s)
 ORDER BY w.semaphore, w.asked_at, w.queue, w.name

-- name: free
-- Unlocked: what a poll may hope for before it takes a lock.
SELECT s.namespace, s.name, s.permits - COALESCE((
    SELECT sum(p.permits) FROM dispatch_permit p WHERE p.namespace = s.namespace AND p.semaphore = s.name), 0)
  FROM dispatch_semaphore s JOIN unnest(%(namespaces)s::text[], %(names)s::text[]) AS u(namespace, name)
    ON s.namespace = u.namespace AND s.name = u.name

-- name: wait
-- lock: PERMIT
-- First in, first out needs to know which queues are being polled for a semaphore's tasks in vain.
INSERT INTO dispatch_semaphorewaiter AS w (id, namespace, semaphore, queue, name, asked_at)
SELECT r.id, r.namespace, r.semaphore, r.queue, r.name, clock_timestamp()
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, namespace text, semaphore text, queue text, name text)
 ORDER BY r.namespace, r.semaphore, r.queue, r.name
ON CONFLICT (namespace, semaphore, queue, name) DO UPDATE SET asked_at = clock_timestamp()

-- name: ahead
-- The first ready tasks of every queue that was polled in vain lately for one of these semaphores.
SELECT w.namespace, w.name, q.id, q.priority FROM (
    SELECT DISTINCT w.namespace, w.queue, w.name FROM dispatch_semaphorewaiter w
      JOIN unnest(%(namespaces)s::text[], %(names)s::text[]) AS u(namespace, name)
        ON w.namespace = u.namespace AND w.semaphore = u.name
     WHERE w.asked_at > clock_timestamp() - make_interval(secs => %(seconds)s)) w
 CROSS JOIN LATERAL (
    SELECT q.id, q.priority FROM dispatch_queuedtask q
     WHERE q.namespace = w.namespace AND q.queue = w.queue AND q.name = w.name AND q.lease_token IS NULL AND NOT q.held
       AND q.visible_at <= now()
     ORDER BY q.priority DESC, q.id LIMIT %(batch)s) q
