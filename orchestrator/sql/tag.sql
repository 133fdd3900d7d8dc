-- orchestrator_tag: key and value on a named object of a namespace. Each statement stands alone in its transaction or
-- follows another of the same object; nothing else is locked with it.

-- name: add
INSERT INTO orchestrator_tag (id, namespace, kind, name, key, value)
SELECT t.id, %(namespace)s, %(kind)s, %(name)s, t.key, t.value
  FROM unnest(%(ids)s::uuid[], %(keys)s::text[], %(values)s::text[]) AS t(id, key, value)
 ORDER BY t.key, t.value
ON CONFLICT (namespace, kind, name, key, value) DO NOTHING

-- name: remove
DELETE FROM orchestrator_tag
 WHERE namespace = %(namespace)s AND kind = %(kind)s AND name = %(name)s
   AND (key, value) IN (SELECT * FROM unnest(%(keys)s::text[], %(values)s::text[]))

-- name: clear
DELETE FROM orchestrator_tag WHERE namespace = %(namespace)s AND kind = %(kind)s AND name = %(name)s

-- name: find
SELECT kind, name, key, value FROM orchestrator_tag
 WHERE namespace = %(namespace)s AND (%(kind)s::text IS NULL OR kind = %(kind)s) AND (%(name)s::text IS NULL OR name = %(name)s)
 ORDER BY kind, name, key, value
