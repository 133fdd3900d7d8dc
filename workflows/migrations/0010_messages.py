"""Messages of runs, partitioned as the runs are."""

from datetime import UTC, datetime
from typing import Any

from django.db import migrations, models

from workflows.partitions import ensure_partitions

TABLE = """
CREATE TABLE workflows_message (
    id uuid NOT NULL,
    workflow_id uuid NOT NULL,
    position integer NOT NULL,
    payload jsonb NOT NULL,
    received_at timestamptz NOT NULL,
    PRIMARY KEY (workflow_id, position)
) PARTITION BY RANGE (workflow_id)
"""


def make_partitions(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        ensure_partitions(cursor, datetime.now(UTC))


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0009_human_tasks"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(TABLE, "DROP TABLE workflows_message CASCADE"),
                migrations.RunPython(make_partitions, migrations.RunPython.noop),
            ],
            state_operations=[
                migrations.CreateModel(
                    name="Message",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("workflow_id", models.UUIDField()),
                        ("position", models.IntegerField()),
                        ("payload", models.JSONField()),
                        ("received_at", models.DateTimeField()),
                    ],
                    options={
                        "abstract": False,
                        "default_manager_name": "objects",
                    },
                ),
            ],
        ),
    ]
