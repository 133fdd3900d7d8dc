-- outbox_eventexecution: one row for each action of a handler and delivery. Lock order: level 11, with the outbox.

-- name: record
-- lock: OUTBOX
-- INV-6d: only rows that were really inserted are acted on, so that a delivery that comes twice acts once.
INSERT INTO outbox_eventexecution (id, namespace, handler, event, message_id, position, action, status, detail, reason,
    created_at, ended_at)
SELECT id, namespace, handler, event, message_id, position, action, status, detail, reason, now(),
       CASE WHEN status <> 'SCHEDULED' THEN now() END
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, namespace text, handler text, event text, message_id text,
       position integer, action text, status text, detail jsonb, reason text)
 ORDER BY handler, position
ON CONFLICT (namespace, handler, message_id, position) DO NOTHING RETURNING id

-- name: finish
-- lock: OUTBOX
-- The fence of an action: in the action's own transaction, and once.
UPDATE outbox_eventexecution SET status = %(status)s, output = %(output)s::jsonb, reason = %(reason)s, ended_at = now()
 WHERE id = %(id)s AND status = 'SCHEDULED' RETURNING id

-- name: replay
-- lock: OUTBOX
-- Once for each failure, however many saw it: who comes second finds it gone, or ended at another time.
UPDATE outbox_eventexecution
   SET action = %(action)s, status = %(status)s, detail = %(detail)s::jsonb, reason = %(reason)s, output = NULL,
       ended_at = CASE WHEN %(status)s::text <> 'SCHEDULED' THEN now() END
 WHERE id = %(id)s AND namespace = %(namespace)s AND status = 'FAILED' AND ended_at = %(failed_at)s RETURNING id

-- name: get
SELECT id, handler, event, message_id, position, action, status, detail, output, reason, created_at, ended_at
  FROM outbox_eventexecution WHERE namespace = %(namespace)s AND id = %(id)s

-- name: find
SELECT id, handler, event, message_id, position, action, status, detail, output, reason, created_at, ended_at
  FROM outbox_eventexecution
 WHERE namespace = %(namespace)s AND (%(event)s::text IS NULL OR event = %(event)s)
   AND (%(handler)s::text IS NULL OR handler = %(handler)s)
 ORDER BY id DESC LIMIT %(batch)s

-- name: prune
DELETE FROM outbox_eventexecution WHERE ended_at < now() - make_interval(secs => %(seconds)s)
