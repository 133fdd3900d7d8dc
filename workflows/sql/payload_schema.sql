-- workflows_payloadschema: JSON Schemas by (namespace, name, version). A version is never changed; numbers are given out under
-- the advisory lock (namespace, name) of definitions.

-- name: insert
INSERT INTO workflows_payloadschema (id, namespace, name, version, data, created_at, created_by)
VALUES (%(id)s, %(namespace)s, %(name)s, %(version)s, %(data)s::jsonb, now(), %(created_by)s)

-- name: get
-- Version null means the latest.
SELECT name, version, data, created_at, created_by FROM workflows_payloadschema
 WHERE namespace = %(namespace)s AND name = %(name)s AND (%(version)s::integer IS NULL OR version = %(version)s)
 ORDER BY version DESC LIMIT 1

-- name: find
SELECT name, version, data, created_at, created_by FROM workflows_payloadschema
 WHERE namespace = %(namespace)s ORDER BY name, version

-- name: delete
-- Version null means all.
DELETE FROM workflows_payloadschema
 WHERE namespace = %(namespace)s AND name = %(name)s AND (%(version)s::integer IS NULL OR version = %(version)s)
