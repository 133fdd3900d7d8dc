"""API keys: shown once, kept as digests, exchanged for tokens, narrowed by permission, queue and namespace."""

from __future__ import annotations

import json
from base64 import b64encode
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from orchestrator.access import PERMISSIONS
from orchestrator.errors import Forbidden, Invalid, InvalidToken, NotFound
from orchestrator.managers import StoredKey
from orchestrator.models import ApiKey, AuditEntry
from orchestrator.services import keys
from orchestrator.services.keys import KeyRequest
from tests import flows
from tests.support import eventually
from workflows.services import definitions
from workflows.services.starting import StartRequest, start

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE


def make(*permissions: str, queues: tuple[str, ...] = (), namespace: str = NS) -> tuple[StoredKey, str]:
    wanted = KeyRequest(namespace, flows.unique("key"), permissions or PERMISSIONS, queues)
    return keys.create(wanted, actor="ann")


def bearer(key: StoredKey, secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.id}.{secret}"}


def call(method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> HttpResponse:
    raw = b"" if body is None else json.dumps(body).encode()
    return Client().generic(method, path, raw, content_type="application/json", headers=headers or {})  # type: ignore[return-value]


def exchange(key: StoredKey, secret: str) -> str:
    answer = call("POST", "/api/token", {"keyId": str(key.id), "keySecret": secret})
    assert answer.status_code == 200, answer.content
    return str(json.loads(answer.content)["token"])


def who(headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    answer = call("GET", "/api/token/userInfo", headers=headers)
    return answer.status_code, json.loads(answer.content)


def test_a_secret_is_shown_once_and_stored_nowhere() -> None:
    admin = bearer(*make())
    made = json.loads(
        call("POST", "/api/keys", {"name": "orders", "permissions": ["work"], "queues": ["order_*"]}, admin).content
    )
    assert (made["state"], made["permissions"], made["queues"]) == ("active", ["work"], ["order_*"])
    listed = json.loads(call("GET", "/api/keys", headers=admin).content)
    alone = json.loads(call("GET", f"/api/keys/{made['id']}", headers=admin).content)
    assert alone in listed
    assert "secret" not in json.dumps([listed, alone])
    with connection.cursor() as cursor:
        cursor.execute("SELECT k::text FROM orchestrator_apikey k UNION ALL SELECT a::text FROM orchestrator_auditentry a")
        assert not [row for row in cursor.fetchall() if made["secret"] in row[0]]


def test_a_key_is_given_in_every_way_clients_know() -> None:
    key, secret = make("view")
    token = exchange(key, secret)
    basic = b64encode(f"{key.id}:{secret}".encode()).decode()
    for headers in (
        bearer(key, secret),
        {"X-Authorization": token},
        {"X-Authorization": f"{key.id}.{secret}"},
        {"Authorization": f"Bearer {token}"},
        {"Authorization": f"bearer {token}"},
        {"Authorization": f"Basic {basic}"},
    ):
        status, found = who(headers)
        assert (status, found["id"], found["permissions"]) == (200, f"key:{key.name}", ["view"]), headers


@pytest.mark.parametrize(
    "headers", [
        {"Authorization": "Bearer nonsense"}, {"Authorization": "Bearer a.b"}, {"Authorization": "Bearer a.b.c"},
        {"X-Authorization": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0."}, {"Authorization": f"Bearer {'x' * 5000}"},
        {"Authorization": "Bearer 00000000-0000-7000-8000-000000000000.secret"},
    ],
)  # fmt: skip
def test_wrong_credentials_become_nobody_else_even_in_the_demo(headers: dict[str, str], settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "DEMO_OPEN": True}
    status, found = who(headers)
    assert (status, found["code"], found["error"]) == (401, "INVALID_TOKEN", "INVALID_TOKEN")


def test_a_token_expires_and_says_so(settings: Any) -> None:
    key, secret = make()
    settings.OSTINATO = {**settings.OSTINATO, "TOKEN_SECONDS": -1}
    status, found = who({"X-Authorization": exchange(key, secret)})
    assert (status, found["code"], found["error"]) == (401, "EXPIRED_TOKEN", "EXPIRED_TOKEN")


def test_a_token_of_a_replaced_secret_key_works_on_while_it_is_a_fallback(settings: Any) -> None:
    key, secret = make()
    headers = {"X-Authorization": exchange(key, secret)}
    settings.SECRET_KEY, old = "a new secret key", settings.SECRET_KEY
    assert who(headers)[0] == 401
    settings.SECRET_KEY_FALLBACKS = [old]
    assert who(headers)[0] == 200


def test_rotation_ends_the_old_secret_after_its_grace() -> None:
    admin = bearer(*make())
    key, first = make()
    token = exchange(key, first)
    path = f"/api/keys/{key.id}/rotate"
    second = json.loads(call("POST", path, {"graceSeconds": 3600}, admin).content)["secret"]
    assert [who(bearer(key, secret))[0] for secret in (first, second)] == [200, 200]
    assert who({"X-Authorization": token})[0] == 200
    third = json.loads(call("POST", path, None, admin).content)["secret"]
    assert [who(bearer(key, secret))[0] for secret in (first, second, third)] == [401, 401, 200]
    assert who({"X-Authorization": token})[0] == 401


def test_revocation_and_expiry_end_a_key_and_its_tokens(settings: Any) -> None:
    admin = bearer(*make())
    key, secret = make()
    token = exchange(key, secret)
    assert call("DELETE", f"/api/keys/{key.id}", headers=admin).status_code == 200
    assert "revoked" in who({"X-Authorization": token})[1]["message"]
    assert call("DELETE", f"/api/keys/{key.id}", headers=admin).status_code == 404
    assert call("POST", f"/api/keys/{key.id}/rotate", headers=admin).status_code == 404
    settings.OSTINATO = {**settings.OSTINATO, "KEY_CACHE_SECONDS": 0.0}
    short, secret = keys.create(KeyRequest(NS, "short", ("view",), expires_seconds=1), actor="ann")
    eventually(lambda: who(bearer(short, secret))[0] == 401)
    assert "expired" in who(bearer(short, secret))[1]["message"]


def test_a_key_does_what_it_is_permitted_and_no_more() -> None:
    key, secret = make("view")
    assert call("GET", "/api/workflow/search", headers=bearer(key, secret)).status_code == 200
    for method, path in (("POST", "/api/workflow"), ("GET", "/api/keys"), ("GET", "/api/tasks/poll/x")):
        answer = call(method, path, {} if method == "POST" else None, bearer(key, secret))
        assert (answer.status_code, json.loads(answer.content)["code"]) == (403, "FORBIDDEN"), path


def test_nobody_gives_what_he_does_not_have() -> None:
    key, secret = make("admin")
    answer = call("POST", "/api/keys", {"name": "more", "permissions": ["admin", "define"]}, bearer(key, secret))
    assert answer.status_code == 403
    assert "define" in json.loads(answer.content)["message"]
    with pytest.raises(Forbidden):
        keys.create(KeyRequest(NS, "more", ("work",)), actor="ann", granted=frozenset({"view"}))
    assert ApiKey.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "path"), [
        ({}, "name"), ({"name": 5}, "name"), ({"name": " ", "permissions": ["view"]}, "name"),
        ({"name": "x" * 201, "permissions": ["view"]}, "name"), ({"name": "x"}, "permissions"),
        ({"name": "x", "permissions": "view"}, "permissions"), ({"name": "x", "permissions": ["root"]}, "permissions"),
        ({"name": "x", "permissions": ["view"], "queues": [""]}, "queues"),
        ({"name": "x", "permissions": ["view"], "queues": [1]}, "queues"),
        ({"name": "x", "permissions": ["view"], "expiresInSeconds": 0}, "expiresInSeconds"),
        ({"name": "x", "permissions": ["view"], "expiresInSeconds": True}, "expiresInSeconds"),
        ({"name": "x", "permissions": ["view"], "expiresInSeconds": 2**70}, "expiresInSeconds"),
    ],
)  # fmt: skip
def test_a_bad_key_is_named_and_not_made(body: dict[str, Any], path: str) -> None:
    admin = bearer(*make())
    answer = call("POST", "/api/keys", body, admin)
    assert answer.status_code == 400
    assert [p["path"] for p in json.loads(answer.content)["validationErrors"]] == [path]
    assert ApiKey.objects.count() == 1


def test_the_grace_is_bounded() -> None:
    key, _ = make()
    for seconds in (-1, keys.MOST_SECONDS + 1):
        with pytest.raises(Invalid):
            keys.rotate(NS, key.id, actor="ann", grace_seconds=seconds)


def test_a_worker_key_works_on_its_queues_only() -> None:
    mine, other = flows.unique("order_ship"), flows.unique("mail")
    run = flows.start(flows.register(flows.simple("a", mine), flows.simple("b", other)))
    flows.drain()
    key, secret = make("work", "view", queues=("order_*",))
    headers = bearer(key, secret)
    for path in (f"poll/{other}", f"poll/batch/{other}?timeout=0"):
        answer = call("GET", f"/api/tasks/{path}", headers=headers)
        assert answer.status_code == 403
        assert "order_*" in json.loads(answer.content)["message"]
    (task,) = json.loads(call("GET", f"/api/tasks/poll/batch/{mine}", headers=headers).content)
    done = {"taskId": task["taskId"], "workflowInstanceId": str(run), "status": "COMPLETED", "outputData": {"x": 1}}
    assert call("POST", f"/api/tasks/{task['taskId']}/log", "hello", headers).status_code == 200
    assert call("POST", "/api/tasks", done, headers).status_code == 200
    flows.drain()
    (foreign,) = flows.lease(other)
    for method, path, body in (
        ("POST", "/api/tasks", {**done, "taskId": str(foreign.id)}),
        ("POST", "/api/tasks/update-v2", {**done, "taskId": str(foreign.id)}),
        ("POST", f"/api/tasks/{foreign.id}/log", "hello"),
        ("POST", f"/api/tasks/{run}/b/COMPLETED", {}),
    ):
        assert call(method, path, body, headers).status_code == 403, path
    assert flows.statuses(run)["b"] == "IN_PROGRESS"


def test_a_pattern_covers_a_type_in_every_domain_and_no_longer_name() -> None:
    assert keys.may_work(("order_*",), "eu:order_ship")
    assert keys.may_work(("eu:*",), "eu:order_ship")
    assert keys.may_work((), "anything")
    assert not keys.may_work(("order",), "order_ship")
    assert not keys.may_work(("order_*",), "reorder_ship")


def test_another_namespaces_objects_and_keys_are_not_there() -> None:
    definitions.register("elsewhere", {"name": "other", "version": 1, "tasks": [flows.simple("a")]}, overwrite=True)
    run = start(StartRequest("other", namespace="elsewhere"))
    foreign, foreign_secret = make(namespace="elsewhere")
    headers = bearer(*make())
    for method, path in (
        ("GET", f"/api/workflow/{run}"), ("DELETE", f"/api/workflow/{run}"), ("GET", f"/api/keys/{foreign.id}"),
        ("DELETE", f"/api/keys/{foreign.id}"), ("POST", f"/api/keys/{foreign.id}/rotate"), ("GET", "/api/keys/nonsense"),
    ):  # fmt: skip
        assert call(method, path, headers=headers).status_code == 404, path
    assert call("GET", f"/api/workflow/{run}", headers=bearer(foreign, foreign_secret)).status_code == 200
    with pytest.raises(NotFound):
        keys.revoke(NS, foreign.id, actor="ann")


def test_the_token_endpoint_refuses_what_it_does_not_know() -> None:
    key, _ = make()
    for body, status in (
        ({"keyId": str(key.id), "keySecret": "wrong"}, 401), ({"keyId": "no", "keySecret": "no"}, 401),
        ({"keyId": str(key.id)}, 400), ({"keyId": 1, "keySecret": None}, 400), ({}, 400),
    ):  # fmt: skip
        assert call("POST", "/api/token", body).status_code == status


def test_the_open_demo_tells_clients_to_go_on_without_a_token(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "DEMO_OPEN": True}
    answer = call("POST", "/api/token", {"keyId": "any", "keySecret": "thing"})
    assert (answer.status_code, json.loads(answer.content)["code"]) == (404, "NOT_FOUND")
    assert exchange(*make())


def test_a_page_of_another_site_is_not_the_demo(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "DEMO_OPEN": True}
    here = {"Host": "127.0.0.1:8080"}
    assert call("GET", "/api/workflow/search", headers=here).status_code == 200
    assert call("GET", "/api/workflow/search", headers={**here, "Origin": "http://127.0.0.1:8080"}).status_code == 200
    for headers in (
        {**here, "Origin": "https://evil.example"}, {**here, "Origin": "null"}, {"Host": "evil.example"},
        {**here, "X-Forwarded-For": "127.0.0.1"},
    ):  # fmt: skip
        assert call("POST", "/api/workflow/x", {}, headers).status_code in (400, 401), headers


def test_a_session_needs_the_csrf_token_and_a_key_does_not() -> None:
    user = get_user_model().objects.create_superuser("olga", password="pw")
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    assert client.get("/api/workflow/search").status_code == 200
    refused = client.post("/api/keys", {"name": "x", "permissions": ["view"]}, "application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert not ApiKey.objects.exists()
    key, secret = make()
    made = client.post(
        "/api/keys", {"name": "x", "permissions": ["view"]}, "application/json", headers=bearer(key, secret)
    )
    assert made.status_code == 200


def test_what_happens_to_a_key_is_in_the_audit_trail_and_its_use_on_its_row() -> None:
    key, secret = make()
    assert ApiKey.objects.get(id=key.id).last_used_at is None
    keys.authenticate(f"{key.id}.{secret}")
    assert ApiKey.objects.get(id=key.id).last_used_at is not None
    keys.rotate(NS, key.id, actor="ben")
    keys.revoke(NS, key.id, actor="cat")
    entries = AuditEntry.objects.filter(target=str(key.id)).order_by("id").values_list("action", "actor", "outcome")
    assert list(entries) == [("create_key", "ann", "done"), ("rotate_key", "ben", "done"), ("revoke_key", "cat", "done")]


def test_the_admin_shows_no_digest(admin_client: Client) -> None:
    key, _ = make()
    page = admin_client.get(reverse("admin:orchestrator_apikey_change", args=[key.id])).content.decode()
    assert key.name in page
    assert key.digests[0] not in page


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("api_key", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_makes_lists_rotates_and_revokes() -> None:
    shown = command("create", "orders", "--permission", "work", "--queue", "order_*", "--expires-in-days", "30").split()
    key_id, secret = shown[2], shown[5]
    assert keys.authenticate(f"{key_id}.{secret}").queues == ["order_*"]
    again = command("rotate", key_id, "--grace-hours", "1").split()[5]
    assert keys.authenticate(f"{key_id}.{again}").name == "orders"
    assert "orders  work on order_*  used" in command("list")
    assert "Revoked" in command("revoke", key_id)
    with pytest.raises(InvalidToken):
        keys.authenticate(f"{key_id}.{again}")
    assert "revoked" in command("list")


@pytest.mark.parametrize(
    ("arguments", "message"), [
        (("revoke", "nonsense"), "is not an id"), (("rotate", "00000000-0000-7000-8000-000000000000"), "No such API key"),
        (("create", " ", "--permission", "view"), "name: expected"), (("create", "x"), "--permission"),
        (("create", "x", "--permission", "root"), "invalid choice"),
        (("create", "x", "--permission", "view", "--expires-in-days", "0"), "expiresInSeconds"),
    ],
)  # fmt: skip
def test_the_command_says_what_is_wrong(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        command(*arguments)
