"""Timers belong to tasks and runs; what belonged to a lease stands beside it."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0007_payload_schemas"),
        ("dispatch", "0003_respond_by"),
    ]

    operations = [
        migrations.RemoveField(model_name="timer", name="lease_token"),
    ]
