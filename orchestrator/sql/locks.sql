-- Advisory locks. They are transaction-scoped only, so COMMIT and ROLLBACK release them.

-- name: take_advisory
-- lock: ADVISORY
-- INV-12: unnest keeps the caller's sorted order, so two takers of the same keys cannot deadlock.
SELECT pg_advisory_xact_lock(key) FROM unnest(%(keys)s::bigint[]) AS key
