-- workflows_taskdefinition: retries, time-outs and limits of tasks, by name.

-- name: upsert
INSERT INTO workflows_taskdefinition AS d (id, namespace, name, definition, created_at, updated_at)
VALUES (%(id)s, %(namespace)s, %(name)s, %(definition)s::jsonb, now(), now())
ON CONFLICT (namespace, name) DO UPDATE SET definition = EXCLUDED.definition, updated_at = now()

-- name: update
UPDATE workflows_taskdefinition SET definition = %(definition)s::jsonb, updated_at = now()
 WHERE namespace = %(namespace)s AND name = %(name)s

-- name: delete
DELETE FROM workflows_taskdefinition WHERE namespace = %(namespace)s AND name = %(name)s

-- name: find
-- Names null means all.
SELECT name, definition, created_at, updated_at FROM workflows_taskdefinition
 WHERE namespace = %(namespace)s AND (%(names)s::text[] IS NULL OR name = ANY(%(names)s::text[])) ORDER BY name

-- name: limited
-- The task definitions that limit how their tasks are handed out, of every namespace: few.
SELECT namespace, name, definition FROM workflows_taskdefinition
 WHERE definition @? '$ ? (@.concurrentExecLimit > 0 || @.rateLimitPerFrequency > 0 || exists (@.semaphores[*]))'

-- name: stamp
-- Changes when any task definition does, in whatever order their transactions commit.
SELECT count(*), sum(extract(epoch FROM updated_at)) FROM workflows_taskdefinition
