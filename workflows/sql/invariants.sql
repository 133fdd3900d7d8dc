-- Checks of the invariants: each returns the rows that break one, at most 100. They take no lock; a row that is in the
-- middle of a transaction is not seen half-way.

-- name: two_live_attempts
-- INV-6a: at most one open attempt of a ref in an iteration.
SELECT workflow_id, ref, iteration, count(*) FROM workflows_task WHERE ended_at IS NULL
 GROUP BY workflow_id, ref, iteration HAVING count(*) > 1 LIMIT 100

-- name: queue_row_without_open_task
-- INV-11: the end of a task takes it off its queue.
SELECT q.workflow_id, q.id, q.queue FROM dispatch_queuedtask q
  LEFT JOIN workflows_task t ON t.workflow_id = q.workflow_id AND t.id = q.id
 WHERE t.id IS NULL OR t.ended_at IS NOT NULL LIMIT 100

-- name: queued_task_without_queue_row
-- A task that no worker can ever be given.
SELECT t.workflow_id, t.id, t.ref FROM workflows_task t
 WHERE t.ended_at IS NULL AND t.queue IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM dispatch_queuedtask q WHERE q.id = t.id) LIMIT 100

-- name: lease_mismatch
-- INV-7a: queue row and task row agree on who holds a task.
SELECT q.workflow_id, q.id, q.queue FROM dispatch_queuedtask q
  JOIN workflows_task t ON t.workflow_id = q.workflow_id AND t.id = q.id
 WHERE q.lease_token IS DISTINCT FROM t.lease_token LIMIT 100

-- name: permit_without_lease
-- INV-7c: a permit lives as long as the lease that took it.
SELECT p.workflow_id, p.task_id, p.semaphore FROM dispatch_permit p
 WHERE NOT EXISTS (SELECT 1 FROM dispatch_queuedtask q WHERE q.id = p.task_id AND q.lease_token = p.lease_token) LIMIT 100

-- name: held_without_reason
-- A run's maxConcurrentTasks holds a task only while another one of the run is let through.
SELECT q.workflow_id, q.id, q.queue FROM dispatch_queuedtask q JOIN workflows_execution e ON e.id = q.workflow_id
 WHERE q.held AND e.status = 'RUNNING'
   AND NOT EXISTS (SELECT 1 FROM dispatch_queuedtask o WHERE o.workflow_id = q.workflow_id AND NOT o.held)
   AND NOT EXISTS (SELECT 1 FROM workflows_decidequeue d WHERE d.workflow_id = q.workflow_id) LIMIT 100

-- name: place_of_ended
-- INV-11: a run that ends gives its place under a limit back.
SELECT a.workflow_id, a.name, a.key FROM workflows_admission a
  LEFT JOIN workflows_execution e ON e.id = a.workflow_id
 WHERE e.id IS NULL OR e.ended_at IS NOT NULL OR (e.admitted_at IS NOT NULL) <> a.admitted LIMIT 100

-- name: unconsumed_without_request
-- INV-2: every completion asks for a pass.
SELECT t.workflow_id, t.id, t.ref FROM workflows_task t JOIN workflows_execution e ON e.id = t.workflow_id
 WHERE t.ended_at IS NOT NULL AND NOT t.consumed AND e.status = 'RUNNING' AND e.admitted_at IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM workflows_decidequeue q WHERE q.workflow_id = t.workflow_id) LIMIT 100

-- name: open_task_of_ended_run
-- INV-11: the end of a run ends its tasks.
SELECT t.workflow_id, t.id, t.ref FROM workflows_task t JOIN workflows_execution e ON e.id = t.workflow_id
 WHERE t.ended_at IS NULL AND e.ended_at IS NOT NULL LIMIT 100

-- name: timer_of_ended
-- INV-11: what has ended has no deadline.
SELECT m.workflow_id, m.id, m.kind FROM workflows_timer m JOIN workflows_execution e ON e.id = m.workflow_id
  LEFT JOIN workflows_task t ON t.workflow_id = m.workflow_id AND t.id = m.task_id
 WHERE e.ended_at IS NOT NULL OR t.ended_at IS NOT NULL LIMIT 100

-- name: inbox_of_ended
-- INV-11: the end of a task takes it out of the inbox.
SELECT h.workflow_id, h.id, h.ref FROM workflows_humantask h
  LEFT JOIN workflows_task t ON t.workflow_id = h.workflow_id AND t.id = h.id
 WHERE t.id IS NULL OR t.ended_at IS NOT NULL LIMIT 100

-- name: human_without_inbox
-- INV-11: whatever makes a HUMAN task puts it into the inbox, where somebody can see it.
SELECT t.workflow_id, t.id, t.ref FROM workflows_task t
 WHERE t.type = 'HUMAN' AND t.ended_at IS NULL AND NOT t.consumed
   AND NOT EXISTS (SELECT 1 FROM workflows_humantask h WHERE h.workflow_id = t.workflow_id AND h.id = t.id) LIMIT 100

-- name: history_gap
-- INV-9: seq is gapless from 1.
SELECT workflow_id, max(seq), count(*) FROM workflows_historyevent GROUP BY workflow_id
HAVING max(seq) <> count(*) OR min(seq) <> 1 LIMIT 100

-- name: child_not_reported
-- INV-5, INV-11: the end of a child ends its parent's task.
SELECT c.parent_workflow_id, c.id, c.status FROM workflows_execution c
  JOIN workflows_task t ON t.workflow_id = c.parent_workflow_id AND t.id = c.parent_task_id
 WHERE c.ended_at IS NOT NULL AND t.ended_at IS NULL AND t.sub_workflow_id = c.id LIMIT 100

-- name: stray_partition_row
-- Ids outside every month land in the DEFAULT partition and block its month from being made.
SELECT id, created_at FROM workflows_execution_pdefault LIMIT 100

-- name: quarantined
-- INV-13: what was put aside waits for a person.
SELECT workflow_id, last_error FROM workflows_decidequeue WHERE quarantined
UNION ALL SELECT workflow_id, last_error FROM workflows_timer WHERE quarantined LIMIT 100

-- name: dead_letter
-- INV-5: undelivered effects wait to be replayed.
SELECT id, topic, last_error FROM outbox_event WHERE dead_at IS NOT NULL LIMIT 100
