-- workflows_offloaded: which objects of the payload store the rows of a run name. Lock order: none, nobody waits for these
-- rows. The advisory locks on objects stand outside the order: who holds one alone (removal) waits for nothing meanwhile.

-- name: hold
-- Shared until the end of the transaction: what is written now is not removed before the row that names it is committed.
SELECT pg_advisory_xact_lock_shared(k) FROM (SELECT unnest(%(keys)s::bigint[]) AS k ORDER BY 1) s

-- name: try_take
-- Alone, without waiting: nobody writes the object, and who did has committed or is gone.
SELECT pg_try_advisory_xact_lock(%(key)s)

-- name: append
INSERT INTO workflows_offloaded (id, workflow_id, key)
SELECT u.id, u.workflow_id, u.key FROM unnest(%(ids)s::uuid[], %(workflow_ids)s::uuid[], %(keys)s::text[]) AS u(id, workflow_id, key)
 WHERE NOT EXISTS (SELECT 1 FROM workflows_offloaded o WHERE o.workflow_id = u.workflow_id AND o.key = u.key)

-- name: namespaces
-- They never change.
SELECT id, namespace FROM workflows_execution WHERE id = ANY(%(ids)s::uuid[])

-- name: unnamed
-- Objects that no run names.
SELECT k FROM unnest(%(keys)s::text[]) AS k
 WHERE NOT EXISTS (SELECT 1 FROM workflows_offloaded o WHERE o.key = k)

-- name: delete
DELETE FROM workflows_offloaded WHERE workflow_id = ANY(%(workflow_ids)s::uuid[])
