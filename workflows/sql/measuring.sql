-- Gauges over workflows_decidequeue, workflows_timer, outbox_event and dispatch_queuedtask. Reads only, no locks.

-- name: quarantined
SELECT 'run', count(*) FROM workflows_decidequeue WHERE quarantined
UNION ALL SELECT 'timer', count(*) FROM workflows_timer WHERE quarantined
UNION ALL SELECT 'event', count(*) FROM outbox_event WHERE dead_at IS NOT NULL

-- name: strays
-- Runs whose ids fit no month: a clock is wrong, or the roller stands still.
SELECT count(*) FROM (SELECT 1 FROM workflows_execution_pdefault LIMIT 1000) counted

-- name: oldest
SELECT kind, GREATEST(0, COALESCE(EXTRACT(epoch FROM now() - since), 0))
  FROM (SELECT 'pass' AS kind, min(enqueued_at) AS since FROM workflows_decidequeue
         WHERE NOT quarantined AND next_attempt_at <= now()
        UNION ALL SELECT 'timer', min(due_at) FROM workflows_timer WHERE NOT quarantined AND due_at <= now()
        UNION ALL SELECT 'delivery', min(next_attempt_at) FROM outbox_event
         WHERE delivered_at IS NULL AND dead_at IS NULL AND next_attempt_at <= now()
        UNION ALL SELECT 'task', min(visible_at) FROM dispatch_queuedtask
         WHERE lease_token IS NULL AND visible_at <= now()) waiting
