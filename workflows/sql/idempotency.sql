-- workflows_idempotencykey: which run a key started. Lock order: level 1, sorted, before any other lock of a start.

-- name: claim
-- lock: IDEMPOTENCY
-- INV-6b: waits on the unique key for a live winner; no row means that somebody else's key is committed.
INSERT INTO workflows_idempotencykey (id, namespace, scope, key, workflow_id, request_hash, created_at, expires_at)
VALUES (%(id)s, %(namespace)s, %(scope)s, %(key)s, %(workflow_id)s, %(request_hash)s, now(), NULL)
ON CONFLICT (namespace, scope, key) DO NOTHING RETURNING workflow_id

-- name: find
-- INV-6b: a statement of its own after the wait (READ COMMITTED sees the winner in it).
SELECT k.workflow_id, k.request_hash, e.status FROM workflows_idempotencykey k
  LEFT JOIN workflows_execution e ON e.id = k.workflow_id
 WHERE k.namespace = %(namespace)s AND k.scope = %(scope)s AND k.key = %(key)s

-- name: owners
SELECT k.key, k.workflow_id, k.request_hash, e.status FROM workflows_idempotencykey k
  LEFT JOIN workflows_execution e ON e.id = k.workflow_id
 WHERE k.namespace = %(namespace)s AND k.scope = %(scope)s AND k.key = ANY(%(keys)s::text[])

-- name: take_over
-- lock: IDEMPOTENCY
-- FAIL_ON_RUNNING: exactly one of many takes the key from the finished owner it saw.
UPDATE workflows_idempotencykey
   SET workflow_id = %(workflow_id)s, request_hash = %(request_hash)s, created_at = now()
 WHERE namespace = %(namespace)s AND scope = %(scope)s AND key = %(key)s AND workflow_id = %(owner)s
RETURNING workflow_id

-- name: prune
-- lock: IDEMPOTENCY
-- A key outlives its run. Ids are times, so the oldest keys come first by the primary key.
WITH c AS MATERIALIZED (
    SELECT k.id FROM workflows_idempotencykey k
     WHERE k.id < %(floor)s AND (k.expires_at IS NULL OR k.expires_at < now())
       AND NOT EXISTS (SELECT 1 FROM workflows_execution e WHERE e.id = k.workflow_id)
     ORDER BY k.id FOR UPDATE SKIP LOCKED LIMIT %(batch)s)
DELETE FROM workflows_idempotencykey k USING c WHERE k.id = c.id

-- name: set_lock_timeout
-- Only inside a joined start's savepoint.
SELECT set_config('lock_timeout', %(milliseconds)s, true)
