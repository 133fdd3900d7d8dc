-- workflows_revision: a definition together with the task definitions it was started with. Never changed.

-- name: find
SELECT id FROM workflows_revision WHERE digest = %(digest)s ORDER BY id LIMIT 1

-- name: insert
INSERT INTO workflows_revision (id, digest, definition, task_definitions, created_at)
VALUES (%(id)s, %(digest)s, %(definition)s::jsonb, %(task_definitions)s::jsonb, now())

-- name: read
SELECT id, definition, task_definitions FROM workflows_revision WHERE id = ANY(%(ids)s::uuid[])
