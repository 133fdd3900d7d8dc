"""An index of the tasks that wait for a webhook; the ends of all other tasks do not touch it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0011_task_listeners"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("consumed", False), ("type", "WAIT_FOR_WEBHOOK")),
                fields=["namespace"],
                name="workflows_task_webhooks",
            ),
        ),
    ]
