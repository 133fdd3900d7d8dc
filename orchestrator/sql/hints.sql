-- NOTIFY: a hint that shortens a wait. Nothing depends on it.

-- name: notify
SELECT pg_notify(channel, payload) FROM unnest(%(channels)s::text[], %(payloads)s::text[]) AS h(channel, payload)
