"""A response deadline is a column beside the lease that it belongs to, no longer a timer."""

from django.db import migrations, models

_MOVE = """
UPDATE dispatch_queuedtask q SET respond_by = t.due_at, lease_expires_at = LEAST(q.lease_expires_at, t.due_at)
  FROM workflows_timer t WHERE t.kind = 'RESPONSE' AND t.task_id = q.id AND t.lease_token = q.lease_token
"""


class Migration(migrations.Migration):
    dependencies = [
        ("dispatch", "0002_limits"),
        ("workflows", "0007_payload_schemas"),
    ]

    operations = [
        migrations.AddField(
            model_name="queuedtask",
            name="respond_by",
            field=models.DateTimeField(null=True),
        ),
        migrations.RunSQL(_MOVE, migrations.RunSQL.noop),
        migrations.RunSQL("DELETE FROM workflows_timer WHERE kind = 'RESPONSE'", migrations.RunSQL.noop),
    ]
