"""The column of a payload in the models: whoever reads the attribute gets the whole value, wherever it is kept."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.query_utils import DeferredAttribute

from workflows import offloading


class _Whole(DeferredAttribute):
    """Reads a payload from the store when the attribute is looked at, not with the row: most readers never do."""

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if isinstance(value, offloading.Reference):
            value = instance.__dict__[self.field.attname] = offloading.whole(value)
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class PayloadField(models.JSONField):
    """An input or an output. Reading it may raise PayloadLost or StoreUnavailable."""

    descriptor_class = _Whole

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return offloading.opened(super().from_db_value(value, expression, connection))

    def deconstruct(self) -> Any:
        """As JSONField: the column is the same."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs
