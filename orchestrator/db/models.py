"""The base of engine tables: `objects` refuses writes, so the raw verbs are the only door."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models

from orchestrator.errors import ProgrammingError


class ReadOnlyQuerySet(models.QuerySet[Any]):
    """Reads; a write through the ORM would pass by locks and fences."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ProgrammingError(f"{self.model.__name__} is written by its `sql` verbs only")

    create = update = delete = bulk_create = bulk_update = get_or_create = update_or_create = _refuse  # type: ignore[assignment]


class EngineModel(models.Model):
    """A table of the engine."""

    objects = ReadOnlyQuerySet.as_manager()

    class Meta:
        abstract = True
        default_manager_name = "objects"

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ProgrammingError(f"{type(self).__name__} is written by its `sql` verbs only")

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ProgrammingError(f"{type(self).__name__} is written by its `sql` verbs only")


class VerbManager(models.Manager[Any]):
    """The raw verbs of a table: each is one named statement."""

    use_in_migrations = False
