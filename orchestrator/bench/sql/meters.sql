-- What the bench asks of the server and of the engine's tables; nothing of it is part of the system. Verbs: wal, empty,
-- analyze, unended, not_completed, tasks, steps, steps_since, runs, create_orders, order, reset_statements, top_statements.

-- name: wal
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, pg_backend_pid()

-- name: empty
TRUNCATE workflows_execution, workflows_task, workflows_historyevent, workflows_tasklog, workflows_decidequeue, workflows_timer,
    workflows_idempotencykey, dispatch_queuedtask, dispatch_workerpoll, outbox_event

-- name: analyze
ANALYZE workflows_execution, workflows_task, workflows_historyevent, workflows_decidequeue, workflows_timer, dispatch_queuedtask

-- name: unended
SELECT EXISTS (SELECT 1 FROM workflows_execution WHERE ended_at IS NULL)

-- name: not_completed
SELECT count(*) FROM workflows_execution WHERE status <> 'COMPLETED'

-- name: tasks
SELECT count(*) FROM workflows_task

-- name: steps
-- Seconds from the end of a step to the start of the next one of its run.
SELECT extract(epoch FROM started_at - before)::float8
  FROM (SELECT started_at, lag(ended_at) OVER (PARTITION BY workflow_id ORDER BY id) AS before FROM workflows_task) AS t
 WHERE before IS NOT NULL

-- name: steps_since
SELECT extract(epoch FROM started_at - before)::float8
  FROM (SELECT started_at, lag(ended_at) OVER (PARTITION BY workflow_id ORDER BY id) AS before
          FROM workflows_task WHERE scheduled_at >= %s) AS t
 WHERE before IS NOT NULL

-- name: runs
SELECT extract(epoch FROM ended_at - created_at)::float8 FROM workflows_execution

-- name: create_orders
CREATE TABLE IF NOT EXISTS bench_order (id uuid PRIMARY KEY, cart jsonb NOT NULL)

-- name: order
INSERT INTO bench_order (id, cart) VALUES (%(id)s, '{"sku": "A-1", "count": 2}')

-- name: reset_statements
SELECT pg_stat_statements_reset()

-- name: top_statements
SELECT query, calls, total_exec_time + total_plan_time FROM pg_stat_statements
 WHERE query NOT LIKE '%%pg_stat%%' ORDER BY 3 DESC LIMIT %(count)s
