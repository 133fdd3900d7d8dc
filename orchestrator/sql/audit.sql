-- orchestrator_auditentry: append-only.

-- name: record
INSERT INTO orchestrator_auditentry (id, namespace, actor, action, target, outcome, detail, at)
VALUES (%(id)s, %(namespace)s, %(actor)s, %(action)s, %(target)s, %(outcome)s, %(detail)s::jsonb, now())
