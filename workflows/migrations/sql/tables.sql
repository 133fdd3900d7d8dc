-- Tables of a run. Each is partitioned by the UUIDv7 of the run with the same bounds, so a month of runs is one
-- aligned set of partitions; unique keys contain the partition key and so hold globally.
CREATE TABLE workflows_execution (
    id uuid NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    revision_id uuid NOT NULL,
    status text NOT NULL,
    priority smallint NOT NULL DEFAULT 0,
    correlation_id text,
    idempotency_key text,
    input jsonb NOT NULL,
    output jsonb,
    variables jsonb NOT NULL,
    task_to_domain jsonb NOT NULL,
    parent_workflow_id uuid,
    parent_task_id uuid,
    depth smallint NOT NULL DEFAULT 0,
    root_ended boolean NOT NULL DEFAULT false,
    reason text,
    failed_refs jsonb,
    failure_workflow_id uuid,
    created_by text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    ended_at timestamptz,
    admitted_at timestamptz,
    last_retried_at timestamptz,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX workflows_execution_recent ON workflows_execution (namespace, created_at DESC, id DESC);
CREATE INDEX workflows_execution_name ON workflows_execution (namespace, name, created_at DESC);
CREATE INDEX workflows_execution_corr ON workflows_execution (namespace, correlation_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX workflows_execution_parent ON workflows_execution (parent_workflow_id) WHERE parent_workflow_id IS NOT NULL;

CREATE TABLE workflows_task (
    id uuid NOT NULL,
    workflow_id uuid NOT NULL,
    namespace text NOT NULL,
    ref text NOT NULL,
    iteration text NOT NULL DEFAULT '',
    attempt integer NOT NULL DEFAULT 0,
    name text NOT NULL,
    type text NOT NULL,
    status text NOT NULL,
    consumed boolean NOT NULL DEFAULT false,
    queue text,
    domain text,
    priority smallint NOT NULL DEFAULT 0,
    input jsonb NOT NULL,
    output jsonb,
    state jsonb,
    spec jsonb,
    reason text,
    cause text,
    worker_id text,
    lease_token uuid,
    poll_count integer NOT NULL DEFAULT 0,
    callback_seconds integer NOT NULL DEFAULT 0,
    response_seconds integer NOT NULL DEFAULT 0,
    timeout_seconds integer NOT NULL DEFAULT 0,
    retried_task_id uuid,
    sub_workflow_id uuid,
    first_scheduled_at timestamptz NOT NULL,
    scheduled_at timestamptz NOT NULL,
    started_at timestamptz,
    updated_at timestamptz NOT NULL,
    ended_at timestamptz,
    PRIMARY KEY (workflow_id, id)
) PARTITION BY RANGE (workflow_id);
-- INV-6a: task identity.
CREATE UNIQUE INDEX workflows_task_identity ON workflows_task (workflow_id, ref, iteration, attempt);
-- Endpoints that know only a task id.
CREATE INDEX workflows_task_id ON workflows_task (id);
CREATE INDEX workflows_task_open ON workflows_task (workflow_id) WHERE ended_at IS NULL;
-- INV-8: ended and not yet consumed by a pass.
CREATE INDEX workflows_task_unconsumed ON workflows_task (workflow_id) WHERE NOT consumed AND ended_at IS NOT NULL;

CREATE TABLE workflows_historyevent (
    id uuid NOT NULL,
    workflow_id uuid NOT NULL,
    seq integer NOT NULL,
    type text NOT NULL,
    task_id uuid,
    ref text,
    data jsonb NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (workflow_id, seq)
) PARTITION BY RANGE (workflow_id);

CREATE TABLE workflows_tasklog (
    id uuid NOT NULL,
    workflow_id uuid NOT NULL,
    task_id uuid NOT NULL,
    log text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workflow_id, id)
) PARTITION BY RANGE (workflow_id);
CREATE INDEX workflows_tasklog_task ON workflows_tasklog (task_id, id);

-- Tables of waiting work: narrow, unpartitioned, emptied by work itself, vacuumed eagerly.
CREATE TABLE workflows_decidequeue (
    workflow_id uuid PRIMARY KEY,
    enqueued_at timestamptz NOT NULL,
    bumps integer NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,
    last_error text,
    quarantined boolean NOT NULL DEFAULT false,
    reports_to uuid
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_limit = 2000);
CREATE INDEX workflows_decidequeue_ready ON workflows_decidequeue (enqueued_at) WHERE NOT quarantined AND reports_to IS NULL;
CREATE INDEX workflows_decidequeue_reports ON workflows_decidequeue (enqueued_at) WHERE NOT quarantined AND reports_to IS NOT NULL;

CREATE TABLE workflows_timer (
    id uuid PRIMARY KEY,
    namespace text NOT NULL,
    kind text NOT NULL,
    workflow_id uuid NOT NULL,
    task_id uuid,
    lease_token uuid,
    due_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    last_error text,
    quarantined boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_limit = 2000);
CREATE INDEX workflows_timer_due ON workflows_timer (due_at) WHERE NOT quarantined;
CREATE INDEX workflows_timer_workflow ON workflows_timer (workflow_id, task_id);
