from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="OutboxEvent",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("namespace", models.TextField()),
                ("topic", models.TextField()),
                ("order_key", models.UUIDField(null=True)),
                ("payload", models.JSONField()),
                ("created_at", models.DateTimeField()),
                ("attempts", models.IntegerField(db_default=0)),
                ("next_attempt_at", models.DateTimeField()),
                ("lease_token", models.UUIDField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("last_error", models.TextField(null=True)),
                ("delivered_at", models.DateTimeField(null=True)),
                ("dead_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "outbox_event",
                "abstract": False,
                "default_manager_name": "objects",
                "indexes": [
                    models.Index(
                        condition=models.Q(("dead_at__isnull", True), ("delivered_at__isnull", True)),
                        fields=["next_attempt_at", "id"],
                        name="outbox_event_deliverable",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("dead_at__isnull", True), ("delivered_at__isnull", True), ("order_key__isnull", False)
                        ),
                        fields=["order_key", "id"],
                        name="outbox_event_ordered",
                    ),
                    models.Index(
                        condition=models.Q(("dead_at__isnull", False)), fields=["dead_at"], name="outbox_event_dead"
                    ),
                    models.Index(
                        condition=models.Q(("delivered_at__isnull", False)),
                        fields=["delivered_at"],
                        name="outbox_event_done",
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            "ALTER TABLE outbox_event SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, "
            "autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_limit = 2000)",
            migrations.RunSQL.noop,
        ),
    ]
