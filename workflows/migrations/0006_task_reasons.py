"""Failures have a reason, and an index holds those tasks alone: the ends of all others do not touch it."""

from django.db import migrations, models

_FAILURES = ["FAILED", "FAILED_WITH_TERMINAL_ERROR", "TIMED_OUT"]


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0005_search_attributes"),
    ]

    operations = [
        migrations.RunSQL(
            "UPDATE workflows_task SET reason = 'no reason was given' WHERE reason IS NULL"
            " AND status IN ('FAILED', 'FAILED_WITH_TERMINAL_ERROR', 'TIMED_OUT')",
            migrations.RunSQL.noop,
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=~models.Q(status__in=_FAILURES) | models.Q(reason__isnull=False), name="workflows_task_reason"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(reason__isnull=False),
                fields=["namespace", "status", "id"],
                name="workflows_task_reasons",
            ),
        ),
    ]
