-- workflows_workflowdefinition, workflows_taskdefinition, workflows_revision: what may be run. Version numbers and
-- overwrites are serialised by the advisory lock (namespace, name); revisions are never changed.

-- name: upsert
INSERT INTO workflows_workflowdefinition AS d (id, namespace, name, version, definition, created_at, updated_at, created_by)
VALUES (%(id)s, %(namespace)s, %(name)s, %(version)s, %(definition)s::jsonb, now(), now(), %(created_by)s)
ON CONFLICT (namespace, name, version) DO UPDATE SET definition = EXCLUDED.definition, updated_at = now()

-- name: insert
INSERT INTO workflows_workflowdefinition (id, namespace, name, version, definition, created_at, updated_at, created_by)
VALUES (%(id)s, %(namespace)s, %(name)s, %(version)s, %(definition)s::jsonb, now(), now(), %(created_by)s)
ON CONFLICT (namespace, name, version) DO NOTHING

-- name: delete
DELETE FROM workflows_workflowdefinition WHERE namespace = %(namespace)s AND name = %(name)s AND version = %(version)s

-- name: get
-- Version null means the latest.
SELECT name, version, definition, created_at, updated_at, created_by FROM workflows_workflowdefinition
 WHERE namespace = %(namespace)s AND name = %(name)s AND (%(version)s::integer IS NULL OR version = %(version)s)
 ORDER BY version DESC LIMIT 1

-- name: stamp
-- What a start resolved before is still right while nothing of this has changed: the version (null: the latest), and the
-- task definitions it names. The revision it resolved to must still be there, and stays until the transaction ends; one
-- that is being deleted is not waited for.
WITH held AS (SELECT id FROM workflows_revision WHERE id = %(revision_id)s::uuid FOR KEY SHARE SKIP LOCKED)
SELECT d.version, d.updated_at, t.number, t.latest
  FROM (SELECT version, updated_at FROM workflows_workflowdefinition
         WHERE namespace = %(namespace)s AND name = %(name)s AND (%(version)s::integer IS NULL OR version = %(version)s)
         ORDER BY version DESC LIMIT 1) d
 CROSS JOIN (SELECT count(*) AS number, max(updated_at) AS latest FROM workflows_taskdefinition
              WHERE namespace = %(namespace)s AND name = ANY(%(tasks)s::text[])) t
 WHERE %(revision_id)s::uuid IS NULL OR EXISTS (SELECT 1 FROM held)

-- name: find
-- Name null means all.
SELECT name, version, definition, created_at, updated_at, created_by FROM workflows_workflowdefinition
 WHERE namespace = %(namespace)s AND (%(name)s::text IS NULL OR name = %(name)s) ORDER BY name, version

-- name: find_latest
-- The latest version of each name that holds a text, by name. Old versions are counted past in the index, never read.
WITH page AS (
    SELECT name, max(version) AS version FROM workflows_workflowdefinition
     WHERE namespace = %(namespace)s AND position(lower(%(text)s) IN lower(name)) > 0
     GROUP BY name ORDER BY name LIMIT %(size)s OFFSET %(start)s)
SELECT d.name, d.version, d.definition, d.created_at, d.updated_at, d.created_by
  FROM page JOIN workflows_workflowdefinition d
    ON d.namespace = %(namespace)s AND d.name = page.name AND d.version = page.version
 ORDER BY d.name

-- name: count_names
SELECT count(DISTINCT name) FROM workflows_workflowdefinition
 WHERE namespace = %(namespace)s AND position(lower(%(text)s) IN lower(name)) > 0

-- name: find_versions
SELECT name, version, created_at, updated_at FROM workflows_workflowdefinition
 WHERE namespace = %(namespace)s ORDER BY name, version

-- name: find_mentioning
-- Definitions whose words contain a text: a first sieve, the caller looks closer.
SELECT name, version, definition, created_at, updated_at, created_by FROM workflows_workflowdefinition
 WHERE namespace = %(namespace)s AND position(%(text)s IN definition::text) > 0 ORDER BY name, version
