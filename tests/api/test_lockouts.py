"""Wrong credentials: counted by key, user and address in the database, refused for a while, lifted by hand or by time."""

from __future__ import annotations

import json
from hashlib import sha256
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from orchestrator.access import PERMISSIONS
from orchestrator.db.transactions import transaction
from orchestrator.managers import StoredKey
from orchestrator.models import ApiKey, AuditEntry, Lockout
from orchestrator.services import keys, lockouts
from orchestrator.services.keys import KeyRequest
from tests import flows
from tests.support import eventually
from workflows.services.retention import retire

pytestmark = pytest.mark.usefixtures("committed")
HERE, THERE = "192.0.2.1", "192.0.2.2"
FAILURES, ADDRESS_FAILURES = 3, 6


@pytest.fixture(autouse=True)
def _low_limits(settings: Any) -> None:
    change(settings, LOCKOUT_FAILURES=FAILURES, LOCKOUT_ADDRESS_FAILURES=ADDRESS_FAILURES)


def change(settings: Any, **values: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, **values}


def make() -> tuple[StoredKey, str]:
    return keys.create(KeyRequest(flows.NAMESPACE, flows.unique("key"), PERMISSIONS), actor="ann")


def call(credentials: str, address: str = HERE, **headers: str) -> HttpResponse:
    shown = {"Authorization": f"Bearer {credentials}", **headers}
    return Client(REMOTE_ADDR=address).get("/api/token/userInfo", headers=shown)  # type: ignore[return-value]


def status(key: StoredKey, secret: str, address: str = HERE) -> int:
    return call(f"{key.id}.{secret}", address).status_code


def exchange(key: StoredKey, secret: str, address: str = HERE) -> HttpResponse:
    body = {"keyId": str(key.id), "keySecret": secret}
    return Client(REMOTE_ADDR=address).post("/api/token", body, "application/json")  # type: ignore[return-value]


def lock(key: StoredKey, address: str = HERE) -> None:
    assert [status(key, "wrong", address) for _ in range(FAILURES + 1)] == [401] * FAILURES + [429]


def test_a_key_is_locked_out_on_every_way_in_and_says_for_how_long() -> None:
    key, secret = make()
    answers = [exchange(key, "wrong").status_code, status(key, "wrong"), exchange(key, "wrong").status_code]
    assert answers == [401] * FAILURES
    for answer in (exchange(key, "wrong"), call(f"{key.id}.wrong"), exchange(key, secret), call(f"{key.id}.{secret}", THERE)):
        body = json.loads(answer.content)
        assert (answer.status_code, body["code"], body["retryable"]) == (429, "LIMIT_EXCEEDED", True)
        assert 290 < int(answer["Retry-After"]) <= 300
        assert "too many wrong credentials" in body["message"].lower()


def test_nobody_else_is_hurt() -> None:
    key, secret = make()
    other, others_secret = make()
    token = json.loads(exchange(key, secret).content)["token"]
    lock(key)
    assert status(other, others_secret) == 200
    assert exchange(other, others_secret).status_code == 200
    assert call(token).status_code == 200, "a token is no guess: who holds one works on"


def test_an_address_is_locked_out_whatever_it_tries_and_a_right_key_of_it_works_on() -> None:
    key, secret = make()
    tries = ["nonsense", "a.b.c", *(f"00000000-0000-7000-8000-00000000000{n}.x" for n in range(ADDRESS_FAILURES - 2))]
    assert [call(shown).status_code for shown in tries] == [401] * ADDRESS_FAILURES
    assert call("nonsense").status_code == 429
    assert status(key, "wrong") == 429
    assert status(key, "wrong", THERE) == 401
    assert status(key, secret) == 200, "256 bits cannot be guessed: refusing them would only hurt the neighbours"
    assert exchange(key, secret).status_code == 200


def test_attempts_that_are_refused_do_not_count() -> None:
    key, _ = make()
    victim, secret = make()
    lock(key)
    assert [status(key, "wrong") for _ in range(ADDRESS_FAILURES)] == [429] * ADDRESS_FAILURES
    assert [call(shown).status_code for shown in ["nonsense"] * 4] == [401] * 3 + [429]
    assert [status(victim, "wrong") for _ in range(FAILURES)] == [429] * FAILURES
    assert status(victim, secret) == 200


def test_a_lock_out_ends_by_itself(settings: Any) -> None:
    change(settings, LOCKOUT_SECONDS=1.5)
    key, secret = make()
    lock(key)
    assert status(key, secret) == 429
    eventually(lambda: status(key, secret) == 200)
    lock(key)


def test_failures_are_forgotten_after_the_window(settings: Any) -> None:
    change(settings, LOCKOUT_WINDOW_SECONDS=0.2)
    key, _ = make()
    for _ in range(3):
        assert [status(key, "wrong") for _ in range(FAILURES - 1)] == [401] * (FAILURES - 1)
        eventually(lambda: not lockouts.find_all())
    assert not Lockout.objects.exclude(locked_until=None).exists()


def test_what_is_no_guess_does_not_count() -> None:
    key, old = make()
    token = json.loads(exchange(key, old).content)["token"]
    _, new = keys.rotate(flows.NAMESPACE, key.id, actor="ann")
    for shown in (f"{key.id}.{old}", token) * FAILURES:
        assert call(shown).status_code == 401, "a fleet that still has the old secret"
    assert status(key, new) == 200
    keys.revoke(flows.NAMESPACE, key.id, actor="ann")
    for _ in range(ADDRESS_FAILURES + 1):
        assert status(key, new) == 401
    assert not Lockout.objects.exists()


def test_a_secret_that_another_process_just_made_is_no_guess() -> None:
    key, secret = make()
    assert status(key, secret) == 200
    with transaction():
        ApiKey.sql.rotate(flows.NAMESPACE, key.id, sha256(b"new").hexdigest(), 0)
    assert status(key, "new") == 200
    assert not Lockout.objects.exists()


def test_a_token_is_not_renewed_by_cutting_it_in_two() -> None:
    key, secret = make()
    head, _, tail = json.loads(exchange(key, secret).content)["token"].rpartition(".")
    body = {"keyId": head, "keySecret": tail}
    assert Client().post("/api/token", body, "application/json").status_code == 401


def test_the_open_demo_counts_nothing(settings: Any) -> None:
    change(settings, DEMO_OPEN=True)
    body = {"keyId": "any", "keySecret": "thing"}
    for _ in range(ADDRESS_FAILURES + 1):
        assert Client().post("/api/token", body, "application/json").status_code == 404
    assert not Lockout.objects.exists()


@pytest.mark.parametrize("setting", ["LOCKOUT_FAILURES", "LOCKOUT_ADDRESS_FAILURES"])
def test_either_limit_can_be_switched_off(settings: Any, setting: str) -> None:
    change(settings, **{setting: 0})
    key, _ = make()
    answers = [status(key, "wrong") for _ in range(ADDRESS_FAILURES + 1)]
    expected = ADDRESS_FAILURES if setting == "LOCKOUT_FAILURES" else FAILURES
    assert answers == [401] * expected + [429] * (len(answers) - expected)


def test_the_clients_address_is_taken_from_trusted_proxies_only(settings: Any) -> None:
    proxy, inner = "198.51.100.9", "10.1.2.3"
    for _ in range(ADDRESS_FAILURES):
        call("nonsense", proxy, **{"X-Forwarded-For": "203.0.113.5"})
    assert call("nonsense", proxy, **{"X-Forwarded-For": "203.0.113.6"}).status_code == 429, "anybody can write a header"
    change(settings, PROXIES="198.51.100.0/24, 10.0.0.0/8")
    for _ in range(ADDRESS_FAILURES):
        call("nonsense", proxy, **{"X-Forwarded-For": f"made.up, 203.0.113.5, {inner}"})
    assert call("nonsense", proxy, **{"X-Forwarded-For": f"203.0.113.99, 203.0.113.5, {inner}"}).status_code == 429
    assert call("nonsense", proxy, **{"X-Forwarded-For": f"203.0.113.6, {inner}"}).status_code == 401
    assert set(Lockout.objects.values_list("kind", "name")) == {
        ("address", proxy), ("address", "203.0.113.5"), ("address", "203.0.113.6"),
    }  # fmt: skip


def test_an_address_of_version_six_is_its_network() -> None:
    for number in range(ADDRESS_FAILURES):
        call("nonsense", f"2001:db8::{number:x}")
    assert call("nonsense", "2001:db8::ffff").status_code == 429
    assert call("nonsense", "2001:db8:0:1::1").status_code == 401


def test_it_is_all_in_the_audit_trail() -> None:
    key, _ = make()
    lock(key)
    call_command("lockouts", "lift", "key", str(key.id), stdout=StringIO())
    entries = AuditEntry.objects.filter(target=str(key.id)).order_by("id").values_list("action", "outcome", "actor")
    lifted = entries[len(entries) - 1]
    assert list(entries)[:-1] == [
        ("create_key", "done", "ann"), *[("authenticate", "refused", HERE)] * FAILURES, ("lock_out", "done", "system"),
    ]  # fmt: skip
    assert lifted[:2] == ("lift_lock_out", "done")
    assert lifted[2] not in ("", "system")


def test_the_command_lists_and_lifts() -> None:
    key, secret = make()
    lock(key)
    out = StringIO()
    call_command("lockouts", "list", stdout=out)
    assert f"key      {key.id}  {FAILURES} failures, locked until" in out.getvalue()
    assert f"address  {HERE}  {FAILURES} failures\n" in out.getvalue()
    call_command("lockouts", "lift", "key", str(key.id), stdout=out)
    assert status(key, secret) == 200
    with pytest.raises(CommandError, match="Nothing is counted"):
        call_command("lockouts", "lift", "key", str(key.id))


def test_the_admin_lifts(admin_client: Client) -> None:
    key, secret = make()
    lock(key)
    row = Lockout.objects.get(kind="key")
    url = reverse("admin:orchestrator_lockout_changelist")
    page = admin_client.get(url).content.decode()
    assert str(key.id) in page
    said = admin_client.post(url, {"action": "lift_selected", "_selected_action": [str(row.pk)]}, follow=True)
    assert "Lifted: 1" in said.content.decode()
    assert status(key, secret) == 200
    assert AuditEntry.objects.filter(action="lift_lock_out", actor="admin").count() == 1


def test_rows_that_count_nothing_any_more_are_deleted(settings: Any) -> None:
    change(settings, LOCKOUT_WINDOW_SECONDS=0.1)
    key, _ = make()
    status(key, "wrong")
    assert Lockout.objects.count() == 2
    eventually(lambda: (retire(), Lockout.objects.count())[1] == 0)


def log_in(name: str, password: str, address: str = HERE) -> str:
    """The user who is logged in afterwards, or what the form says."""
    client = Client(REMOTE_ADDR=address)
    answer = client.post(reverse("admin:login"), {"username": name, "password": password})
    assert answer.status_code in (200, 302)
    return name if "_auth_user_id" in client.session else " ".join(answer.context["form"].non_field_errors())


def test_a_user_name_is_locked_out_of_the_login_form_and_no_other() -> None:
    for name in ("olga", "omar"):
        get_user_model().objects.create_superuser(name, password="right")
    assert all("correct username" in log_in("olga", "wrong") for _ in range(FAILURES))
    for password, address in (("wrong", HERE), ("right", HERE), ("right", THERE)):
        assert "try again in 5 min" in log_in("olga", password, address).lower()
    assert log_in("omar", "right") == "omar"
    call_command("lockouts", "lift", "user", "olga", stdout=StringIO())
    assert log_in("olga", "right") == "olga"


def test_right_passwords_do_not_add_up() -> None:
    get_user_model().objects.create_superuser("olga", password="right")
    assert [log_in("olga", "right") for _ in range(ADDRESS_FAILURES + 1)] == ["olga"] * (ADDRESS_FAILURES + 1)
    assert [log_in("olga", password) == "olga" for password in ("no", "right", "no", "right")] == [False, True, False, True]
    assert not AuditEntry.objects.filter(action="lock_out").exists()


def test_an_address_that_tries_one_password_on_many_names_is_locked_out_of_the_form() -> None:
    get_user_model().objects.create_superuser("olga", password="right")
    for number in range(ADDRESS_FAILURES):
        assert "correct username" in log_in(f"user{number}", "summer")
    assert "try again" in log_in("olga", "right").lower()
    assert log_in("olga", "right", THERE) == "olga"


def test_a_form_without_a_name_counts_nothing() -> None:
    for name, password in (("", "x"), ("x", ""), ("a\x00b", "x")):
        Client().post(reverse("admin:login"), {"username": name, "password": password})
    assert not Lockout.objects.exists()
