"""The live history over real PostgreSQL: in order, gapless, resumable, refused before it is accepted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.conf import settings as django_settings
from django.db import connections
from django.test import Client
from django.urls import reverse

from dispatch.services import dispatching
from dispatch.services.dispatching import TaskReport
from orchestrator.db import hints
from orchestrator.db.ids import new_id
from tests import flows
from workflows import consumers
from workflows.models import HistoryEvent
from workflows.routing import websocket_urlpatterns
from workflows.services import control

pytestmark = pytest.mark.usefixtures("committed")
T = TypeVar("T")
SECONDS = 20.0
application = AuthMiddlewareStack(URLRouter(websocket_urlpatterns))


class Reader:
    """A browser at the other end of the socket."""

    def __init__(self, run: UUID, *, after: int | str = 0, client: Client | None = None, **headers: str) -> None:
        sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        if client is not None:
            cookie = (
                f"{django_settings.SESSION_COOKIE_NAME}={client.cookies[django_settings.SESSION_COOKIE_NAME].value}"
            )
            sent.append((b"cookie", cookie.encode()))
        scope = {
            "type": "websocket",
            "path": f"/ws/executions/{run}/",
            "query_string": f"after={after}".encode(),
            "headers": sent,
            "client": ["127.0.0.1", 50000],
            "subprotocols": [],
        }
        self.socket = ApplicationCommunicator(application, scope)
        self.frames: list[dict[str, Any]] = []
        self.code: int | None = None

    async def open(self) -> int | None:
        """Connect; returns the code it was refused with, None when it was accepted."""
        await self.socket.send_input({"type": "websocket.connect"})
        answer = await self.socket.receive_output(SECONDS)
        if answer["type"] == "websocket.accept":
            return None
        await self.socket.send_input({"type": "websocket.disconnect", "code": answer["code"]})
        await self.socket.wait(SECONDS)
        return int(answer["code"])

    async def read(self, enough: Callable[[list[dict[str, Any]]], bool] = lambda _: False) -> None:
        """Collect frames until there are enough, or the other side closes."""
        while not enough(self.frames):
            message = await self.socket.receive_output(SECONDS)
            if message["type"] == "websocket.close":
                self.code = message["code"]
                await self.close()
                return
            self.frames.append(json.loads(message["text"]))

    async def close(self) -> None:
        """Go away, as a browser does."""
        await self.socket.send_input({"type": "websocket.disconnect", "code": self.code or 1001})
        await self.socket.wait(SECONDS)

    @property
    def seqs(self) -> list[int]:
        return [frame["seq"] for frame in self.frames]


async def aside(work: Callable[[], T]) -> T:
    """Run database work in a thread, as the processes of the engine would."""

    def run() -> T:
        try:
            return work()
        finally:
            connections.close_all()

    return await asyncio.to_thread(run)


def follow(story: Callable[[], Awaitable[T]]) -> T:
    return asyncio.run(asyncio.wait_for(story(), 60))


def stored(run: UUID) -> list[int]:
    return list(HistoryEvent.objects.filter(workflow_id=run).order_by("seq").values_list("seq", flat=True))


def a_run(width: int = 1) -> tuple[UUID, str]:
    """A run that waits for workers on one queue."""
    queue = flows.unique("q")
    tasks = (
        flows.fork("f", *[[flows.simple(f"t{i}", queue)] for i in range(width)])
        if width > 1
        else [flows.simple("t", queue)]
    )
    run = flows.start(flows.register(*tasks))
    flows.drain()
    return run, queue


def test_it_sends_every_event_and_closes_after_the_last(operator: Client) -> None:
    run, queue = a_run()

    async def story() -> Reader:
        reader = Reader(run, client=operator)
        assert await reader.open() is None
        await reader.read(lambda frames: len(frames) >= 2)
        await aside(lambda: flows.finish([queue]))
        await reader.read()
        return reader

    reader = follow(story)
    assert reader.seqs == stored(run)
    assert reader.code == 1000
    assert reader.frames[0]["type"] == "workflow.started"
    assert reader.frames[-1]["type"] == "workflow.completed"
    assert set(reader.frames[0]) == {"seq", "type", "ref", "task_id", "data", "at"}
    assert [f["ref"] for f in reader.frames if f["type"] == "task.completed"] == ["t"]


def test_values_of_masked_fields_are_not_sent(operator: Client) -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("t", queue), maskedFields=["pin"]), {"pin": "canary"})
    flows.drain()
    (task,) = flows.lease_all(queue, 1)
    flows.complete([task])
    late = TaskReport(task.id, run, "FAILED", lease_token=task.lease_token, output={"pin": "canary", "n": 1})
    dispatching.report([late], strict=False)
    flows.drain()

    async def story() -> Reader:
        reader = Reader(run, client=operator)
        assert await reader.open() is None
        await reader.read()
        return reader

    reader = follow(story)
    assert reader.seqs == stored(run) and "canary" not in str(reader.frames)
    (refused,) = [frame for frame in reader.frames if frame["type"] == "task.late_result_refused"]
    assert refused["data"]["output"] == {"pin": "***", "n": 1}
    page = operator.get(reverse("ops:execution", args=["default", run])).content.decode()
    assert "canary" not in page and "late_result_refused" in page


def test_it_is_gapless_when_every_notification_is_lost(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "notify", lambda payloads: None)
    monkeypatch.setattr(consumers, "POLL_SECONDS", 0.02)
    run, queue = a_run(60)

    async def story() -> Reader:
        reader = Reader(run, client=operator)
        assert await reader.open() is None
        work = asyncio.create_task(aside(lambda: flows.finish([queue])))
        await reader.read()
        await work
        return reader

    reader = follow(story)
    assert reader.seqs == stored(run)
    assert len(reader.seqs) > 120
    assert reader.code == 1000


def test_wake_ups_that_come_too_often_repeat_nothing(operator: Client) -> None:
    run, queue = a_run(120)

    async def story() -> Reader:
        reader = Reader(run, client=operator)
        assert await reader.open() is None
        work = asyncio.create_task(aside(lambda: flows.finish([queue])))
        read = asyncio.create_task(reader.read())
        while not read.done():
            consumers.fanout.ring_all()
            await asyncio.sleep(0)
        await work
        return reader

    reader = follow(story)
    assert reader.seqs == stored(run)
    assert len(reader.seqs) > 240, "more than one page of events"


def test_a_notification_ends_the_wait_at_once(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "POLL_SECONDS", 3600.0)
    run, _ = a_run()

    async def story() -> Reader:
        reader = Reader(run, client=operator)
        assert await reader.open() is None
        await asyncio.to_thread(consumers.fanout.listening.wait, SECONDS)
        await reader.read(lambda frames: len(frames) >= 2)
        await aside(lambda: control.pause("default", run, actor="test"))
        await reader.read(lambda frames: frames[-1]["type"] == "workflow.paused")
        await reader.close()
        return reader

    assert follow(story).seqs == stored(run)


def test_it_goes_on_after_a_seq(operator: Client) -> None:
    run, queue = a_run(5)

    async def story() -> tuple[Reader, Reader]:
        first = Reader(run, client=operator)
        assert await first.open() is None
        await first.read(lambda frames: len(frames) >= 3)
        await first.close()
        await aside(lambda: flows.finish([queue]))
        second = Reader(run, after=first.seqs[-1], client=operator)
        assert await second.open() is None
        await second.read()
        return first, second

    first, second = follow(story)
    assert first.seqs + second.seqs == stored(run)


@pytest.mark.parametrize("after", ["-1", "x", "", "99999999999999999999", "१"])
def test_a_cursor_that_is_none_begins_at_the_beginning(after: str, operator: Client) -> None:
    run, _ = a_run()

    async def story() -> Reader:
        reader = Reader(run, after=after, client=operator)
        assert await reader.open() is None
        await reader.read(lambda frames: bool(frames))
        await reader.close()
        return reader

    assert follow(story).seqs[0] == 1


def refused(run: UUID, **how: Any) -> int | None:
    async def story() -> int | None:
        reader = Reader(run, **how)
        code = await reader.open()
        if code is None:
            await reader.close()
        return code

    return follow(story)


def test_it_is_refused_before_it_is_accepted(operator: Client, viewer: Client, outsider: Client) -> None:
    run, _ = a_run()
    assert refused(run) == 4401
    assert refused(run, client=outsider) == 4403
    assert refused(new_id(), client=operator) == 4404
    assert refused(run, client=viewer) is None


@pytest.mark.usefixtures("demo_open")
def test_the_demo_is_open_to_this_machine_and_to_its_namespace_only() -> None:
    run, _ = a_run()
    elsewhere = flows.unique("other")
    flows.definitions.register(elsewhere, {"name": "x", "tasks": [flows.simple("a", "a")]}, overwrite=True)
    foreign = flows.start("x", namespace=elsewhere)
    assert refused(run) is None
    assert refused(run, x_forwarded_for="203.0.113.9") == 4401
    assert refused(foreign) == 4404


def test_rights_that_are_taken_away_end_it(operator: Client, admin_user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(consumers, "POLL_SECONDS", 0.02)
    run, _ = a_run()

    async def story() -> int | None:
        reader = Reader(run, client=operator)
        assert await reader.open() is None
        await reader.read(lambda frames: len(frames) >= 2)
        await aside(lambda: type(admin_user).objects.filter(pk=admin_user.pk).update(is_staff=False))
        await reader.read()
        return reader.code

    assert follow(story) == 4403


def test_a_server_that_stops_lets_its_readers_go(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = a_run()

    async def story() -> int | None:
        reader = Reader(run, client=operator)
        assert await reader.open() is None
        await reader.read(lambda frames: len(frames) >= 2)
        monkeypatch.setattr(consumers, "lifespan", SimpleNamespace(releasing=True))
        consumers.fanout.ring_all()
        await reader.read()
        return reader.code

    assert follow(story) == 1012
