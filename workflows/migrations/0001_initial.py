"""Tables of runs come from SQL (partitions, storage); the state keeps Django aware of them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import migrations, models

import orchestrator.db.ids
from workflows.partitions import ensure_partitions

TABLES = (Path(__file__).parent / "sql" / "tables.sql").read_text()
DROP = "DROP TABLE workflows_execution, workflows_task, workflows_historyevent, workflows_tasklog, workflows_decidequeue, workflows_timer CASCADE"


def make_partitions(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        ensure_partitions(cursor, datetime.now(UTC))


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(TABLES, DROP),
                migrations.RunPython(make_partitions, migrations.RunPython.noop),
            ],
            state_operations=[
                migrations.CreateModel(
                    name="HistoryEvent",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("workflow_id", models.UUIDField()),
                        ("seq", models.IntegerField()),
                        ("type", models.TextField()),
                        ("task_id", models.UUIDField(null=True)),
                        ("ref", models.TextField(null=True)),
                        ("data", models.JSONField()),
                        ("at", models.DateTimeField()),
                    ],
                    options={
                        "abstract": False,
                        "default_manager_name": "objects",
                    },
                ),
                migrations.CreateModel(
                    name="DecideQueue",
                    fields=[
                        ("workflow_id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("enqueued_at", models.DateTimeField()),
                        ("bumps", models.IntegerField(db_default=0)),
                        ("attempts", models.IntegerField(db_default=0)),
                        ("next_attempt_at", models.DateTimeField()),
                        ("last_error", models.TextField(null=True)),
                        ("quarantined", models.BooleanField(db_default=False)),
                        ("reports_to", models.UUIDField(null=True)),
                    ],
                    options={
                        "verbose_name": "decide request",
                        "abstract": False,
                        "default_manager_name": "objects",
                        "indexes": [
                            models.Index(
                                condition=models.Q(("quarantined", False), ("reports_to__isnull", True)),
                                fields=["enqueued_at"],
                                name="workflows_decidequeue_ready",
                            ),
                            models.Index(
                                condition=models.Q(("quarantined", False), ("reports_to__isnull", False)),
                                fields=["enqueued_at"],
                                name="workflows_decidequeue_reports",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Execution",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("namespace", models.TextField()),
                        ("name", models.TextField()),
                        ("version", models.IntegerField()),
                        ("revision_id", models.UUIDField()),
                        ("status", models.TextField()),
                        ("priority", models.SmallIntegerField(db_default=0)),
                        ("correlation_id", models.TextField(null=True)),
                        ("idempotency_key", models.TextField(null=True)),
                        ("input", models.JSONField()),
                        ("output", models.JSONField(null=True)),
                        ("variables", models.JSONField()),
                        ("task_to_domain", models.JSONField()),
                        ("parent_workflow_id", models.UUIDField(null=True)),
                        ("parent_task_id", models.UUIDField(null=True)),
                        ("depth", models.SmallIntegerField(db_default=0)),
                        ("root_ended", models.BooleanField(db_default=False)),
                        ("reason", models.TextField(null=True)),
                        ("failed_refs", models.JSONField(null=True)),
                        ("failure_workflow_id", models.UUIDField(null=True)),
                        ("created_by", models.TextField(null=True)),
                        ("created_at", models.DateTimeField()),
                        ("updated_at", models.DateTimeField()),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("admitted_at", models.DateTimeField(null=True)),
                        ("last_retried_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "abstract": False,
                        "default_manager_name": "objects",
                        "indexes": [
                            models.Index(
                                models.F("namespace"),
                                models.OrderBy(models.F("created_at"), descending=True),
                                models.OrderBy(models.F("id"), descending=True),
                                name="workflows_execution_recent",
                            ),
                            models.Index(
                                models.F("namespace"),
                                models.F("name"),
                                models.OrderBy(models.F("created_at"), descending=True),
                                name="workflows_execution_name",
                            ),
                            models.Index(
                                condition=models.Q(("correlation_id__isnull", False)),
                                fields=["namespace", "correlation_id"],
                                name="workflows_execution_corr",
                            ),
                            models.Index(
                                condition=models.Q(("parent_workflow_id__isnull", False)),
                                fields=["parent_workflow_id"],
                                name="workflows_execution_parent",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Task",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("workflow_id", models.UUIDField()),
                        ("namespace", models.TextField()),
                        ("ref", models.TextField()),
                        ("iteration", models.TextField(db_default="")),
                        ("attempt", models.IntegerField(db_default=0)),
                        ("name", models.TextField()),
                        ("type", models.TextField()),
                        ("status", models.TextField()),
                        ("consumed", models.BooleanField(db_default=False)),
                        ("queue", models.TextField(null=True)),
                        ("domain", models.TextField(null=True)),
                        ("priority", models.SmallIntegerField(db_default=0)),
                        ("input", models.JSONField()),
                        ("output", models.JSONField(null=True)),
                        ("state", models.JSONField(null=True)),
                        ("spec", models.JSONField(null=True)),
                        ("reason", models.TextField(null=True)),
                        ("cause", models.TextField(null=True)),
                        ("worker_id", models.TextField(null=True)),
                        ("lease_token", models.UUIDField(null=True)),
                        ("poll_count", models.IntegerField(db_default=0)),
                        ("callback_seconds", models.IntegerField(db_default=0)),
                        ("response_seconds", models.IntegerField(db_default=0)),
                        ("timeout_seconds", models.IntegerField(db_default=0)),
                        ("retried_task_id", models.UUIDField(null=True)),
                        ("sub_workflow_id", models.UUIDField(null=True)),
                        ("first_scheduled_at", models.DateTimeField()),
                        ("scheduled_at", models.DateTimeField()),
                        ("started_at", models.DateTimeField(null=True)),
                        ("updated_at", models.DateTimeField()),
                        ("ended_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "abstract": False,
                        "default_manager_name": "objects",
                        "indexes": [
                            models.Index(fields=["id"], name="workflows_task_id"),
                            models.Index(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=["workflow_id"],
                                name="workflows_task_open",
                            ),
                            models.Index(
                                condition=models.Q(("consumed", False), ("ended_at__isnull", False)),
                                fields=["workflow_id"],
                                name="workflows_task_unconsumed",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("workflow_id", "ref", "iteration", "attempt"), name="workflows_task_identity"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TaskLog",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("workflow_id", models.UUIDField()),
                        ("task_id", models.UUIDField()),
                        ("log", models.TextField()),
                        ("created_at", models.DateTimeField()),
                    ],
                    options={
                        "abstract": False,
                        "default_manager_name": "objects",
                        "indexes": [models.Index(fields=["task_id", "id"], name="workflows_tasklog_task")],
                    },
                ),
                migrations.CreateModel(
                    name="Timer",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("namespace", models.TextField()),
                        ("kind", models.TextField()),
                        ("workflow_id", models.UUIDField()),
                        ("task_id", models.UUIDField(null=True)),
                        ("lease_token", models.UUIDField(null=True)),
                        ("due_at", models.DateTimeField()),
                        ("attempts", models.IntegerField(db_default=0)),
                        ("last_error", models.TextField(null=True)),
                        ("quarantined", models.BooleanField(db_default=False)),
                    ],
                    options={
                        "abstract": False,
                        "default_manager_name": "objects",
                        "indexes": [
                            models.Index(
                                condition=models.Q(("quarantined", False)),
                                fields=["due_at"],
                                name="workflows_timer_due",
                            ),
                            models.Index(fields=["workflow_id", "task_id"], name="workflows_timer_workflow"),
                        ],
                    },
                ),
            ],
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=orchestrator.db.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("digest", models.TextField(db_index=True)),
                ("definition", models.JSONField()),
                ("task_definitions", models.JSONField()),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=orchestrator.db.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("namespace", models.TextField()),
                ("scope", models.TextField()),
                ("key", models.TextField()),
                ("workflow_id", models.UUIDField()),
                ("request_hash", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "scope", "key"), name="workflows_idempotencykey_key")
                ],
            },
        ),
        migrations.CreateModel(
            name="TaskDefinition",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=orchestrator.db.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("namespace", models.TextField()),
                ("name", models.TextField()),
                ("definition", models.JSONField()),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "name"), name="workflows_taskdefinition_key")
                ],
            },
        ),
        migrations.CreateModel(
            name="WorkflowDefinition",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=orchestrator.db.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("namespace", models.TextField()),
                ("name", models.TextField()),
                ("version", models.IntegerField()),
                ("definition", models.JSONField()),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                ("created_by", models.TextField(null=True)),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "name", "version"), name="workflows_definition_key")
                ],
            },
        ),
    ]
