-- outbox_webhook: registered by people, read by the open route. Its rows are locked alone.

-- name: add
INSERT INTO outbox_webhook (id, namespace, name, verifier, delivery_header, created_by, created_at, updated_at)
VALUES (%(id)s, %(namespace)s, %(name)s, %(verifier)s::jsonb, %(delivery_header)s, %(created_by)s, now(), now())
ON CONFLICT (namespace, name) DO NOTHING RETURNING id

-- name: replace
UPDATE outbox_webhook SET verifier = %(verifier)s::jsonb, delivery_header = %(delivery_header)s, updated_at = now()
 WHERE namespace = %(namespace)s AND id = %(id)s RETURNING id

-- name: remove
DELETE FROM outbox_webhook WHERE namespace = %(namespace)s AND id = %(id)s RETURNING id

-- name: get
-- Of any namespace: who delivers knows the id alone.
SELECT id, namespace, name, verifier, delivery_header, created_by, created_at, updated_at
  FROM outbox_webhook WHERE id = %(id)s

-- name: find
SELECT id, namespace, name, verifier, delivery_header, created_by, created_at, updated_at
  FROM outbox_webhook WHERE namespace = %(namespace)s ORDER BY name
