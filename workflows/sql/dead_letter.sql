-- outbox_event beside the runs and tasks that its payloads name: which dead letters nobody waits for. It only reads.

-- name: peek_idle
-- Old dead letters that name no run that lives, and no task of one. What people wrote into a payload need not be an id.
SELECT o.id FROM outbox_event o
 WHERE o.dead_at < %(before)s
   AND NOT EXISTS (
       SELECT 1
         FROM unnest(ARRAY[o.payload ->> 'workflow_id', o.payload ->> 'parent_workflow_id', o.payload ->> 'starter_workflow_id',
                           o.payload ->> 'failed_workflow_id', o.payload #>> '{detail,workflowId}']) AS n(given),
              regexp_replace(n.given, 'urn:|uuid:|[{}-]', '', 'g') AS r(hex)
         JOIN workflows_execution e ON e.id = CASE WHEN r.hex ~ '^[0-9a-fA-F]{32}$' THEN r.hex::uuid END
        WHERE e.namespace = o.namespace AND e.ended_at IS NULL)
   AND NOT EXISTS (
       SELECT 1
         FROM unnest(ARRAY[o.payload ->> 'message_id', o.payload #>> '{detail,taskId}']) AS n(given),
              regexp_replace(n.given, 'urn:|uuid:|[{}-]', '', 'g') AS r(hex)
         JOIN workflows_task t ON t.id = CASE WHEN r.hex ~ '^[0-9a-fA-F]{32}$' THEN r.hex::uuid END
         JOIN workflows_execution e ON e.id = t.workflow_id
        WHERE e.namespace = o.namespace AND e.ended_at IS NULL)
 ORDER BY o.dead_at LIMIT %(batch)s
