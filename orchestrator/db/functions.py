"""Database functions for reads through the ORM."""

from __future__ import annotations

from django.db.models import Func, TextField


class JsonbPretty(Func):
    """jsonb as PostgreSQL prints it: numbers keep every digit they were stored with."""

    function = "jsonb_pretty"
    output_field = TextField()
