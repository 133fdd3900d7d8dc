"""The library's settings, as environment variables give them."""

from __future__ import annotations

from typing import Any

import environ
import pytest
from django.core.exceptions import ImproperlyConfigured

from orchestrator.checks import configuration
from orchestrator.conf import Conf, from_environment


def given(**variables: str) -> dict[str, object]:
    env = environ.Env()
    env.ENVIRON = variables  # type: ignore[assignment]
    return from_environment(env)


def test_a_variable_is_read_as_the_type_of_its_key() -> None:
    assert given(
        OSTINATO_DEMO_OPEN="on", OSTINATO_LEASE_SECONDS="7", OSTINATO_STUCK_SECONDS="0.5", OSTINATO_DATABASE="other", HOME="x"
    ) == {"DEMO_OPEN": True, "LEASE_SECONDS": 7, "STUCK_SECONDS": 0.5, "DATABASE": "other"}  # fmt: skip
    assert Conf(**given()) == Conf()


def test_one_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"OSTINATO_LEASE_SECONDS: expected int.*soon"):
        given(OSTINATO_LEASE_SECONDS="soon")


def test_proxies_that_are_no_networks_are_refused_at_start_up(settings: Any) -> None:
    for listed, wrong in (("10.0.0.0/8, ::1", 0), ("", 0), ("10.0.0.0/8 ::1", 1), ("proxy.example", 1)):
        settings.OSTINATO = {**settings.OSTINATO, "PROXIES": listed}
        assert len([found for found in configuration(None) if found.id == "ostinato.E008"]) == wrong, listed
