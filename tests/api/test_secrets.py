"""Secrets: sealed, handed out in copies only, gone from everything that is stored or shown; environment variables."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from io import StringIO
from os import urandom
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from dispatch.services.dispatching import lease_system_tasks, report
from dispatch.system_tasks import run_system_task
from dispatch.worker import run_task
from orchestrator.models import AuditEntry
from orchestrator.services import keyring, secrets
from orchestrator.services.keyring import NoKey, Sealed
from tests import flows
from tests.api.client import Caller, calls, demo_api, filled  # noqa: F401  (a fixture)
from tests.database import engine_tables
from tests.flows import NAMESPACE, drain, register, simple, unique

VALUE = 'p"ss\nw\\rd-1234567é'
"""It has what JSON escapes."""
TOKEN = "${workflow.secrets.TOKEN}"


@pytest.fixture(autouse=True)
def token(api: Caller) -> None:
    secrets.put(NAMESPACE, "TOKEN", VALUE, actor="ann")


def forms(value: str) -> list[str]:
    """The value as text, and inside JSON, once and twice."""
    once = json.dumps(value)[1:-1]
    return list(dict.fromkeys([value, once, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(once)[1:-1]]))


def stored_anywhere(value: str) -> list[str]:
    """Tables with a row that holds the value."""
    found = []
    with connection.cursor() as cursor:
        for table in engine_tables():
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            if any(form in row[0] for row in cursor.fetchall() for form in forms(value)):
                found.append(table)
    return found


def polled(api: Caller, *tasks: dict[str, Any], **input: Any) -> dict[str, Any]:
    """The first task of a run as a worker gets it."""
    api.text("post", "workflow", {"name": register(*tasks), "input": input})
    task: dict[str, Any] = api.json("get", f"tasks/poll/{tasks[0]['name']}?workerid=w")
    return task


def sent(task: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "status": "COMPLETED", **fields}


def test_a_secret_is_set_named_and_forgotten_and_never_read(api: Caller) -> None:
    api.empty("put", "secrets/OTHER", b"raw text\nof two lines")
    assert api.json("get", "secrets") == api.json("post", "secrets") == ["OTHER", "TOKEN"]
    assert api.json("get", "secrets/OTHER/exists") is True
    api.refused("get", "secrets/OTHER", status=405)
    api.empty("put", "secrets/OTHER/tags", [{"key": "team", "value": "red"}])
    assert [tag["key"] for tag in api.json("get", "secrets/OTHER/tags")] == ["team"]
    assert api.json("get", "secrets-v2")[0]["tags"][0]["value"] == "red"
    api.empty("delete", "secrets/OTHER")
    assert api.json("get", "secrets/OTHER/exists") is False
    api.refused("delete", "secrets/OTHER", status=404)
    api.refused("get", "secrets/OTHER/tags", status=404)
    entries = AuditEntry.objects.filter(target="OTHER", action__startswith="secret.").order_by("id")
    assert list(entries.values_list("action", "detail")) == [("secret.put", {}), ("secret.delete", {})]
    assert stored_anywhere("raw text") == []
    assert stored_anywhere(VALUE) == []


@pytest.mark.parametrize(
    ("body", "kind", "value"), [
        (b'"quoted"', "application/json", "quoted"), (b"plain", "application/json", "plain"),
        (b'a\\"b\\nc', "application/json", 'a"b\nc'), (b"two\nlines", "application/json", "two\nlines"),
        (b'a\\nb', "text/plain", "a\\nb"), (b'{"a": 1}', "application/json", '{"a": 1}'), (b"5", "application/json", "5"),
    ],
)  # fmt: skip
def test_a_value_as_every_sdk_sends_it(api: Caller, body: bytes, kind: str, value: str) -> None:
    response = api.client.put("/api/secrets/SENT", body, content_type=kind)
    assert response.status_code == 200
    assert secrets.values(NAMESPACE, ["SENT"]) == {"SENT": value}


@pytest.mark.parametrize("name", ["a b", "1a", "a.b", "ä", "a" * 201])
def test_a_name_that_no_reference_spells_is_refused(api: Caller, name: str) -> None:
    api.refused("put", f"secrets/{name}", b"v")
    api.refused("put", f"environment/{name}", b"v")


@pytest.mark.parametrize("body", [b"", b"\x00", b"\xff", b"x" * 70_000])
def test_a_value_that_cannot_be_kept_is_refused(api: Caller, body: bytes) -> None:
    api.refused("put", "secrets/BAD", body)


def test_usage_is_shown(api: Caller) -> None:
    name = register(simple("a", inputParameters={"t": f"Bearer {TOKEN}"}), simple("b", inputParameters={"t": "$" + TOKEN}))
    register(simple("c", inputParameters={"t": "${workflow.secrets.TOKEN_2}"}))
    assert api.json("get", "secrets/TOKEN/usage") == [
        {"workflowName": name, "workflowVersion": 1, "taskReferenceName": "a"}
    ]
    api.refused("get", "secrets/NONE/usage", status=404)


def test_a_worker_gets_the_value_and_nobody_else_sees_it(api: Caller, caplog: Any, capsys: Any) -> None:
    """The walk: a worker sends the value back in every way there is; then every read path is looked through."""
    caplog.set_level(logging.DEBUG)
    queue, other = unique("q"), unique("q")
    parameters = {"t": TOKEN, "deep": [{"u": f"x {TOKEN}"}]}
    tasks = [
        simple("a", queue, inputParameters=parameters, retryCount=1),
        {"name": "script", "taskReferenceName": "script", "type": "INLINE",
         "inputParameters": {"t": TOKEN, "evaluatorType": "graaljs", "expression": "({echo: $.t})"}},
        {"name": "bad", "taskReferenceName": "bad", "type": "INLINE", "optional": True,
         "inputParameters": {"t": TOKEN, "evaluatorType": "graaljs", "expression": "throw new Error($.t)"}},
        simple("b", other, inputParameters={"t": TOKEN, "from": "${a.output}"}),
        {"name": "wait", "taskReferenceName": "wait", "type": "WAIT"},
    ]  # fmt: skip
    task = polled(api, *tasks)
    run = task["workflowInstanceId"]
    assert task["inputData"] == {"t": VALUE, "deep": [{"u": f"x {VALUE}"}]}
    api("post", f"tasks/{task['taskId']}/log", f"log {VALUE}".encode())
    api.text("post", "tasks", sent(task, status="IN_PROGRESS", outputData={VALUE: 1}, logs=[{"log": f"and {VALUE}"}]))
    again = api.json("get", f"tasks/poll/{queue}?workerid=w")
    assert again["outputData"] == {secrets.MASK: 1}
    api.text("post", "tasks", sent(again, outputData={"o": [VALUE, {"k": f"-{VALUE}-"}]}, reasonForIncompletion=VALUE))
    late = {**sent(again, outputData={"late": VALUE}), "status": "FAILED"}
    api.text("post", "tasks", late)
    flows.drain()
    for _ in range(2):
        for found in lease_system_tasks(["INLINE"], batch=5, worker_id="s"):
            report([run_task(found, run_system_task)], strict=True)
        drain()
    last = api.json("get", f"tasks/poll/{other}?workerid=w")
    assert last["inputData"] == {"t": VALUE, "from": {"o": [secrets.MASK, {"k": f"-{secrets.MASK}-"}]}}
    api.text("post", f"tasks/{run}/b/COMPLETED", {"by ref": VALUE})
    body = {"taskReferenceName": "wait", "taskResult": {"outputData": {"w": VALUE}, "reasonForIncompletion": VALUE}}
    ended = api.json("post", f"workflow/{run}/state?waitForSeconds=0", body)
    assert ended["status"] == "COMPLETED"
    outputs = {t["referenceTaskName"]: t["outputData"] for t in ended["tasks"]}
    assert outputs["script"] == {"result": {"echo": secrets.MASK}}
    assert stored_anywhere(VALUE) == []
    assert stored_anywhere(secrets.MASK) != []
    _walk(api, run, [t["taskId"] for t in ended["tasks"]])
    logged = caplog.text + "".join(capsys.readouterr())
    assert not [form for form in forms(VALUE) if form in logged]


def _walk(api: Caller, run: str, tasks: list[str]) -> None:
    """Every GET of the API, the operators' pages and the admin."""
    get_user_model().objects.create_superuser("root", "root@example.org", "pw")
    browser = Client()
    browser.login(username="root", password="pw")
    name = api.json("get", f"workflow/{run}?includeTasks=false")["workflowName"]
    paths = {
        f"/api/{filled(pattern, workflow_id=run, task_id=task, name=name)}"
        for _, pattern in calls("get")
        for task in tasks
        if not pattern.startswith(("tasks/poll", "scheduler/admin"))
    }
    paths |= {f"/api/metadata/workflow/{name}", f"/api/workflow/search?freeText=TOKEN&query=workflowId={run}"}
    paths |= {reverse("ops:executions", args=[NAMESPACE]), reverse("ops:execution", args=[NAMESPACE, run])}
    paths |= {reverse("ops:payload", args=[NAMESPACE, run, task, field]) for task in tasks for field in ("input", "output")}
    paths |= {reverse("admin:workflows_task_change", args=[task]) for task in tasks}
    paths |= {reverse("admin:workflows_execution_change", args=[run]), reverse("admin:orchestrator_auditentry_changelist")}
    answered = 0
    for path in sorted(paths):
        for client in (api.client, browser):
            response = client.get(path)
            text = b"".join(response) if response.streaming else response.content
            answered += response.status_code == 200
            assert not [form for form in forms(VALUE) if form.encode() in text], path
    assert answered > 60


def test_who_may_start_cannot_read_a_secret_by_an_input(api: Caller) -> None:
    queue = unique("q")
    task = polled(api, simple("a", queue, inputParameters={"x": "${workflow.input.x}", "t": TOKEN}), x=TOKEN)
    assert task["inputData"] == {"x": TOKEN, "t": VALUE}


def test_a_secret_that_does_not_exist_fails_the_task_with_its_name(api: Caller) -> None:
    queue = unique("q")
    given = simple("a", queue, inputParameters={"t": "${workflow.secrets.NONE}"})
    run = api.text("post", "workflow", {"name": register(given, {**given, "taskReferenceName": "b"})})
    assert api("get", f"tasks/poll/{queue}?workerid=w").status_code == 204
    ended = api.json("get", f"workflow/{run}")
    assert (ended["status"], ended["tasks"][0]["status"]) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR")
    assert "'NONE'" in ended["tasks"][0]["reasonForIncompletion"]


def test_update_v2_answers_204_when_the_next_task_cannot_be_handed_out(api: Caller) -> None:
    queue = unique("q")
    task = polled(api, simple("a", queue), simple("b", queue, inputParameters={"t": "${workflow.secrets.NONE}"}))
    assert api("post", "tasks/update-v2", sent(task)).status_code == 204
    assert api.json("get", f"workflow/{task['workflowInstanceId']}")["status"] == "FAILED"


def test_the_value_before_is_masked_too(api: Caller) -> None:
    task = polled(api, simple("a", unique("q"), inputParameters={"t": TOKEN}))
    secrets.put(NAMESPACE, "TOKEN", "another value", actor="ann")
    api.text("post", "tasks", sent(task, outputData={"old": VALUE, "new": "another value"}))
    output = api.json("get", f"workflow/{task['workflowInstanceId']}")["output"]
    assert output == {"old": secrets.MASK, "new": secrets.MASK}


def test_another_namespace_has_secrets_of_its_own(api: Caller) -> None:
    secrets.put("elsewhere", "TOKEN", "theirs-and-theirs", actor="bob")
    task = polled(api, simple("a", unique("q"), inputParameters={"t": TOKEN}))
    assert task["inputData"] == {"t": VALUE}
    api.text("post", "tasks", sent(task, outputData={"o": "theirs-and-theirs"}))
    assert api.json("get", f"workflow/{task['workflowInstanceId']}")["output"] == {"o": "theirs-and-theirs"}


def key() -> str:
    return b64encode(urandom(32)).decode()


def rotated() -> str:
    out = StringIO()
    call_command("rotate_secrets", stdout=out)
    return out.getvalue()


def test_keys_are_rotated_by_a_command(api: Caller, settings: Any) -> None:
    def ring(*keys: str) -> None:
        settings.OSTINATO = {**settings.OSTINATO, "SECRET_KEYS": ",".join(keys)}

    first, second = key(), key()
    secrets.put(NAMESPACE, "TOKEN", "second value", actor="ann")
    before = keyring.newest_key()
    ring(first)
    assert keyring.newest_key() != before
    assert secrets.values(NAMESPACE, ["TOKEN"]) == {"TOKEN": "second value"}, "a key derived before still opens"
    assert rotated().startswith("1 secrets")
    assert rotated().startswith("0 secrets")
    ring(second, first)
    assert rotated().startswith("1 secrets")
    ring(second)
    assert secrets.values(NAMESPACE, ["TOKEN"]) == {"TOKEN": "second value"}
    assert secrets.Masker(NAMESPACE).text(f"{VALUE} second value") == f"{secrets.MASK} {secrets.MASK}"
    ring(key())
    with pytest.raises(NoKey, match="not among SECRET_KEYS"):
        secrets.values(NAMESPACE, ["TOKEN"])
    with pytest.raises(CommandError, match="not among"):
        rotated()


def test_a_sealed_text_opens_only_in_its_place() -> None:
    sealed = keyring.seal("text", "a")
    assert keyring.unseal(sealed, "a") == "text"
    assert keyring.seal("text", "a").data != sealed.data, "no two seals are alike"
    for data, place in ((sealed.data, "b"), (sealed.data[:-1] + bytes([sealed.data[-1] ^ 1]), "a")):
        with pytest.raises(NoKey):
            keyring.unseal(Sealed(sealed.key_name, data), place)


def test_environment_variables(api: Caller) -> None:
    api.empty("put", "environment/REGION", b"eu-1")
    assert api.json("get", "environment") == {"REGION": "eu-1"}
    assert api.text("get", "environment/REGION") == "eu-1"
    task = polled(api, simple("a", unique("q"), inputParameters={"r": "in ${workflow.env.REGION}", "n": "${workflow.env.NO}"}))
    assert task["inputData"] == {"r": "in eu-1", "n": None}
    api.empty("put", "environment/REGION", b"us-1")
    api.text("post", "tasks", sent(task, status="FAILED_WITH_TERMINAL_ERROR"))
    api.empty("post", f"workflow/{task['workflowInstanceId']}/retry", status=204)
    again = api.json("get", f"tasks/poll/{task['taskDefName']}?workerid=w")
    assert again["inputData"]["r"] == "in us-1"
    api.empty("delete", "environment/REGION")
    api.refused("get", "environment/REGION", status=404)
    api.refused("delete", "environment/REGION", status=404)
