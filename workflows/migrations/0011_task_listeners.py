"""What tasks tell of their changes of state."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0010_messages"),
    ]

    operations = [
        migrations.AddField(model_name="task", name="listeners", field=models.JSONField(null=True)),
    ]
