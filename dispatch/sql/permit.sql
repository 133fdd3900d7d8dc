-- dispatch_permit: what tasks hold of semaphores. A permit belongs to its task's lease and has no expiry of its own: a
-- heartbeat that renews the lease keeps the permit, and whatever ends the lease (result, defer, release, reclaim, the end
-- of the run) deletes the permit in its transaction. Lock order: level 8, after the semaphores' rows. INV-7c.

-- name: taken
-- INV-7c: counted in a statement after the semaphores were locked (rule S); a task never stands in its own way.
SELECT p.namespace, p.semaphore, sum(p.permits) FROM dispatch_permit p
  JOIN unnest(%(namespaces)s::text[], %(names)s::text[]) AS u(namespace, name)
    ON p.namespace = u.namespace AND p.semaphore = u.name
 WHERE p.task_id <> ALL(%(task_ids)s::uuid[]) GROUP BY p.namespace, p.semaphore

-- name: acquire
-- lock: PERMIT
INSERT INTO dispatch_permit AS p (id, namespace, semaphore, task_id, workflow_id, lease_token, permits, acquired_at)
SELECT r.id, r.namespace, r.semaphore, r.task_id, r.workflow_id, r.lease_token, r.permits, now()
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, namespace text, semaphore text, task_id uuid, workflow_id uuid,
       lease_token uuid, permits integer)
ON CONFLICT (task_id, semaphore) DO UPDATE
   SET lease_token = EXCLUDED.lease_token, permits = EXCLUDED.permits, acquired_at = EXCLUDED.acquired_at

-- name: release
-- lock: PERMIT
-- INV-7c: in the transaction that ends the lease, after the queue row, which fences it.
DELETE FROM dispatch_permit WHERE task_id = ANY(%(task_ids)s::uuid[])

-- name: release_for_runs
-- lock: PERMIT
DELETE FROM dispatch_permit WHERE workflow_id = ANY(%(workflow_ids)s::uuid[])

-- name: holders
SELECT p.semaphore, p.permits, p.task_id, p.workflow_id, p.acquired_at, q.queue, q.worker_id, q.lease_expires_at
  FROM dispatch_permit p LEFT JOIN dispatch_queuedtask q ON q.id = p.task_id AND q.lease_token = p.lease_token
 WHERE p.namespace = %(namespace)s AND (%(name)s::text IS NULL OR p.semaphore = %(name)s)
 ORDER BY p.semaphore, p.acquired_at, p.task_id
