from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0003_task_frontier"),
    ]

    operations = [
        migrations.CreateModel(
            name="Admission",
            fields=[
                ("workflow_id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("namespace", models.TextField()),
                ("name", models.TextField()),
                ("key", models.TextField(null=True)),
                ("most", models.IntegerField(null=True)),
                ("counted", models.BooleanField(db_default=False)),
                ("admitted", models.BooleanField(db_default=False)),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
                "indexes": [
                    models.Index(fields=["namespace", "name", "key", "admitted"], name="workflows_admission_group"),
                    models.Index(
                        condition=models.Q(("admitted", False)),
                        fields=["workflow_id"],
                        name="workflows_admission_waiting",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Quota",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("namespace", models.TextField()),
                ("max_concurrent_executions", models.IntegerField(null=True)),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
                "default_manager_name": "objects",
                "constraints": [models.UniqueConstraint(fields=("namespace",), name="workflows_quota_key")],
            },
        ),
    ]
