-- workflows_tasklog: lines that workers logged. No locks; the append is fenced by the service that calls it.

-- name: append
INSERT INTO workflows_tasklog (id, workflow_id, task_id, log, created_at)
SELECT id, workflow_id, task_id, log, COALESCE(created_at, now())
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, workflow_id uuid, task_id uuid, log text, created_at timestamptz)

-- name: read
SELECT log, created_at FROM workflows_tasklog WHERE task_id = %(task_id)s ORDER BY id

-- name: delete
DELETE FROM workflows_tasklog WHERE workflow_id = ANY(%(workflow_ids)s::uuid[])
