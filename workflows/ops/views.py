"""The operator's pages: each is whole without JavaScript, and is refreshed from its own URL."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db.transaction import non_atomic_requests
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect

from orchestrator.conf import conf
from orchestrator.db.ids import parse_id
from orchestrator.errors import NotFound, OstinatoError
from workflows.engine.state import WorkflowStatus
from workflows.ops import access
from workflows.services import browsing, control
from workflows.services.explaining import explain
from workflows.services.operating import BUTTONS, cancellable, perform, rerun_from, rerunnable, skippable

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_CHIPS = ("", *(status.value for status in WorkflowStatus))
View = Callable[..., HttpResponse]


def page(view: View) -> View:
    """Every page: who may look, never in a caller's transaction, never cached, nothing from elsewhere."""

    @wraps(view)
    @never_cache
    @csrf_protect
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        verdict = access.verdict(request, kwargs.get("namespace"))
        if verdict is access.Verdict.LOG_IN:
            return redirect_to_login(request.get_full_path(), reverse("admin:login"))
        if verdict is access.Verdict.FORBIDDEN:
            return _problem(request, 403, "Not allowed", f"Looking at runs needs a staff account with {access.VIEW}.")
        try:
            response = view(request, *args, **kwargs)
        except NotFound as error:
            response = _problem(request, 404, "Not found", error.message)
        response.headers["Content-Security-Policy"] = _POLICY
        response.headers["Referrer-Policy"] = "same-origin"
        return response

    return non_atomic_requests(using=conf().DATABASE)(guarded)


@page
def home(request: HttpRequest) -> HttpResponse:
    """The runs of the default namespace."""
    return redirect("ops:executions", conf().DEFAULT_NAMESPACE)


@page
def executions(request: HttpRequest, namespace: str) -> HttpResponse:
    """Runs, newest first; the whole state of the page is in its URL."""
    query, status = request.GET.get("q", "").strip(), request.GET.get("status", "")
    after = browsing.Cursor.parse(request.GET.get("after", ""))
    found = browsing.list_runs(namespace, query=query, status=status, after=after)
    kept = {key: value for key, value in (("q", query), ("status", status)) if value}
    return _render(
        request,
        "ops/executions.html",
        namespace,
        found=found,
        query=query,
        status=status,
        chips=[(s, s.capitalize().replace("_", " ") or "All", _query({"q": query, "status": s})) for s in _CHIPS],
        next_url=_query({**kept, "after": str(found.next)}) if found.next else None,
        first_url=_query(kept) if after else None,
        scanned=browsing.SCAN,
    )


@page
def execution(request: HttpRequest, namespace: str, workflow_id: UUID) -> HttpResponse:
    """A run: what it is doing, its tasks, its data, its history."""
    run = browsing.get_run(namespace, workflow_id)
    tasks, next_tasks = browsing.list_tasks(workflow_id, after=parse_id(request.GET.get("tasks_after", "")))
    before = request.GET.get("before", "")
    events, earlier = browsing.list_events(workflow_id, before=int(before) if before.isdecimal() else None)
    may_operate = access.may_operate(request.user)
    ended = WorkflowStatus(run.status).terminal
    return _render(
        request,
        "ops/execution.html",
        namespace,
        run=run,
        ended=ended,
        why=None if ended else explain(namespace, workflow_id),
        tasks=tasks,
        next_tasks=next_tasks,
        paged=bool(request.GET.get("tasks_after")),
        events=events,
        earlier=events[0].seq if earlier else None,
        last_seq=events[-1].seq if events else 0,
        live=not before,
        buttons=[(action, may_operate and action.allowed(run.status)) for action in BUTTONS],
        may_operate=may_operate,
        skippable=skippable(run) if may_operate else [],
        cancellable=cancellable(tasks) if may_operate else set(),
        rerunnable=rerunnable(run, tasks) if may_operate else set(),
        preview=browsing.PREVIEW,
    )


@page
def task_payload(request: HttpRequest, namespace: str, workflow_id: UUID, task_id: UUID, field: str) -> HttpResponse:
    """A payload whole, with every digit it was stored with."""
    browsing.get_run(namespace, workflow_id)
    return HttpResponse(browsing.task_payload(workflow_id, task_id, field), content_type="application/json")


@page
def act(request: HttpRequest, namespace: str, workflow_id: UUID, name: str) -> HttpResponse:
    """A button: the service acts or refuses, and the page comes back with what it said."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    if not access.may_operate(request.user):
        if not request.user.is_authenticated:
            return redirect_to_login(reverse("ops:execution", args=[namespace, workflow_id]), reverse("admin:login"))
        return _problem(request, 403, "Not allowed", f"Acting on runs needs a staff account with {access.OPERATE}.")
    given = {key: request.POST.get(key, "") for key in ("reason", "ref")}
    try:
        said = perform(name, namespace, workflow_id, actor=request.user.get_username(), **given)
    except NotFound:
        raise
    except OstinatoError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, said)
    response = redirect("ops:execution", namespace, workflow_id)
    response.status_code = 303
    return response


@page
def rerun(request: HttpRequest, namespace: str, workflow_id: UUID, task_id: UUID) -> HttpResponse:
    """What a rerun from a task would do, and the button that does it."""
    run = browsing.get_run(namespace, workflow_id)
    if not access.may_operate(request.user):
        return _problem(request, 403, "Not allowed", f"Acting on runs needs a staff account with {access.OPERATE}.")
    try:
        if request.method == "POST":
            said = rerun_from(namespace, workflow_id, task_id, actor=request.user.get_username())
            messages.success(request, said)
        else:
            preview = control.preview_rerun(namespace, workflow_id, task_id)
            lists = [
                ("Runs again now", preview.runs_again),
                ("Goes on where it was", preview.reopened),
                ("Is taken back, and runs again when its turn comes", preview.deleted),
                ("Keeps its result", preview.kept),
            ]
            return _render(request, "ops/rerun.html", namespace, run=run, lists=lists)
    except NotFound:
        raise
    except OstinatoError as error:
        messages.error(request, error.message)
    response = redirect("ops:execution", namespace, workflow_id)
    response.status_code = 303
    return response


def _render(request: HttpRequest, template: str, namespace: str, /, http: int = 200, **context: Any) -> HttpResponse:
    shared = {"namespace": namespace, "now": timezone.now(), "demo": not request.user.is_authenticated}
    return render(request, template, {**shared, **context}, status=http)


def _problem(request: HttpRequest, status: int, title: str, message: str) -> HttpResponse:
    return _render(request, "ops/problem.html", conf().DEFAULT_NAMESPACE, http=status, title=title, message=message)


def _query(parameters: dict[str, str]) -> str:
    return "?" + urlencode({key: value for key, value in parameters.items() if value})
