"""What `up` does to a database before it serves: migrate, the first administrator, the demo."""

from __future__ import annotations

import secrets
from importlib.util import find_spec

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.migrations.exceptions import InconsistentMigrationHistory

from orchestrator.management.folder import DataFolder, write_private

ADMIN = "admin"


def prepare_database() -> None:
    """Bring the database to the present schema and make what a first start needs; idempotent."""
    try:
        call_command("migrate", interactive=False, verbosity=1)
    except InconsistentMigrationHistory as error:
        raise CommandError(f"The database was made by another version: {error}") from error
    ensure_admin(DataFolder(settings.DATA_DIR))
    seed_demo()


def ensure_admin(folder: DataFolder) -> None:
    """Create the administrator once; a password that somebody changed later stays changed."""
    user = get_user_model().objects.filter(username=ADMIN).first()
    if user is None:
        password = secrets.token_urlsafe(9)
        write_private(folder.admin_password, password)
        get_user_model().objects.create_superuser(ADMIN, "admin@localhost", password)
        return
    known = folder.admin_password.exists() and user.check_password(folder.admin_password.read_text().strip())
    if not known:
        folder.admin_password.unlink(missing_ok=True)


def seed_demo() -> None:
    """The demo's definitions; present unless the package was installed without it."""
    if find_spec("orchestrator.demo") is not None:
        from orchestrator.demo import seed

        seed()
