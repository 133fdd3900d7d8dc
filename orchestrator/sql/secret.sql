-- orchestrator_secret: sealed values, and for one more rotation the values before them, so that masking still knows what is
-- in flight. Rows are locked alone, by the one statement of a transaction that changes them.

-- name: put
INSERT INTO orchestrator_secret AS s (id, namespace, name, key_name, sealed, created_by, created_at, updated_at)
VALUES (%(id)s, %(namespace)s, %(name)s, %(key_name)s, %(sealed)s, %(actor)s, now(), now())
ON CONFLICT (namespace, name) DO UPDATE
   SET previous = s.sealed, previous_key_name = s.key_name, key_name = EXCLUDED.key_name, sealed = EXCLUDED.sealed,
       updated_at = now()

-- name: delete
DELETE FROM orchestrator_secret WHERE namespace = %(namespace)s AND name = %(name)s

-- name: find
SELECT id, namespace, name, key_name, sealed, previous_key_name, previous FROM orchestrator_secret
 WHERE namespace = %(namespace)s AND (%(names)s::text[] IS NULL OR name = ANY(%(names)s::text[]))
 ORDER BY name

-- name: find_stale
SELECT id, namespace, name, key_name, sealed, previous_key_name, previous FROM orchestrator_secret
 WHERE key_name <> %(key_name)s OR previous_key_name <> %(key_name)s
 ORDER BY id LIMIT %(batch)s

-- name: reseal
-- Only what was read is replaced: a value that was put meanwhile is newer.
UPDATE orchestrator_secret
   SET key_name = %(key_name)s, sealed = %(sealed)s, previous = %(previous)s,
       previous_key_name = CASE WHEN %(previous)s::bytea IS NULL THEN NULL ELSE %(key_name)s END
 WHERE id = %(id)s AND sealed = %(was)s
