-- orchestrator_apikey: credentials of clients. Its rows are locked alone, by the one statement of a transaction that changes them.

-- name: add
INSERT INTO orchestrator_apikey (
    id, namespace, name, digest, permissions, queues, created_by, created_at, expires_at
)
VALUES (
    %(id)s, %(namespace)s, %(name)s, %(digest)s, %(permissions)s::text[], %(queues)s::text[], %(created_by)s, now(),
    now() + make_interval(secs => %(expires_seconds)s::float8)
)

-- name: find
SELECT id, namespace, name, permissions, queues,
    array_remove(ARRAY[digest, CASE WHEN previous_until > now() THEN previous_digest END], NULL),
    CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'active' END,
    created_by, created_at, expires_at, revoked_at, last_used_at,
    last_used_at IS NULL OR last_used_at < now() - interval '1 minute',
    previous_digest,
    (SELECT extract(epoch FROM l.locked_until - now())::float8 FROM orchestrator_lockout l
      WHERE l.kind = 'key' AND l.name = orchestrator_apikey.id::text AND l.locked_until > now())
FROM orchestrator_apikey
WHERE id = %(id)s

-- name: find_all
SELECT id, namespace, name, permissions, queues,
    ARRAY[digest],
    CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'active' END,
    created_by, created_at, expires_at, revoked_at, last_used_at,
    false
FROM orchestrator_apikey
WHERE namespace = %(namespace)s
ORDER BY id DESC
LIMIT 1000

-- name: note_use
UPDATE orchestrator_apikey
SET last_used_at = now()
WHERE id = %(id)s AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')

-- name: rotate
UPDATE orchestrator_apikey
SET previous_digest = digest,
    previous_until = now() + make_interval(secs => %(grace_seconds)s::float8),
    digest = %(digest)s
WHERE namespace = %(namespace)s AND id = %(id)s AND revoked_at IS NULL
RETURNING id

-- name: revoke
UPDATE orchestrator_apikey
SET revoked_at = now()
WHERE namespace = %(namespace)s AND id = %(id)s AND revoked_at IS NULL
RETURNING id
