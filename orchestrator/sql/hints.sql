-- NOTIFY: a hint that shortens a wait. Nothing depends on it.

-- name: notify
SELECT pg_notify(%(channel)s, %(payload)s)
