"""Native handlers of poll and update; the DRF views of the same paths share their wire format and services."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any

from django.db import DatabaseError

from dispatch.api.tasks import MOST_BATCH, MOST_POLL_MILLIS, evaluate_ended, handed_out, task_report
from dispatch.native.gathering import Gatherer
from dispatch.native.parking import Parking
from dispatch.native.threads import close, in_thread
from dispatch.services import dispatching
from dispatch.services.answers import misfit
from dispatch.services.dispatching import ReportOutcome, TaskReport
from dispatch.services.polling import note_polls, queue_name
from orchestrator import access
from orchestrator.api import dump, load, refusal, retry_after
from orchestrator.api.views import number, text
from orchestrator.db.hints import QUEUE
from orchestrator.errors import Forbidden, LeaseLost, NotFound, OstinatoError
from orchestrator.runtime.wakeup import Wakeup
from orchestrator.services import keys
from orchestrator.web.lifespan import lifespan
from orchestrator.web.native import Request, Response, Route, Router
from workflows.managers.task import FoundTask

Handler = Callable[[Request, access.Principal], Awaitable[Response]]
_NOTHING = Response(204, b"")


class Parameters:
    """The query of a native request, as the shared parameter functions read it."""

    def __init__(self, request: Request) -> None:
        self.query_params = {name: values[0] for name, values in request.query().items()}


def headers(request: Request) -> dict[str, str]:
    """The headers by name, in lower case; lines of one name are joined, as for the views."""
    found: dict[str, str] = {}
    for raw_name, raw_value in request.scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def is_ours(request: Request) -> bool:
    """Whether the caller shows a key or is the demo: a session is Django's to read."""
    given = headers(request)
    return access.credentials(given) is not None or access.is_demo(_address(request), given)


async def caller(request: Request) -> access.Principal | None:
    """Who asks; a key that this process does not remember is looked up off the loop."""
    given = headers(request)
    shown = access.credentials(given)
    if shown is None or keys.is_remembered(shown):
        return access.principal(None, _address(request), given)
    return await in_thread(access.principal, None, _address(request), given)


def _address(request: Request) -> str | None:
    client = request.scope.get("client")
    return client[0] if client else None


def refusing(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Answer refusals as the views do."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            return await handler(request, access.require(await caller(request), "work"))
        except (OstinatoError, DatabaseError) as error:
            body = refusal(error)
            if body is None:
                raise
            wait = [(b"retry-after", retry_after(getattr(error, "retry_after", None)).encode())]
            return Response(body["status"], dump(body), headers=tuple(wait if body["status"] == 429 else ()))

    return answer


class Workers:
    """The hot paths of one server process."""

    def __init__(self) -> None:
        self.parking = Parking()
        self.gatherer: Gatherer[tuple[access.Principal, TaskReport], Reported] = Gatherer(apply_reports)
        self.wakeup = Wakeup(QUEUE)

    def add_to(self, router: Router) -> None:
        """Put the routes into the table, and the hooks into the process's life."""
        for method, path, handler in (
            ("GET", "/api/tasks/poll/batch/{name}", self.poll_batch),
            ("GET", "/api/tasks/poll/{name}", self.poll_one),
            ("POST", "/api/tasks", self.update),
            ("POST", "/api/tasks/update-v2", self.update_v2),
        ):
            router.add(Route(method, path, refusing(handler), "work", accepts=is_ours))
        lifespan.on_startup(self._start)
        lifespan.on_release(self.parking.release)
        lifespan.on_shutdown(self._stop)

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()

        def ring(_: str) -> None:
            loop.call_soon_threadsafe(self.parking.ring)

        self.wakeup.subscribe(ring)
        self.wakeup.start()

    async def _stop(self) -> None:
        await in_thread(self.wakeup.close)
        await close()

    async def poll_batch(self, request: Request, who: access.Principal) -> Response:
        """Up to `count` tasks of a type, waiting up to `timeout` milliseconds for the first."""
        query: Any = Parameters(request)
        count = number(query, "count", 1, least=1, most=MOST_BATCH)
        seconds = number(query, "timeout", 100, most=MOST_POLL_MILLIS) / 1000
        return Response(200, dump(await self._poll(request, who, query, count, seconds)))

    async def poll_one(self, request: Request, who: access.Principal) -> Response:
        """One task of a type, or 204."""
        found = await self._poll(request, who, Parameters(request), 1, 0)
        return Response(200, dump(found[0])) if found else _NOTHING

    async def _poll(
        self, request: Request, who: access.Principal, query: Any, count: int, seconds: float
    ) -> list[dict[str, Any]]:
        name, domain = request.params["name"], text(query, "domain")
        worker_id = text(query, "workerid") or ""
        key = (who.namespace, queue_name(name, domain))
        access.require_queue(who, key[1])
        deadline = time.monotonic() + seconds
        while True:
            found = await in_thread(hand_out, key, name, domain, count, worker_id)
            left = deadline - time.monotonic()
            if found or left <= 0 or not await self.parking.wait(key, left):
                return found

    async def update(self, request: Request, who: access.Principal) -> Response:
        """Report a task; answers its id."""
        report, _ = await self._report(request, who)
        return Response(200, str(report.task_id).encode(), "text/plain; charset=utf-8")

    async def update_v2(self, request: Request, who: access.Principal) -> Response:
        """Report a task; answers the next one of its type for the same worker, or 204."""
        report, task = await self._report(request, who)
        if report.status == "IN_PROGRESS" or task.queue is None:
            return _NOTHING
        worker_id = report.worker_id or task.worker_id or ""
        found = await in_thread(lease_json, (task.namespace, task.queue), 1, worker_id)
        return Response(200, dump(found[0])) if found else _NOTHING

    async def _report(self, request: Request, who: access.Principal) -> tuple[TaskReport, FoundTask]:
        raw = await request.body()
        report = task_report(load(raw, lenient=True) if raw.strip() else {})
        outcome, task = await self.gatherer.submit((who, report))
        if not outcome.applied and report.lease_token is not None:
            raise LeaseLost(task_id=report.task_id)
        return report, task


Reported = tuple[ReportOutcome, FoundTask]


def apply_reports(reports: Sequence[tuple[access.Principal, TaskReport]]) -> list[Reported | Exception]:
    """Apply the reports of callers in one transaction; one that is refused spoils nothing for its neighbours."""
    found = dispatching.find_tasks(report.task_id for _, report in reports)
    refused = [_refusal(who, report, found.get(report.task_id)) for who, report in reports]
    todo = [report for (_, report), no in zip(reports, refused, strict=True) if no is None]
    outcomes = iter(dispatching.report(todo, strict=False) if todo else [])
    evaluate_ended(todo)
    return [
        (next(outcomes), found[report.task_id]) if no is None else no
        for (_, report), no in zip(reports, refused, strict=True)
    ]


def _refusal(who: access.Principal, report: TaskReport, task: FoundTask | None) -> OstinatoError | None:
    if task is None or task.namespace != who.namespace or report.workflow_id not in (None, task.workflow_id):
        return NotFound(f"Task not found for taskId: {report.task_id}", task_id=report.task_id)
    try:
        access.require_queue(who, task.queue)
    except Forbidden as error:
        return error
    return misfit(report.task_id, task, report.status, report.output)


def hand_out(key: tuple[str, str], name: str, domain: str | None, count: int, worker_id: str) -> list[dict[str, Any]]:
    """Lease tasks of a queue, as JSON."""
    note_polls(key[0], [(name, domain)], worker_id)
    return lease_json(key, count, worker_id)


def lease_json(key: tuple[str, str], count: int, worker_id: str) -> list[dict[str, Any]]:
    """Lease tasks of a queue for a worker that does not renew by itself, as JSON."""
    found = dispatching.lease_tasks(*key, batch=count, worker_id=worker_id)
    return handed_out(found, worker_id) if found else []
