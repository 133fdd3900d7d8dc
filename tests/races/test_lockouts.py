"""Guesses made at the same moment: no more of them are judged than a lock-out allows."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.errors import LockedOut
from orchestrator.models import AuditEntry, Lockout
from orchestrator.services import lockouts
from orchestrator.services.lockouts import Subject
from tests.support import race

pytestmark = pytest.mark.usefixtures("committed")
SUBJECTS = (Subject("user", "olga"), Subject("address", "192.0.2.1"))


def test_of_many_guesses_at_once_no_more_are_judged_than_allowed(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "LOCKOUT_FAILURES": 5}
    judged = race(20, lambda _: lockouts.begin(*SUBJECTS))
    refused = [found for found in judged if isinstance(found, LockedOut)]
    assert (len(judged) - len(refused), len(refused)) == (5, 15)


def test_failures_and_successes_at_once_add_up_and_lock_once(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "LOCKOUT_FAILURES": 8, "LOCKOUT_ADDRESS_FAILURES": 100}

    def attempt(number: int) -> None:
        begun = lockouts.begin(*(SUBJECTS if number % 2 else reversed(SUBJECTS)))
        if number < 8:
            lockouts.refuse(begun, "default")
        else:
            lockouts.forgive(begun)

    for _ in range(8, 16):
        attempt(8)
    assert set(Lockout.objects.values_list("failures", flat=True)) == {0}
    assert race(8, attempt) == [None] * 8
    assert set(Lockout.objects.values_list("failures", flat=True)) == {8}
    assert AuditEntry.objects.filter(action="lock_out").count() == 1
