-- outbox_eventhandler: registered by people, read by the relay. Its rows are locked alone.

-- name: add
INSERT INTO outbox_eventhandler (id, namespace, name, event, active, definition, created_by, created_at, updated_at)
VALUES (%(id)s, %(namespace)s, %(name)s, %(event)s, %(active)s, %(definition)s::jsonb, %(created_by)s, now(), now())
ON CONFLICT (namespace, name) DO NOTHING RETURNING id

-- name: replace
UPDATE outbox_eventhandler SET event = %(event)s, active = %(active)s, definition = %(definition)s::jsonb, updated_at = now()
 WHERE namespace = %(namespace)s AND name = %(name)s RETURNING id

-- name: remove
DELETE FROM outbox_eventhandler WHERE namespace = %(namespace)s AND name = %(name)s RETURNING id

-- name: find
-- Event null means all.
SELECT name, event, active, definition FROM outbox_eventhandler
 WHERE namespace = %(namespace)s AND (%(event)s::text IS NULL OR event = %(event)s) AND (active OR NOT %(active_only)s)
 ORDER BY name
