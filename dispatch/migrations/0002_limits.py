from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dispatch", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Permit",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("namespace", models.TextField()),
                ("semaphore", models.TextField()),
                ("task_id", models.UUIDField()),
                ("workflow_id", models.UUIDField()),
                ("lease_token", models.UUIDField()),
                ("permits", models.IntegerField()),
                ("acquired_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="RateBucket",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("namespace", models.TextField()),
                ("name", models.TextField()),
                ("used", models.IntegerField()),
                ("window_ends_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Semaphore",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("namespace", models.TextField()),
                ("name", models.TextField()),
                ("permits", models.IntegerField()),
                ("description", models.TextField(null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="SemaphoreWaiter",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("namespace", models.TextField()),
                ("semaphore", models.TextField()),
                ("queue", models.TextField()),
                ("name", models.TextField()),
                ("asked_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
            },
        ),
        migrations.RemoveIndex(
            model_name="queuedtask",
            name="dispatch_queuedtask_ready",
        ),
        migrations.AddField(
            model_name="queuedtask",
            name="held",
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name="queuedtask",
            name="name",
            field=models.TextField(db_default=""),
        ),
        migrations.AddIndex(
            model_name="queuedtask",
            index=models.Index(
                models.F("queue"),
                models.F("namespace"),
                models.OrderBy(models.F("priority"), descending=True),
                models.F("id"),
                condition=models.Q(("held", False), ("lease_token__isnull", True)),
                name="dispatch_queuedtask_ready",
            ),
        ),
        migrations.AddIndex(
            model_name="permit",
            index=models.Index(fields=["namespace", "semaphore"], name="dispatch_permit_semaphore"),
        ),
        migrations.AddIndex(
            model_name="permit",
            index=models.Index(fields=["workflow_id"], name="dispatch_permit_workflow"),
        ),
        migrations.AddConstraint(
            model_name="permit",
            constraint=models.UniqueConstraint(fields=("task_id", "semaphore"), name="dispatch_permit_key"),
        ),
        migrations.AddConstraint(
            model_name="ratebucket",
            constraint=models.UniqueConstraint(fields=("namespace", "name"), name="dispatch_ratebucket_key"),
        ),
        migrations.AddConstraint(
            model_name="semaphore",
            constraint=models.UniqueConstraint(fields=("namespace", "name"), name="dispatch_semaphore_key"),
        ),
        migrations.AddConstraint(
            model_name="semaphorewaiter",
            constraint=models.UniqueConstraint(
                fields=("namespace", "semaphore", "queue", "name"), name="dispatch_semaphorewaiter_key"
            ),
        ),
        migrations.RunSQL(
            "UPDATE dispatch_queuedtask SET name = regexp_replace(queue, '^[^:]*:', ''); "
            "ALTER TABLE dispatch_permit SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)",
            migrations.RunSQL.noop,
        ),
    ]
