-- workflows_revision: a definition together with the task definitions it was started with. Never changed, and deleted
-- when no version of a definition and no run names it. Who starts a run holds its revision until the run is there; the
-- pruner locks first and looks for runs in its next statement (rule S). Neither waits for the other.

-- name: find
-- One that is being deleted is passed over.
SELECT id FROM workflows_revision WHERE digest = %(digest)s ORDER BY id LIMIT 1 FOR KEY SHARE SKIP LOCKED

-- name: insert
INSERT INTO workflows_revision (id, digest, definition, task_definitions, created_at)
VALUES (%(id)s, %(digest)s, %(definition)s::jsonb, %(task_definitions)s::jsonb, now())

-- name: masked
-- JSON null where a definition masks nothing; apart from `read`, since lists need the names of many revisions and no more.
SELECT id, COALESCE(definition -> 'maskedFields', 'null') FROM workflows_revision WHERE id = ANY(%(ids)s::uuid[])

-- name: read
SELECT id, definition, task_definitions FROM workflows_revision WHERE id = ANY(%(ids)s::uuid[])

-- name: peek_unused
-- Those that no run names, and no version: one with the same words and the same task definitions. Runs are looked
-- through as a whole, so that no start pays for an index.
SELECT r.id FROM workflows_revision r
 WHERE r.created_at < %(before)s
   AND NOT EXISTS (
       SELECT 1 FROM workflows_workflowdefinition d
        WHERE d.name = r.definition ->> 'name' AND d.version::text = r.definition ->> 'version' AND r.definition @> d.definition
          AND NOT EXISTS (
              SELECT 1 FROM jsonb_each(r.task_definitions) f
                LEFT JOIN workflows_taskdefinition t ON t.namespace = d.namespace AND t.name = f.key
               WHERE t.definition IS DISTINCT FROM f.value))
   AND NOT EXISTS (SELECT 1 FROM workflows_execution e WHERE e.revision_id = r.id)
 ORDER BY r.id LIMIT %(batch)s

-- name: lock_free
-- Those that no start holds; from now on no start takes them.
SELECT id FROM workflows_revision WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED

-- name: delete_unused
DELETE FROM workflows_revision r
 WHERE r.id = ANY(%(ids)s::uuid[]) AND NOT EXISTS (SELECT 1 FROM workflows_execution e WHERE e.revision_id = r.id)
