"""Requests of a key in a minute, when they are counted: a key that has none left waits, and no other does."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from orchestrator.services import keys
from orchestrator.services.keys import KeyRequest
from tests import flows
from tests.support import eventually

pytestmark = pytest.mark.usefixtures("committed")


def a_key() -> dict[str, str]:
    key, secret = keys.create(KeyRequest(flows.NAMESPACE, flows.unique("key"), ("view",)), actor="ann")
    return {"Authorization": f"Bearer {key.id}.{secret}"}


def ask(headers: dict[str, str]) -> Any:
    return Client().get("/api/token/userInfo", headers=headers)


def test_a_key_has_its_requests_a_minute_and_no_other_pays_for_it(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "KEY_REQUESTS_PER_MINUTE": 5}
    busy, idle = a_key(), a_key()
    answers = [ask(busy) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
    refused = answers[-1]
    assert 1 <= int(refused["Retry-After"]) <= 12
    assert (refused.json()["code"], refused.json()["retryable"]) == ("LIMIT_EXCEEDED", True)
    assert "5 requests a minute" in refused.json()["message"]
    assert ask(idle).status_code == 200


def test_requests_come_back_with_time(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "KEY_REQUESTS_PER_MINUTE": 120}
    headers = a_key()
    while ask(headers).status_code == 200:
        continue
    eventually(lambda: ask(headers).status_code == 200)


def test_nothing_is_counted_unless_it_is_asked_for() -> None:
    headers = a_key()
    assert {ask(headers).status_code for _ in range(20)} == {200}
