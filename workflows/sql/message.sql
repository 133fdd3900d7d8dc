-- workflows_message: messages of a run that no task has taken yet. Lock order: level 7, no lock that anybody waits for: the
-- run's gate, taken earlier in the transaction, serialises those who append and those who take.

-- name: append
-- Positions rise among the messages that wait; the primary key is the net.
INSERT INTO workflows_message (workflow_id, position, id, payload, received_at)
SELECT %(workflow_id)s,
       COALESCE((SELECT m.position FROM workflows_message m WHERE m.workflow_id = %(workflow_id)s
                  ORDER BY m.position DESC LIMIT 1), 0) + 1,
       %(id)s, %(payload)s::jsonb, now()

-- name: count_waiting
SELECT count(*) FROM workflows_message WHERE workflow_id = %(workflow_id)s

-- name: take
-- lock: PER_TASK
-- Taken and gone in one statement, so that none is handed out twice: the oldest, up to `batch`, and no more than fit into
-- `size` bytes, but always one.
WITH oldest AS MATERIALIZED (
    SELECT position, row_number() OVER w AS number, sum(octet_length(payload::text) + %(extra)s) OVER w AS size
      FROM (SELECT position, payload FROM workflows_message WHERE workflow_id = %(workflow_id)s
             ORDER BY position LIMIT %(batch)s) o
    WINDOW w AS (ORDER BY position))
DELETE FROM workflows_message m USING oldest o
 WHERE m.workflow_id = %(workflow_id)s AND m.position = o.position AND (o.number = 1 OR o.size <= %(size)s)
RETURNING m.position, m.id, m.payload, m.received_at

-- name: delete
DELETE FROM workflows_message WHERE workflow_id = ANY(%(workflow_ids)s::uuid[])
