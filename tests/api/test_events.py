"""Event handlers over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from tests import flows
from tests.api.client import UNKNOWN, Caller, demo_api  # noqa: F401  (a fixture)
from workflows.models import Execution


def handler(name: str, event: str, target: str) -> dict[str, Any]:
    return {
        "name": name, "event": event, "active": True, "condition": "",
        "actions": [{"action": "start_workflow", "start_workflow": {"name": target}, "expandInlineJSON": False}],
    }  # fmt: skip


def test_handlers_are_made_found_by_event_changed_and_removed(api: Caller) -> None:
    given = handler("h", "conductor:flow:ping", "t")
    api.empty("post", "event", given)
    assert api.refused("post", "event", given, status=409)["message"] == "EventHandler with name h already exists!"
    api.empty("post", "event", [handler("other", "conductor:flow:pong", "t")])
    assert [found["name"] for found in api.json("get", "event")] == ["h", "other"]
    for path in ("event/conductor%3Aflow%3Aping", "event/conductor:flow:ping?activeOnly=true"):
        assert api.json("get", path) == [given], path
    api.empty("put", "event", {**given, "active": False})
    assert api.json("get", "event/conductor:flow:ping") == []
    assert api.json("get", "event/conductor:flow:ping?activeOnly=false")[0]["active"] is False
    api.empty("delete", "event/h")
    api.refused("delete", "event/h", status=404)
    api.refused("put", "event", given, status=404)


def test_an_event_from_outside_is_acted_on_and_shown(api: Caller) -> None:
    target = flows.register(flows.simple("t", flows.unique("q")))
    api.empty("post", "event", handler("h", "kafka:orders", target))
    for _ in range(2):
        assert api.json("post", "event/publish", {"event": "kafka:orders", "id": "m1", "payload": {"a": 1}}) == {
            "id": "m1"
        }
    flows.drain()
    (run,) = Execution.objects.filter(name=target)
    (shown,) = api.json("get", "event/executions?handler=h")
    assert (shown["status"], shown["messageId"], shown["output"]) == ("COMPLETED", "m1", {"workflowId": str(run.id)})
    assert api.json("get", "event/executions?event=other:x") == []


def test_an_action_that_failed_is_replayed_by_an_operator(api: Caller) -> None:
    target = flows.unique("later")
    api.empty("post", "event", handler("h", "kafka:orders", target))
    api.json("post", "event/publish", {"event": "kafka:orders", "payload": {}})
    flows.drain()
    (shown,) = api.json("get", "event/executions")
    assert shown["status"] == "FAILED"
    flows.register(flows.simple("t"), name=target)
    again = api.json("post", f"event/execution/{shown['id']}/replay")
    assert (again["id"], again["status"], again["ended"]) == (shown["id"], "SCHEDULED", 0)
    api.refused("post", f"event/execution/{shown['id']}/replay", status=409)
    flows.drain()
    assert [done["status"] for done in api.json("get", "event/executions")] == ["COMPLETED"]
    for unknown in (UNKNOWN, "nonsense"):
        api.refused("post", f"event/execution/{unknown}/replay", status=404)


@pytest.mark.parametrize(
    "body",
    [{}, {"event": "x"}, {"event": "a:b", "payload": 5}, {"event": "a:b", "id": 5}, {"event": "a:b", "id": "x" * 256}],
)
def test_an_event_that_cannot_be_one_is_refused(api: Caller, body: dict[str, Any]) -> None:
    api.refused("post", "event/publish", body)
