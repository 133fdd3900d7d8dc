"""The operator's pages: who may see them, what they show, and their buttons."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from orchestrator.db.ids import new_id
from tests import flows
from workflows.models import Execution, Task
from workflows.services import browsing, control

pytestmark = pytest.mark.usefixtures("committed")


def a_run(**fields: str) -> UUID:
    queue = flows.unique("q")
    name = flows.register(flows.simple("first", queue), flows.simple("second", queue))
    run = flows.start(name, {"amount": 9007199254740993, "html": "</script><b>x"}, **fields)
    flows.drain()
    return run


def page_of(run: UUID) -> str:
    return reverse("ops:execution", args=["default", run])


def listing(client: Client, **query: str) -> list[UUID]:
    response = client.get(reverse("ops:executions", args=["default"]), query)
    assert response.status_code == 200
    return [run.id for run in response.context["found"].runs]


def press(client: Client, run: UUID, name: str, **data: str) -> str:
    response = client.post(reverse("ops:action", args=["default", run, name]), data)
    assert response.status_code == 303
    return " ".join(str(m) for m in client.get(response.headers["Location"]).context["messages"])


def test_the_page_shows_the_run_its_tasks_data_and_history(viewer: Client) -> None:
    run = a_run(correlation_id="order-9")
    response = viewer.get(page_of(run))
    page = response.content.decode()
    assert response.status_code == 200
    for text in ("order-9", "first", "9007199254740993", "workflow.started", "task.scheduled", 'data-status="RUNNING"'):
        assert text in page
    assert "</script><b>" not in page
    assert f'data-seq="{response.context["last_seq"]}"' in page


def test_the_page_says_what_a_run_waits_for_as_long_as_it_waits(viewer: Client) -> None:
    run = a_run()
    page = viewer.get(page_of(run)).content.decode()
    assert "What it waits for" in page and "nobody has ever asked for it" in page
    control.terminate("default", run, actor="olga", reason="enough")
    assert "What it waits for" not in viewer.get(page_of(run)).content.decode()


def test_pages_load_nothing_from_elsewhere_and_hold_no_inline_script(viewer: Client) -> None:
    run = a_run()
    for url in (page_of(run), reverse("ops:executions", args=["default"])):
        response = viewer.get(url)
        page = response.content.decode()
        assert not re.findall(r"""(?:src|href|action)=["'](?:https?:)?//""", page)
        assert not re.findall(r"<script(?![^>]*\bsrc=)|\bstyle=|\bon\w+=", page)
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_who_may_look(viewer: Client, outsider: Client) -> None:
    run = a_run()
    for url in (page_of(run), reverse("ops:executions", args=["default"]), reverse("ops:home")):
        assert Client().get(url).headers["Location"].startswith(reverse("admin:login") + "?next=/ops/")
        assert outsider.get(url).status_code == 403
        assert viewer.get(url, follow=True).status_code == 200
    assert viewer.get(page_of(new_id())).status_code == 404
    assert viewer.get(reverse("ops:execution", args=["other", run])).status_code == 404


@pytest.mark.usefixtures("demo_open")
def test_the_demo_lets_this_machine_look_and_not_act() -> None:
    run = a_run()
    here = Client()
    assert here.get(page_of(run)).status_code == 200
    assert here.get(reverse("ops:executions", args=["other"])).status_code == 302
    assert here.get(page_of(run), headers={"X-Forwarded-For": "203.0.113.9"}).status_code == 302
    assert Client(REMOTE_ADDR="203.0.113.9").get(page_of(run)).status_code == 302
    response = here.post(reverse("ops:action", args=["default", run, "pause"]))
    assert response.headers["Location"].startswith(reverse("admin:login"))
    assert flows.status(run) == "RUNNING"


def test_buttons_act_and_refusals_say_why(operator: Client, viewer: Client) -> None:
    run = a_run()
    assert press(operator, run, "pause") == "Paused."
    assert "is PAUSED" in press(operator, run, "retry")
    assert press(operator, run, "resume") == "Resumed."
    assert press(operator, run, "skip_task", ref="second") == "Will skip second."
    assert "needs a reason" in press(operator, run, "terminate")
    assert press(operator, run, "terminate", reason="no longer wanted") == "Terminated."
    assert "no longer wanted" in operator.get(page_of(run)).content.decode()
    assert viewer.post(reverse("ops:action", args=["default", run, "restart"])).status_code == 403
    assert operator.get(reverse("ops:action", args=["default", run, "restart"])).status_code == 405
    assert operator.post(reverse("ops:action", args=["other", run, "restart"])).status_code == 404
    assert flows.status(run) == "TERMINATED"


def test_a_button_needs_its_token(admin_user: object) -> None:
    run = a_run()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)  # type: ignore[arg-type]
    assert strict.post(reverse("ops:action", args=["default", run, "pause"])).status_code == 403
    assert flows.status(run) == "RUNNING"


def test_the_list_is_searched_and_filtered(viewer: Client) -> None:
    first, second = a_run(correlation_id="c-1"), a_run()
    control.pause("default", second, actor="test")
    name = Execution.objects.get(id=second).name
    assert listing(viewer) == [second, first]
    assert listing(viewer, status="PAUSED") == [second]
    assert listing(viewer, q=str(first)) == [first]
    assert listing(viewer, q="c-1") == [first]
    assert listing(viewer, q=name) == [second]
    assert listing(viewer, q=name[3:-1]) == [second]
    assert listing(viewer, q="100%_nothing") == []
    assert listing(viewer, status="nonsense", after="nonsense") == [second, first]


def test_the_list_is_paged_without_gap_or_repeat(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "PAGE", 3)
    name = flows.register(flows.simple("a", flows.unique("q")))
    runs = [flows.start(name) for _ in range(8)]
    seen: list[UUID] = []
    url = reverse("ops:executions", args=["default"])
    query = f"?q={name}"
    for _ in range(3):
        response = viewer.get(url + query)
        seen += [run.id for run in response.context["found"].runs]
        query = response.context["next_url"]
    assert seen == runs[::-1]
    assert query is None


def test_a_filter_looks_at_so_many_runs_and_goes_on_from_there(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "SCAN", 4)
    name = flows.register(flows.simple("a", flows.unique("q")))
    runs = [flows.start(name) for _ in range(10)]
    control.pause("default", runs[0], actor="test")
    query: str | None = "?status=PAUSED"
    found: list[UUID] = []
    pages = 0
    while query:
        response = viewer.get(reverse("ops:executions", args=["default"]) + query)
        found += [run.id for run in response.context["found"].runs]
        query = response.context["next_url"]
        pages += 1
    assert found == [runs[0]]
    assert pages > 1


def test_tasks_and_events_are_paged(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "TASKS", 4)
    monkeypatch.setattr(browsing, "EVENTS", 5)
    queue = flows.unique("q")
    run = flows.start(flows.register(*flows.fork("f", *[[flows.simple(f"t{i}", queue)] for i in range(9)])))
    flows.finish([queue])
    tasks: list[str] = []
    query = ""
    while query is not None:
        context = viewer.get(page_of(run) + query).context
        tasks += [task.ref for task in context["tasks"]]
        query = f"?tasks_after={context['next_tasks']}" if context["next_tasks"] else None
    assert sorted(tasks) == sorted({"f", "f_join", *(f"t{i}" for i in range(9))})
    seqs: list[int] = []
    query = ""
    while query is not None:
        context = viewer.get(page_of(run) + query).context
        seqs = [event.seq for event in context["events"]] + seqs
        query = f"?before={context['earlier']}" if context["earlier"] else None
    assert seqs == list(range(1, seqs[-1] + 1))


def test_a_long_payload_is_cut_and_can_be_had_whole(viewer: Client) -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(flows.simple("a", queue)))
    flows.drain()
    flows.complete(flows.lease(queue), {"text": "x" * 5000, "n": 9007199254740993})
    response = viewer.get(page_of(run))
    task = response.context["tasks"][0]
    assert "x" * 3000 not in response.content.decode()
    whole = viewer.get(reverse("ops:payload", args=["default", run, task.id, "output"]))
    assert "x" * 5000 in whole.content.decode()
    assert "9007199254740993" in whole.content.decode()
    assert viewer.get(reverse("ops:payload", args=["default", run, task.id, "state"])).status_code == 404
    assert viewer.get(reverse("ops:payload", args=["default", run, new_id(), "input"])).status_code == 404


def test_a_page_asks_few_questions_however_long_the_run(viewer: Client) -> None:
    queue = flows.unique("q")
    run = flows.start(flows.register(*flows.fork("f", *[[flows.simple(f"t{i}", queue)] for i in range(40)])))
    flows.finish([queue])
    with CaptureQueriesContext(connection) as queries:
        viewer.get(page_of(run))
    assert len(queries) <= 15, [q["sql"][:90] for q in queries]


def test_a_status_nobody_knows_is_shown_as_it_is() -> None:
    from workflows.templatetags.ops import badge

    assert "Half done" in badge("HALF_DONE")


def test_an_open_task_is_cancelled_from_its_row(operator: Client, viewer: Client) -> None:
    run = a_run()
    assert "Cancel this task" in operator.get(page_of(run)).content.decode()
    assert "Cancel this task" not in viewer.get(page_of(run)).content.decode()
    assert press(operator, run, "cancel_task", ref="first") == "Cancelled first."
    flows.drain()
    assert flows.status(run) == "TERMINATED"
    assert "cancel_task needs a workflow that is" in press(operator, run, "cancel_task", ref="first")


def test_a_rerun_is_shown_before_it_is_done(operator: Client, viewer: Client) -> None:
    run = a_run()
    queue = Task.objects.get(workflow_id=run).queue
    flows.finish([queue])
    task = Task.objects.get(workflow_id=run, ref="second")
    url = reverse("ops:rerun", args=["default", run, task.id])
    assert url in operator.get(page_of(run)).content.decode()
    assert url not in viewer.get(page_of(run)).content.decode()
    assert viewer.get(url).status_code == viewer.post(url).status_code == 403
    page = operator.get(url).content.decode()
    assert "Runs again now" in page and "Keeps its result" in page
    assert flows.status(run) == "COMPLETED"
    response = operator.post(url)
    assert (response.status_code, flows.status(run)) == (303, "RUNNING")
    again = operator.get(url, follow=True)
    assert any("does not belong" in str(message) for message in again.context["messages"]), "it was made anew"
    assert operator.get(reverse("ops:rerun", args=["default", new_id(), task.id])).status_code == 404
