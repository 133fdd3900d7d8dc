-- dispatch_workerpoll: who polled which queue last; written outside the lease's transaction.

-- name: record
INSERT INTO dispatch_workerpoll AS p (id, namespace, queue, domain, worker_id, last_poll_at)
SELECT r.id, r.namespace, r.queue, r.domain, r.worker_id, now()
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, namespace text, queue text, domain text, worker_id text)
 ORDER BY r.namespace, r.queue, r.worker_id
ON CONFLICT (namespace, queue, worker_id) DO UPDATE SET last_poll_at = now()

-- name: read
SELECT queue, domain, worker_id, last_poll_at FROM dispatch_workerpoll
 WHERE namespace = %(namespace)s AND (%(queue)s::text IS NULL OR queue = %(queue)s) ORDER BY last_poll_at DESC

-- name: prune
DELETE FROM dispatch_workerpoll WHERE last_poll_at < now() - make_interval(secs => %(seconds)s)
