-- outbox_webhookdelivery: one row for each delivery to a webhook. Lock order: level 11, with the outbox.

-- name: record
-- lock: OUTBOX
-- INV-6d: a delivery that comes twice is published once; the second waits until the first has committed.
INSERT INTO outbox_webhookdelivery (id, webhook_id, delivery_id, received_at)
VALUES (%(id)s, %(webhook_id)s, %(delivery_id)s, now())
ON CONFLICT (webhook_id, delivery_id) DO NOTHING RETURNING id

-- name: find_id
SELECT id FROM outbox_webhookdelivery WHERE webhook_id = %(webhook_id)s AND delivery_id = %(delivery_id)s

-- name: settle
-- lock: OUTBOX
-- INV-6d: the fence of what is matched with a delivery: told of twice, the second finds nothing to do.
UPDATE outbox_webhookdelivery SET matched_at = now() WHERE id = %(id)s AND matched_at IS NULL RETURNING id

-- name: prune
-- One that is not matched yet may wait for that among the dead letters.
DELETE FROM outbox_webhookdelivery WHERE matched_at < now() - make_interval(secs => %(seconds)s)
