-- orchestrator_auditentry: append-only.

-- name: record
INSERT INTO orchestrator_auditentry (id, namespace, actor, action, target, outcome, detail, at)
VALUES (%(id)s, %(namespace)s, %(actor)s, %(action)s, %(target)s, %(outcome)s, %(detail)s::jsonb, now())

-- name: prune
-- Retention is the one exception to append-only. Ids are times.
DELETE FROM orchestrator_auditentry WHERE id < %(floor)s
