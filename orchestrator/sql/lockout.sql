-- orchestrator_lockout: wrong credentials by key, user and address. The rows of one attempt are locked in the order of
-- their kind and name; nothing else is locked with them.

-- name: find_locked
-- How long the longest lock-out among these lasts.
SELECT max(extract(epoch FROM l.locked_until - clock_timestamp()))::float8
  FROM orchestrator_lockout l
  JOIN unnest(%(kinds)s::text[], %(names)s::text[]) AS u(kind, name) ON l.kind = u.kind AND l.name = u.name
 WHERE l.locked_until > clock_timestamp()

-- name: add_failure
-- INV-9: one upsert, whose row lock makes guesses of the same moment wait for each other.
INSERT INTO orchestrator_lockout AS l (id, kind, name, failures, ends_at)
VALUES (%(id)s, %(kind)s, %(name)s, 1, clock_timestamp() + make_interval(secs => %(seconds)s::float8))
ON CONFLICT (kind, name) DO UPDATE
   SET failures = CASE WHEN l.ends_at > clock_timestamp() THEN l.failures ELSE 0 END + 1,
       ends_at = CASE WHEN l.ends_at > clock_timestamp() THEN l.ends_at ELSE EXCLUDED.ends_at END
RETURNING failures

-- name: lock
UPDATE orchestrator_lockout
   SET locked_until = clock_timestamp() + make_interval(secs => %(seconds)s::float8),
       ends_at = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
 WHERE kind = %(kind)s AND name = %(name)s AND (locked_until IS NULL OR locked_until <= clock_timestamp())

-- name: forgive
-- The attempt was right, and so was no failure; a lock-out that it brought about is undone.
UPDATE orchestrator_lockout
   SET failures = greatest(failures - 1, 0), locked_until = CASE WHEN failures > %(most)s THEN locked_until END
 WHERE kind = %(kind)s AND name = %(name)s AND ends_at > clock_timestamp()

-- name: lift
DELETE FROM orchestrator_lockout WHERE kind = %(kind)s AND name = %(name)s

-- name: find_all
SELECT kind, name, failures, CASE WHEN locked_until > now() THEN locked_until END, ends_at
  FROM orchestrator_lockout WHERE ends_at > now() ORDER BY ends_at DESC LIMIT 1000

-- name: prune
DELETE FROM orchestrator_lockout
 WHERE id IN (SELECT id FROM orchestrator_lockout WHERE ends_at < now() FOR UPDATE SKIP LOCKED)
