-- workflows_admission, workflows_quota: which limited runs count against a key or a tenant, and which wait their turn.
-- Only runs under a limit have a row; it leaves with the run. Counting and admitting are serialised by the advisory locks
-- of the tenant and of the key (INV-9); lock order: level 7, after the run's own row.

-- name: insert
INSERT INTO workflows_admission (workflow_id, namespace, name, key, most, counted, admitted)
VALUES (%(workflow_id)s, %(namespace)s, %(name)s, %(key)s, %(most)s, %(counted)s, %(admitted)s)
ON CONFLICT (workflow_id) DO UPDATE
   SET key = EXCLUDED.key, most = EXCLUDED.most, counted = EXCLUDED.counted, admitted = EXCLUDED.admitted

-- name: of_key
-- (admitted, waiting) runs of a key.
SELECT count(*) FILTER (WHERE admitted), count(*) FILTER (WHERE NOT admitted) FROM workflows_admission
 WHERE namespace = %(namespace)s AND name = %(name)s AND key = %(key)s

-- name: of_tenant
-- (admitted, waiting) runs that count against the tenant's quota.
SELECT count(*) FILTER (WHERE admitted), count(*) FILTER (WHERE NOT admitted) FROM workflows_admission
 WHERE namespace = %(namespace)s AND counted

-- name: peek_groups
-- Where runs wait, the longest-waiting first; unlocked.
SELECT namespace, name, key, min(workflow_id::text) AS first FROM workflows_admission WHERE NOT admitted
 GROUP BY namespace, name, key ORDER BY first LIMIT %(batch)s

-- name: peek_line
-- The next runs of a group, first in, first out; their advisory locks are held.
SELECT workflow_id, most, counted FROM workflows_admission
 WHERE namespace = %(namespace)s AND name = %(name)s AND key IS NOT DISTINCT FROM %(key)s::text AND NOT admitted
 ORDER BY workflow_id LIMIT %(batch)s

-- name: admit
-- lock: PER_TASK
UPDATE workflows_admission SET admitted = true WHERE workflow_id = ANY(%(ids)s::uuid[])

-- name: remove
-- lock: PER_TASK
-- INV-11: a run that ends gives its place back, whether it had one or waited for it.
DELETE FROM workflows_admission WHERE workflow_id = ANY(%(ids)s::uuid[]) RETURNING workflow_id

-- name: count_running
-- lock: EXECUTION
-- A quota that is new counts the runs that are under way. Each run is locked, so that one which is just ending is waited
-- for and left out: nobody would take its row away again.
WITH running AS MATERIALIZED (
    SELECT id, namespace, name FROM workflows_execution
     WHERE namespace = %(namespace)s AND ended_at IS NULL AND parent_workflow_id IS NULL AND admitted_at IS NOT NULL
     ORDER BY id FOR NO KEY UPDATE)
INSERT INTO workflows_admission (workflow_id, namespace, name, counted, admitted)
SELECT id, namespace, name, true, true FROM running
ON CONFLICT (workflow_id) DO UPDATE SET counted = true

-- name: put_quota
INSERT INTO workflows_quota AS q (id, namespace, max_concurrent_executions, updated_at)
VALUES (%(id)s, %(namespace)s, %(most)s, now())
ON CONFLICT (namespace) DO UPDATE SET max_concurrent_executions = EXCLUDED.max_concurrent_executions, updated_at = now()

-- name: quota
SELECT max_concurrent_executions FROM workflows_quota WHERE namespace = %(namespace)s

-- name: quotas
SELECT namespace, max_concurrent_executions FROM workflows_quota WHERE max_concurrent_executions IS NOT NULL
