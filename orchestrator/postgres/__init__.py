"""PostgreSQL without set-up."""

from orchestrator.postgres.host import OstinatoPostgresError
from orchestrator.postgres.server import ROLE, EmbeddedPostgres, create_database

__all__ = ["ROLE", "EmbeddedPostgres", "OstinatoPostgresError", "create_database"]
