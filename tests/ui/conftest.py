"""People who look at the pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client


@pytest.fixture(autouse=True)
def _cheap_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def admin_user(committed: None) -> User:
    """Somebody who may do everything."""
    return User.objects.create_superuser("olga", "olga@example.org", "secret")


@pytest.fixture
def operator(admin_user: User) -> Client:
    """A browser that is logged in as the administrator and holds to CSRF."""
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def viewer(committed: None) -> Client:
    """A browser of staff that may look and may not act."""
    user = User.objects.create_user("vera", "vera@example.org", "secret", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__startswith="view_"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def outsider(committed: None) -> Client:
    """A browser of somebody with an account and no rights."""
    client = Client()
    client.force_login(User.objects.create_user("otto", "otto@example.org", "secret"))
    return client


@pytest.fixture
def demo_open(settings: Any) -> None:
    """The loopback demo mode of `up`."""
    settings.OSTINATO = {**settings.OSTINATO, "DEMO_OPEN": True}
