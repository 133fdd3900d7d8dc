from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("outbox", "0002_event_handlers"),
    ]

    operations = [
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("namespace", models.TextField()),
                ("name", models.TextField()),
                ("verifier", models.JSONField()),
                ("delivery_header", models.TextField(null=True)),
                ("created_by", models.TextField(null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
                "constraints": [models.UniqueConstraint(fields=("namespace", "name"), name="outbox_webhook_key")],
            },
        ),
        migrations.CreateModel(
            name="WebhookDelivery",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("webhook_id", models.UUIDField()),
                ("delivery_id", models.TextField()),
                ("received_at", models.DateTimeField()),
                ("matched_at", models.DateTimeField(null=True)),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
                "indexes": [
                    models.Index(
                        condition=models.Q(("matched_at__isnull", False)),
                        fields=["matched_at"],
                        name="outbox_webhookdelivery_done",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("webhook_id", "delivery_id"), name="outbox_webhookdelivery_key")
                ],
            },
        ),
    ]
