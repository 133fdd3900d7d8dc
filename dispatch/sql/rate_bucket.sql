-- dispatch_ratebucket: how many tasks of a definition were handed out in its present window. Its reader and writer hold
-- the definition's advisory lock (INV-9); the row is written at level 8.

-- name: used
-- The clock, not now(): the transaction may have waited long for the lock.
SELECT b.namespace, b.name, b.used FROM dispatch_ratebucket b
  JOIN unnest(%(namespaces)s::text[], %(names)s::text[]) AS u(namespace, name)
    ON b.namespace = u.namespace AND b.name = u.name
 WHERE b.window_ends_at > clock_timestamp()

-- name: charge
-- lock: PERMIT
-- INV-9: for what was granted, never for what was asked: idle polls burn nothing.
INSERT INTO dispatch_ratebucket AS b (id, namespace, name, used, window_ends_at)
SELECT r.id, r.namespace, r.name, r.used, clock_timestamp() + make_interval(secs => r.seconds)
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, namespace text, name text, used integer, seconds double precision)
 ORDER BY r.namespace, r.name
ON CONFLICT (namespace, name) DO UPDATE
   SET used = CASE WHEN b.window_ends_at > clock_timestamp() THEN b.used ELSE 0 END + EXCLUDED.used,
       window_ends_at = CASE WHEN b.window_ends_at > clock_timestamp() THEN b.window_ends_at ELSE EXCLUDED.window_ends_at END
