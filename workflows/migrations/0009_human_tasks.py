"""The inbox; HUMAN tasks that are open already go into it, open to all."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0008_timers_without_leases"),
    ]

    operations = [
        migrations.CreateModel(
            name="HumanTask",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("workflow_id", models.UUIDField()),
                ("namespace", models.TextField()),
                ("workflow_name", models.TextField()),
                ("ref", models.TextField()),
                ("iteration", models.TextField()),
                ("name", models.TextField()),
                ("assignee", models.TextField(null=True)),
                ("candidate_users", django.contrib.postgres.fields.ArrayField(models.TextField())),
                ("candidate_groups", django.contrib.postgres.fields.ArrayField(models.TextField())),
                ("claimed_by", models.TextField(null=True)),
                ("claimed_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("due_at", models.DateTimeField(null=True)),
                ("escalated_at", models.DateTimeField(null=True)),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
                "indexes": [models.Index(fields=["namespace", "id"], name="workflows_humantask_inbox")],
            },
        ),
        migrations.RunSQL(
            "INSERT INTO workflows_humantask (id, workflow_id, namespace, workflow_name, ref, iteration, name,"
            " candidate_users, candidate_groups, created_at)"
            " SELECT t.id, t.workflow_id, t.namespace, e.name, t.ref, t.iteration, t.name, '{}', '{}', t.scheduled_at"
            " FROM workflows_task t JOIN workflows_execution e ON e.id = t.workflow_id"
            " WHERE t.type = 'HUMAN' AND t.ended_at IS NULL AND NOT t.consumed",
            migrations.RunSQL.noop,
        ),
    ]
