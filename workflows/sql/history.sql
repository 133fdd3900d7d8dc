-- workflows_historyevent: gapless by seq, append-only. Lock order: level 10, no lock of its own: the run's gate, taken
-- earlier in the transaction, serialises its writers.

-- name: append
-- INV-9: MAX(seq) + 1 in a statement after the gate was taken; the primary key is the net.
INSERT INTO workflows_historyevent (id, workflow_id, seq, type, task_id, ref, data, at)
SELECT r.id, r.workflow_id,
       COALESCE((SELECT h.seq FROM workflows_historyevent h WHERE h.workflow_id = r.workflow_id ORDER BY h.seq DESC LIMIT 1), 0)
         + row_number() OVER (PARTITION BY r.workflow_id ORDER BY r.position),
       r.type, r.task_id, r.ref, r.data, now()
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, workflow_id uuid, position integer, type text, task_id uuid, ref text,
       data jsonb)

-- name: read
SELECT seq, type, task_id, ref, data, at FROM workflows_historyevent
 WHERE workflow_id = %(workflow_id)s AND seq > %(after)s ORDER BY seq LIMIT %(batch)s

-- name: delete
DELETE FROM workflows_historyevent WHERE workflow_id = ANY(%(workflow_ids)s::uuid[])
