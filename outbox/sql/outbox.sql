-- outbox_event: effects written with the change that caused them (INV-5). Verbs: publish, claim, deliver, fail, replay,
-- prune, prune_dead.
-- Lock order: level 11. A relay claims by a short leased transaction, calls the handler outside any, and settles fenced.

-- name: publish
INSERT INTO outbox_event (id, namespace, topic, order_key, payload, created_at, next_attempt_at)
SELECT id, namespace, topic, order_key, payload, now(), now()
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, namespace text, topic text, order_key uuid, payload jsonb)

-- name: claim
-- lock: OUTBOX
-- The attempt is counted before the handler runs, so one that kills its process still runs out of attempts.
-- INV-5: events of one order key are handed out one at a time, oldest first.
WITH c AS MATERIALIZED (
    SELECT id FROM outbox_event e
     WHERE delivered_at IS NULL AND dead_at IS NULL AND next_attempt_at <= now()
       AND (lease_expires_at IS NULL OR lease_expires_at < now())
       AND (order_key IS NULL OR NOT EXISTS (
            SELECT 1 FROM outbox_event o WHERE o.order_key = e.order_key AND o.id < e.id
               AND o.delivered_at IS NULL AND o.dead_at IS NULL))
     ORDER BY next_attempt_at, id FOR UPDATE SKIP LOCKED LIMIT %(batch)s)
UPDATE outbox_event e
   SET attempts = attempts + 1, lease_token = gen_random_uuid(),
       lease_expires_at = now() + make_interval(secs => %(lease_seconds)s)
  FROM c WHERE e.id = c.id
RETURNING e.id, e.namespace, e.topic, e.payload, e.attempts, e.lease_token, e.created_at

-- name: deliver
-- lock: OUTBOX
-- INV-5: settled by the holder of the lease only.
UPDATE outbox_event e SET delivered_at = now(), lease_token = NULL, lease_expires_at = NULL, last_error = NULL
  FROM unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) AS u(id, token)
 WHERE e.id = u.id AND e.lease_token = u.token

-- name: fail
-- lock: OUTBOX
-- INV-5, INV-13: never dropped: it backs off, then becomes a dead letter that is kept and can be replayed.
UPDATE outbox_event
   SET lease_token = NULL, lease_expires_at = NULL, last_error = %(error)s,
       next_attempt_at = now() + make_interval(secs => %(delay_seconds)s),
       dead_at = CASE WHEN attempts >= %(max_attempts)s THEN now() END
 WHERE id = %(id)s AND lease_token = %(token)s

-- name: replay
-- lock: OUTBOX
UPDATE outbox_event
   SET dead_at = NULL, attempts = 0, next_attempt_at = now(), lease_token = NULL, lease_expires_at = NULL
 WHERE dead_at IS NOT NULL AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s::uuid[]))

-- name: prune
DELETE FROM outbox_event WHERE delivered_at < now() - make_interval(secs => %(seconds)s)

-- name: prune_dead
-- lock: OUTBOX
-- One that was replayed since it was looked at is not dead any more.
WITH c AS MATERIALIZED (
    SELECT id FROM outbox_event WHERE id = ANY(%(ids)s::uuid[]) AND dead_at < %(before)s FOR UPDATE SKIP LOCKED)
DELETE FROM outbox_event o USING c WHERE o.id = c.id
RETURNING o.id, (o.payload ->> 'execution_id')::uuid, o.last_error
