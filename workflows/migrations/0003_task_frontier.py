"""One index of open and unconsumed tasks, which the end of a task does not touch, and one key that finds a task by its id."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0002_schedules"),
    ]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE workflows_task DROP CONSTRAINT workflows_task_pkey, ADD PRIMARY KEY (id, workflow_id)",
            "ALTER TABLE workflows_task DROP CONSTRAINT workflows_task_pkey, ADD PRIMARY KEY (workflow_id, id)",
        ),
        migrations.RemoveIndex(model_name="task", name="workflows_task_id"),
        migrations.RemoveIndex(model_name="task", name="workflows_task_open"),
        migrations.RemoveIndex(model_name="task", name="workflows_task_unconsumed"),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(consumed=False), fields=["workflow_id"], name="workflows_task_frontier"
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(ended_at__isnull=False) | models.Q(consumed=False), name="workflows_task_open"
            ),
        ),
    ]
