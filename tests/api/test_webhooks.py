"""Webhooks: registered by name, open to whoever proves a delivery, closed to everybody else."""

from __future__ import annotations

import hmac
import json
import time
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from orchestrator.models import AuditEntry
from orchestrator.services import keys, secrets
from orchestrator.services.keys import KeyRequest
from outbox.models import OutboxEvent, Webhook, WebhookDelivery
from outbox.services import webhooks
from tests import flows
from tests.api.client import UNKNOWN, Caller, demo_api  # noqa: F401  (a fixture)
from tests.api.test_contract import BAD_BODIES
from tests.support import race

pytestmark = pytest.mark.usefixtures("committed")
VALUE = "a secret that nobody guesses"
HMAC = {"type": "HMAC_BASED", "header": "X-Signature", "secret": "shared"}
SIGNED = {
    "type": "SIGNATURE_BASED", "header": "X-Slack-Signature", "secret": "shared", "prefix": "v0=",
    "timestampHeader": "X-Slack-Request-Timestamp", "signed": "v0:{timestamp}:{body}",
}  # fmt: skip
HERE = "192.0.2.1"


@pytest.fixture(autouse=True)
def _secret(committed: None) -> None:
    secrets.put(flows.NAMESPACE, "shared", VALUE, actor="ann")


def make(verifier: dict[str, Any] | None = None, **fields: Any) -> str:
    """The id of a new webhook."""
    definition = {"name": flows.unique("hook"), "verifier": verifier or HMAC, **fields}
    return str(webhooks.create(flows.NAMESPACE, definition, actor="ann").id)


def digest(signed: bytes, secret: str = VALUE) -> bytes:
    return hmac.new(secret.encode(), signed, sha256).digest()


def send(webhook_id: str, body: bytes, address: str = HERE, **headers: str) -> HttpResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Client(REMOTE_ADDR=address, raise_request_exception=False).generic(  # type: ignore[return-value]
        "POST", f"/api/webhook/{webhook_id}", body, content_type="application/json", headers=named
    )


def deliver(webhook_id: str, payload: Any, **headers: str) -> HttpResponse:
    """Send a delivery that is signed as HMAC asks."""
    body = json.dumps(payload).encode()
    return send(webhook_id, body, X_Signature=digest(body).hex(), **headers)


def nothing_came() -> bool:
    return not OutboxEvent.objects.exists() and not WebhookDelivery.objects.exists()


def test_a_webhook_is_made_shown_replaced_and_forgotten(api: Caller) -> None:
    name = flows.unique("hook")
    made = api.json("POST", "webhooks", {"name": name, "verifier": HMAC, "deliveryHeader": "X-Id"})
    assert (made["name"], made["verifier"], made["deliveryHeader"]) == (name, HMAC, "X-Id")
    assert made["path"] == f"/api/webhook/{made['id']}"
    assert api.json("GET", "webhooks") == [made]
    assert api.json("GET", f"webhooks/{made['id']}") == made
    changed = api.json("PUT", f"webhooks/{made['id']}", {"verifier": SIGNED})
    assert (changed["id"], changed["name"], changed["verifier"]) == (made["id"], name, SIGNED)
    assert "deliveryHeader" not in changed
    assert VALUE not in json.dumps(changed)
    api.empty("DELETE", f"webhooks/{made['id']}")
    assert api.json("GET", "webhooks") == []
    done = AuditEntry.objects.filter(target=name).order_by("id").values_list("action", "outcome")
    assert list(done) == [("webhook.create", "done"), ("webhook.replace", "done"), ("webhook.delete", "done")]
    for method in ("GET", "PUT", "DELETE"):
        api.refused(method, f"webhooks/{made['id']}", {"verifier": HMAC}, status=404)


@pytest.mark.parametrize(
    ("definition", "path"),
    [
        ({"verifier": HMAC}, "name"),
        ({"name": "a b", "verifier": HMAC}, "name"),
        ({"name": "x"}, "verifier"),
        ({"name": "x", "verifier": {"type": "NONE"}}, "verifier.type"),
        ({"name": "x", "verifier": {**HMAC, "header": "a b"}}, "verifier.header"),
        ({"name": "x", "verifier": {**HMAC, "secret": 5}}, "verifier.secret"),
        ({"name": "x", "verifier": {**HMAC, "secret": "nobody"}}, "verifier.secret"),
        ({"name": "x", "verifier": {**HMAC, "secret": "short"}}, "verifier.secret"),
        ({"name": "x", "verifier": {**HMAC, "algorithm": "md5"}}, "verifier.algorithm"),
        ({"name": "x", "verifier": {**HMAC, "encoding": []}}, "verifier.encoding"),
        ({"name": "x", "verifier": {**HMAC, "prefix": 1}}, "verifier.prefix"),
        ({"name": "x", "verifier": {**HMAC, "signed": "{body}"}}, "verifier.signed"),
        ({"name": "x", "verifier": {**SIGNED, "signed": "{body}"}}, "verifier.signed"),
        ({"name": "x", "verifier": {**SIGNED, "signed": "{id}.{timestamp}.{body}"}}, "deliveryHeader"),
        ({"name": "x", "verifier": {**SIGNED, "toleranceSeconds": True}}, "verifier.toleranceSeconds"),
        ({"name": "x", "verifier": {**SIGNED, "timestampHeader": None}}, "verifier.timestampHeader"),
        ({"name": "x", "verifier": {"type": "HEADER_BASED", "headers": {}}}, "verifier.headers"),
        ({"name": "x", "verifier": {"type": "HEADER_BASED", "headers": {"X-A": "nobody"}}}, "verifier.headers.X-A"),
        ({"name": "x", "verifier": HMAC, "deliveryHeader": "a:b"}, "deliveryHeader"),
        ({"name": "x", "verifier": HMAC, "url": "y"}, "url"),
        ([], "body"),
    ],
)
def test_a_webhook_that_could_not_work_is_refused_by_path(api: Caller, definition: Any, path: str) -> None:
    secrets.put(flows.NAMESPACE, "short", "guessable", actor="ann")
    refused = api.refused("POST", "webhooks", definition)
    assert path in [problem["path"] for problem in refused["validationErrors"]]
    assert not Webhook.objects.exists()


def test_a_name_is_taken_once_and_kept(api: Caller) -> None:
    made = api.json("POST", "webhooks", {"name": "orders", "verifier": HMAC})
    api.refused("POST", "webhooks", {"name": "orders", "verifier": HMAC}, status=409)
    refused = api.refused("PUT", f"webhooks/{made['id']}", {"name": "other", "verifier": HMAC})
    assert [problem["path"] for problem in refused["validationErrors"]] == ["name"]


def test_another_namespaces_webhook_is_not_found(api: Caller) -> None:
    secrets.put("elsewhere", "shared", VALUE, actor="eve")
    other = webhooks.create("elsewhere", {"name": "orders", "verifier": HMAC}, actor="eve")
    assert api.json("GET", "webhooks") == []
    for method in ("GET", "PUT", "DELETE"):
        api.refused(method, f"webhooks/{other.id}", {"verifier": HMAC}, status=404)
    assert webhooks.get("elsewhere", other.id) == other


def test_registering_needs_the_permission_to_define() -> None:
    key, secret = keys.create(KeyRequest(flows.NAMESPACE, flows.unique("key"), ("view", "operate")), actor="ann")
    shown = {"Authorization": f"Bearer {key.id}.{secret}"}
    assert Client().get("/api/webhooks", headers=shown).status_code == 403


def test_a_signed_body_is_published_as_an_event() -> None:
    hook = make(name="orders")
    answer = deliver(hook, {"n": 1})
    assert answer.status_code == 200
    event = OutboxEvent.objects.get(topic="event.published")
    assert (event.namespace, event.payload["event"], event.payload["payload"]) == (
        flows.NAMESPACE, "webhook:orders", {"n": 1},
    )  # fmt: skip
    assert event.payload["message_id"] == json.loads(answer.content)["id"]


def test_an_hmac_in_base64_behind_a_prefix() -> None:
    hook = make({**HMAC, "encoding": "base64", "prefix": "sha256="})
    good = b64encode(digest(b"{}")).decode()
    assert send(hook, b"{}", X_Signature=f"sha256={good}").status_code == 200
    for wrong in (good, f"SHA256={good}", f"sha256={digest(b'{}').hex()}", f"sha256={good}="):
        assert send(hook, b"{}", X_Signature=wrong).status_code == 401, wrong


def test_hexadecimal_digits_may_be_large() -> None:
    assert send(make(), b"{}", X_Signature=digest(b"{}").hex().upper()).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"X_Signature": ""}, {"X_Signature": "nonsense"}, {"X_Signature": "\u00e9\u00ff"},
        {"X_Signature": digest(b'{"n": 2}').hex()}, {"X_Signature": digest(b'{"n": 1}', "another secret").hex()},
        {"X_Signature": digest(b'{"n": 1}').hex()[:-1]}, {"Authorization": f"Bearer {VALUE}"},
    ],
)  # fmt: skip
def test_what_is_not_proved_is_refused_and_not_stored(headers: dict[str, str]) -> None:
    answer = send(make(), b'{"n": 1}', **headers)
    assert answer.status_code == 401
    assert json.loads(answer.content)["code"] == "UNAUTHENTICATED"
    assert nothing_came()


def test_a_staff_session_or_the_demo_proves_nothing(api: Caller) -> None:
    api.refused("POST", f"webhook/{make()}", {"n": 1}, status=401)
    assert nothing_came()


def test_every_header_must_hold_its_secret() -> None:
    secrets.put(flows.NAMESPACE, "other", "another that nobody guesses", actor="ann")
    hook = make({"type": "HEADER_BASED", "headers": {"X-Token": "shared", "X-Tenant": "other"}})
    right = {"X_Token": VALUE, "X_Tenant": "another that nobody guesses"}
    assert send(hook, b"{}", **right).status_code == 200
    for name in right:
        assert send(hook, b"{}", **{**right, name: "wrong"}).status_code == 401
        assert send(hook, b"{}", **{key: value for key, value in right.items() if key != name}).status_code == 401


def test_a_signature_covers_its_moment_which_must_be_near() -> None:
    hook = make(SIGNED)

    def at(seconds: float, signed_at: float | None = None) -> int:
        moment = str(int(time.time() + seconds))
        signed = moment if signed_at is None else str(int(time.time() + signed_at))
        mac = digest(f"v0:{signed}:{{}}".encode()).hex()
        headers = {"X_Slack_Request_Timestamp": moment, "X_Slack_Signature": f"v0={mac} v0=old"}
        return send(hook, b"{}", **headers).status_code

    assert [at(0), at(-290), at(290)] == [200] * 3
    assert [at(-310), at(310), at(0, -310)] == [401] * 3
    for moment in ("", "now", "1e9", "-1", "\u0661\u0662"):
        mac = digest(f"v0:{moment}:{{}}".encode()).hex()
        headers = {"X_Slack_Request_Timestamp": moment, "X_Slack_Signature": f"v0={mac}"}
        assert send(hook, b"{}", **headers).status_code == 401, moment


def test_a_signature_may_cover_the_id_of_the_delivery() -> None:
    hook = make({**SIGNED, "signed": "{id}.{timestamp}.{body}"}, deliveryHeader="Webhook-Id")
    moment = str(int(time.time()))
    mac = digest(f"m1.{moment}.{{}}".encode()).hex()
    headers = {"X_Slack_Request_Timestamp": moment, "X_Slack_Signature": f"v0={mac}"}
    assert send(hook, b"{}", Webhook_Id="m1", **headers).status_code == 200
    assert send(hook, b"{}", Webhook_Id="m2", **headers).status_code == 401
    assert send(hook, b"{}", **headers).status_code == 401


def test_a_secret_that_is_replaced_or_gone_proves_nothing() -> None:
    hook = make()
    secrets.put(flows.NAMESPACE, "shared", "the next one that nobody guesses", actor="ann")
    assert deliver(hook, {}).status_code == 401
    body = b"{}"
    assert send(hook, body, X_Signature=digest(body, "the next one that nobody guesses").hex()).status_code == 200
    secrets.delete(flows.NAMESPACE, "shared", actor="ann")
    assert send(hook, body, X_Signature=digest(body, "the next one that nobody guesses").hex()).status_code == 401


def test_another_namespaces_secret_proves_nothing() -> None:
    hook = make()
    secrets.put("elsewhere", "shared", "theirs, that nobody guesses", actor="eve")
    assert send(hook, b"{}", X_Signature=digest(b"{}", "theirs, that nobody guesses").hex()).status_code == 401


@pytest.mark.parametrize("kind", BAD_BODIES)
def test_no_body_is_a_500_and_a_bad_one_stores_nothing(kind: str) -> None:
    body = BAD_BODIES[kind]
    assert send(make(), body, X_Signature=digest(body).hex()).status_code in (200, 400)
    assert send(make(), body).status_code == 401
    if kind not in ("big integer", "wrong types", "long", "deep"):
        assert nothing_came()


def test_unknown_webhooks_are_not_found() -> None:
    for unknown in (UNKNOWN, "no-such"):
        assert send(unknown, b"{}").status_code == 404


def test_a_large_delivery_is_refused_before_it_is_looked_at(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "TASK_PAYLOAD_MAX_BYTES": 100}
    hook = make()
    assert deliver(hook, {"n": "x" * 80}).status_code == 200
    refused = deliver(hook, {"n": "x" * 100})
    assert (refused.status_code, json.loads(refused.content)["code"]) == (413, "TOO_LARGE")
    assert WebhookDelivery.objects.count() == 1


def test_secrets_that_stand_in_a_body_are_not_stored() -> None:
    deliver(make(), {"note": f"it is {VALUE}"})
    assert {str(event.payload).count(VALUE) for event in OutboxEvent.objects.all()} == {0}


@pytest.mark.invariant("INV-6d")
def test_a_delivery_that_comes_twice_is_answered_twice_and_published_once() -> None:
    hook, other = make(deliveryHeader="X-Delivery"), make(deliveryHeader="X-Delivery")
    first, second = deliver(hook, {"n": 1}, X_Delivery="d1"), deliver(hook, {"n": 1}, X_Delivery="d1")
    assert (first.status_code, first.content) == (200, second.content)
    assert OutboxEvent.objects.filter(topic="event.published").count() == 1
    for webhook, headers in ((hook, {"X_Delivery": "d2"}), (hook, {}), (hook, {}), (other, {"X_Delivery": "d1"})):
        assert deliver(webhook, {"n": 1}, **headers).content != first.content
    assert OutboxEvent.objects.filter(topic="event.published").count() == 5


@pytest.mark.invariant("INV-6d")
def test_the_same_delivery_at_one_moment_is_published_once() -> None:
    hook = make(deliveryHeader="X-Delivery")
    answers = race(8, lambda i: deliver(hook, {"n": 1}, X_Delivery="d1").content)
    assert len(set(answers)) == 1
    assert OutboxEvent.objects.filter(topic="event.published").count() == 1


def test_the_id_of_a_delivery_has_a_length() -> None:
    hook = make(deliveryHeader="X-Delivery")
    assert deliver(hook, {}, X_Delivery="d" * 255).status_code == 200
    assert deliver(hook, {}, X_Delivery="d" * 256).status_code == 400


def test_an_address_that_guesses_is_locked_out_and_a_right_delivery_is_no_guess(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "LOCKOUT_ADDRESS_FAILURES": 3}
    hook = make()
    answers = [send(hook, b"{}") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [401] * 3 + [429]
    assert int(answers[-1]["Retry-After"]) > 0
    assert send(hook, b"{}", "192.0.2.2").status_code == 401
    assert deliver(hook, {}).status_code == 200
    refused = AuditEntry.objects.filter(action="authenticate", target=HERE, outcome="refused")
    assert refused.count() == 3


def test_a_webhook_has_its_deliveries_a_minute(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "KEY_REQUESTS_PER_MINUTE": 2}
    hook, idle = make(), make()
    for _ in range(3):
        assert send(hook, b"{}").status_code == 401
    assert [deliver(hook, {}).status_code for _ in range(3)] == [200, 200, 429]
    assert deliver(idle, {}).status_code == 200
    assert WebhookDelivery.objects.count() == 3


@pytest.mark.parametrize("depth", [200, 500, 900, 1000, 3000])
def test_a_deep_body_with_a_secret_in_it_is_kept_or_refused(depth: int) -> None:
    body = b'{"a":' * depth + json.dumps(VALUE).encode() + b"}" * depth
    assert send(make(), body, X_Signature=digest(body).hex()).status_code in (200, 400)
    assert {str(event.payload).count(VALUE) for event in OutboxEvent.objects.all()} in (set(), {0})
