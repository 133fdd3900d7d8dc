from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="QueuedTask",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("workflow_id", models.UUIDField()),
                ("namespace", models.TextField()),
                ("queue", models.TextField()),
                ("priority", models.SmallIntegerField(db_default=0)),
                ("visible_at", models.DateTimeField()),
                ("enqueued_at", models.DateTimeField()),
                ("lease_token", models.UUIDField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("worker_id", models.TextField(null=True)),
                ("redeliveries", models.SmallIntegerField(db_default=0)),
                ("response_seconds", models.IntegerField(db_default=0)),
                ("timeout_seconds", models.IntegerField(db_default=0)),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
                "indexes": [
                    models.Index(
                        models.F("namespace"),
                        models.F("queue"),
                        models.OrderBy(models.F("priority"), descending=True),
                        models.F("id"),
                        condition=models.Q(("lease_token__isnull", True)),
                        name="dispatch_queuedtask_ready",
                    ),
                    models.Index(
                        condition=models.Q(("lease_token__isnull", False)),
                        fields=["lease_expires_at"],
                        name="dispatch_queuedtask_leased",
                    ),
                    models.Index(fields=["workflow_id"], name="dispatch_queuedtask_workflow"),
                ],
            },
        ),
        migrations.CreateModel(
            name="WorkerPoll",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("namespace", models.TextField()),
                ("queue", models.TextField()),
                ("domain", models.TextField(null=True)),
                ("worker_id", models.TextField()),
                ("last_poll_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "queue", "worker_id"), name="dispatch_workerpoll_key")
                ],
            },
        ),
        migrations.RunSQL(
            "ALTER TABLE dispatch_queuedtask SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, "
            "autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_limit = 2000)",
            migrations.RunSQL.noop,
        ),
    ]
