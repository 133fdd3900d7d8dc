-- orchestrator_environmentvariable: plain values of a namespace. Rows are locked alone.

-- name: put
INSERT INTO orchestrator_environmentvariable (id, namespace, name, value, updated_at)
VALUES (%(id)s, %(namespace)s, %(name)s, %(value)s, now())
ON CONFLICT (namespace, name) DO UPDATE SET value = EXCLUDED.value, updated_at = now()

-- name: delete
DELETE FROM orchestrator_environmentvariable WHERE namespace = %(namespace)s AND name = %(name)s

-- name: find
SELECT namespace, name, value FROM orchestrator_environmentvariable
 WHERE namespace = ANY(%(namespaces)s::text[]) ORDER BY namespace, name
