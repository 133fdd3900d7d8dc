-- workflows_humantask: the inbox, a row for each open HUMAN task; the row leaves in the transaction that ends its task
-- (INV-11). Lock order: level 7, after the task's own row. A claim, its release and a reassignment hold nothing else;
-- whoever completes or escalates holds the run's gate.

-- name: insert
INSERT INTO workflows_humantask (id, workflow_id, namespace, workflow_name, ref, iteration, name, assignee, candidate_users,
    candidate_groups, due_at, created_at)
SELECT id, workflow_id, namespace, workflow_name, ref, iteration, name, assignee, candidate_users, candidate_groups, due_at, now()
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, workflow_id uuid, namespace text, workflow_name text, ref text,
       iteration text, name text, assignee text, candidate_users text[], candidate_groups text[], due_at timestamptz)

-- name: delete_for_tasks
-- lock: PER_TASK
DELETE FROM workflows_humantask
 WHERE workflow_id = ANY(%(workflow_ids)s::uuid[]) AND id = ANY(%(ids)s::uuid[])

-- name: claim
-- lock: PER_TASK
-- INV-9: that nobody holds it, that it is open and that the caller may have it all stand in the write. Its holder may
-- claim it again, also after it was escalated.
UPDATE workflows_humantask
   SET claimed_by = %(who)s, claimed_at = CASE WHEN claimed_by IS NULL THEN now() ELSE claimed_at END
 WHERE workflow_id = %(workflow_id)s AND id = %(id)s
   AND (claimed_by = %(who)s
     OR claimed_by IS NULL
    AND (%(anyone)s OR assignee = %(who)s OR %(who)s = ANY(candidate_users) OR candidate_groups && %(groups)s::text[]
      OR assignee IS NULL AND candidate_users = '{}' AND candidate_groups = '{}'))
RETURNING id, workflow_id, workflow_name, ref, iteration, name, assignee, candidate_users, candidate_groups, claimed_by,
          claimed_at, created_at, due_at, escalated_at

-- name: release
-- lock: PER_TASK
UPDATE workflows_humantask SET claimed_by = NULL, claimed_at = NULL
 WHERE workflow_id = %(workflow_id)s AND id = %(id)s AND (claimed_by = %(who)s OR %(anyone)s AND claimed_by IS NOT NULL)
RETURNING id, workflow_id, workflow_name, ref, iteration, name, assignee, candidate_users, candidate_groups, claimed_by,
          claimed_at, created_at, due_at, escalated_at

-- name: reassign
-- lock: PER_TASK
-- The claim goes with the old assignment, or two people would work on it.
UPDATE workflows_humantask
   SET assignee = %(assignee)s, candidate_users = %(users)s::text[], candidate_groups = %(groups)s::text[], claimed_by = NULL,
       claimed_at = NULL
 WHERE workflow_id = %(workflow_id)s AND id = %(id)s
RETURNING id, workflow_id, workflow_name, ref, iteration, name, assignee, candidate_users, candidate_groups, claimed_by,
          claimed_at, created_at, due_at, escalated_at

-- name: escalate
-- lock: PER_TASK
-- Whoever holds the task keeps it; if they let it go, it is open to its new owner alone.
UPDATE workflows_humantask
   SET assignee = %(assignee)s, candidate_users = '{}', candidate_groups = %(groups)s::text[], escalated_at = now()
 WHERE workflow_id = %(workflow_id)s AND id = %(id)s
RETURNING claimed_by

-- name: find
SELECT id, workflow_id, workflow_name, ref, iteration, name, assignee, candidate_users, candidate_groups, claimed_by,
       claimed_at, created_at, due_at, escalated_at
  FROM workflows_humantask WHERE namespace = %(namespace)s AND id = %(id)s

-- name: page
-- Oldest first, after the task that the page before ended with. A person's are those assigned, offered or held by name.
SELECT id, workflow_id, workflow_name, ref, iteration, name, assignee, candidate_users, candidate_groups, claimed_by,
       claimed_at, created_at, due_at, escalated_at
  FROM workflows_humantask
 WHERE namespace = %(namespace)s AND (%(after)s::uuid IS NULL OR id > %(after)s::uuid)
   AND (%(person)s::text IS NULL OR assignee = %(person)s OR claimed_by = %(person)s OR %(person)s = ANY(candidate_users))
   AND (%(group)s::text IS NULL OR %(group)s = ANY(candidate_groups))
   AND (%(claimed)s::boolean IS NULL OR (claimed_by IS NOT NULL) = %(claimed)s)
   AND (%(workflow_name)s::text IS NULL OR workflow_name = %(workflow_name)s)
 ORDER BY id LIMIT %(batch)s
