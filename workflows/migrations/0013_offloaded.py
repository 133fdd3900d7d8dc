"""Objects of the payload store that runs name, partitioned as the runs are."""

from datetime import UTC, datetime
from typing import Any

from django.db import migrations, models

from workflows.partitions import ensure_partitions

TABLE = """
CREATE TABLE workflows_offloaded (
    id uuid NOT NULL,
    workflow_id uuid NOT NULL,
    key text NOT NULL,
    PRIMARY KEY (workflow_id, id)
) PARTITION BY RANGE (workflow_id);
CREATE INDEX workflows_offloaded_key ON workflows_offloaded (key)
"""


def make_partitions(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        ensure_partitions(cursor, datetime.now(UTC))


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0012_webhooks"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(TABLE, "DROP TABLE workflows_offloaded CASCADE"),
                migrations.RunPython(make_partitions, migrations.RunPython.noop),
            ],
            state_operations=[
                migrations.CreateModel(
                    name="Offloaded",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("workflow_id", models.UUIDField()),
                        ("key", models.TextField()),
                    ],
                    options={
                        "abstract": False,
                        "default_manager_name": "objects",
                        "indexes": [models.Index(fields=["key"], name="workflows_offloaded_key")],
                    },
                ),
            ],
        ),
    ]
