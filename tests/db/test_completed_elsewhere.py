"""HTTP tasks with asyncComplete: the call is made, its answer kept, and the task ends when somebody else says so."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest

from dispatch.models import Permit, QueuedTask
from dispatch.services import dispatching, limiting
from dispatch.services.dispatching import TaskReport
from dispatch.system_tasks import RUNNERS, run_system_task
from tests import flows
from workflows.engine.state import TaskStatus
from workflows.models import Execution, HistoryEvent, Task, Timer
from workflows.services import control, definitions, explaining, sweeping

pytestmark = pytest.mark.django_db(transaction=True)
ACTOR = {"actor": "ann"}


@pytest.fixture
def server(settings: Any) -> Iterator[Any]:
    """Answers with the status of its path."""
    settings.OSTINATO = {**getattr(settings, "OSTINATO", {}), "HTTP_ALLOW_PRIVATE": True}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            return

        def do_GET(self) -> None:
            raw = json.dumps({"job": 7}).encode()
            self.send_response(int(self.path.strip("/")))
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield httpd
    httpd.shutdown()
    httpd.server_close()
    thread.join(10)


def call(server: Any, status: int = 200, *, ref: str = "c", given: dict[str, Any] | None = None, **more: Any) -> Any:
    request = {"uri": f"http://127.0.0.1:{server.server_port}/{status}"}
    inputs = {"http_request": request, **(given or {})}
    return {"name": ref, "taskReferenceName": ref, "type": "HTTP", "inputParameters": inputs, **more}


def work() -> list[str]:
    """Make whatever call is ready; returns the statuses that were reported."""
    flows.drain()
    started = dispatching.lease_system_tasks(sorted(RUNNERS), batch=10, worker_id="system")
    reports = [run_system_task(task) for task in started]
    if reports:
        dispatching.report(reports, strict=True)
    flows.drain()
    return [report.status for report in reports]


def parked(server: Any, *after: Any, **more: Any) -> UUID:
    """A run whose call has been answered and whose end is awaited."""
    run = flows.start(flows.register(call(server, asyncComplete=True, **more), *after))
    assert work() == ["IN_PROGRESS"]
    return run


def the_task(run: UUID) -> Task:
    return Task.objects.filter(workflow_id=run, ref="c").latest("attempt")


def finish(run: UUID, status: str = "COMPLETED", output: dict[str, Any] | None = None) -> None:
    control.complete_task(flows.NAMESPACE, run, "c", status, output or {}, reason="said so", **ACTOR)
    flows.drain()


def test_an_answered_call_stays_open_off_its_queue_until_somebody_completes_it(server: Any) -> None:
    run = parked(server, flows.simple("after", flows.unique("q")))
    task = the_task(run)
    assert (task.status, task.output["response"]["body"], task.lease_token) == ("IN_PROGRESS", {"job": 7}, None)
    assert not QueuedTask.objects.filter(workflow_id=run).exists()
    assert flows.statuses(run) == {"c": "IN_PROGRESS"}
    finish(run, output={"done": True})
    task = the_task(run)
    assert (task.status, task.output["done"], task.output["response"]["statusCode"]) == ("COMPLETED", True, 200)
    assert flows.statuses(run) == {"c": "COMPLETED", "after": "SCHEDULED"}
    assert not any(sweeping.invariant_report().values())


def test_a_workers_report_completes_it_too_and_a_second_one_is_refused(server: Any) -> None:
    run = parked(server)
    report = TaskReport(the_task(run).id, run, "COMPLETED", worker_id="somebody", output={"by": "api"})
    assert [o.applied for o in dispatching.report([report, report], strict=False)] == [True, False]
    flows.drain()
    assert (flows.status(run), the_task(run).output) == ("COMPLETED", {"by": "api"})


@pytest.mark.parametrize(
    ("of_task", "of_input", "status"),
    [(False, True, "IN_PROGRESS"), (True, False, "COMPLETED"), (True, None, "IN_PROGRESS"), (None, None, "COMPLETED")],
)
def test_the_input_goes_before_the_task(server: Any, of_task: Any, of_input: Any, status: str) -> None:
    given = {"asyncComplete": "${workflow.input.a}"}
    run = flows.start(flows.register(call(server, given=given, asyncComplete=of_task)), {"a": of_input})
    assert work() == [status]
    assert the_task(run).status == status


def test_what_is_neither_true_nor_false_fails_before_the_call_is_made(server: Any) -> None:
    run = flows.start(flows.register(call(server, given={"asyncComplete": "${workflow.input.a}"})), {"a": "yes"})
    assert work() == ["FAILED_WITH_TERMINAL_ERROR"]
    assert "asyncComplete: expected true or false, got 'yes'" in the_task(run).reason


def test_a_call_that_fails_ends_its_task(server: Any) -> None:
    run = flows.start(flows.register(call(server, 404, asyncComplete=True)))
    assert work() == ["FAILED_WITH_TERMINAL_ERROR"]
    assert (flows.status(run), the_task(run).output["response"]["statusCode"]) == ("FAILED", 404)


def test_an_operator_is_told_that_it_waits_to_be_completed_from_outside(server: Any) -> None:
    run = parked(server)
    (reason,) = explaining.explain(flows.NAMESPACE, run).reasons
    assert (reason.code, reason.ref) == (explaining.Code.SIGNAL, "c")
    assert "(HTTP) waits to be completed from outside" in reason.message
    assert "POST /api/tasks/{workflowId}/c/COMPLETED" in reason.action and "ignal" not in reason.action
    assert Execution.sql.stuck(idle=0, batch=10) == []


def policy(**fields: Any) -> None:
    definitions.register_tasks(flows.NAMESPACE, [{"name": "c", "retryCount": 0, **fields}])


@pytest.mark.parametrize(
    ("field", "kind"), [("timeoutSeconds", "TASK"), ("totalTimeoutSeconds", "TOTAL"), ("responseTimeoutSeconds", "RESPONSE")]
)
def test_its_deadlines_still_run(server: Any, field: str, kind: str) -> None:
    policy(responseTimeoutSeconds=60, **({} if field == "responseTimeoutSeconds" else {field: 600}))
    run = parked(server)
    flows.hurry(Timer.objects.get(workflow_id=run, kind=kind))
    flows.time_out()
    assert the_task(run).status == "TIMED_OUT"
    assert not Timer.objects.filter(workflow_id=run).exists()


def test_its_end_takes_its_deadlines_along_and_a_failure_is_tried_again(server: Any) -> None:
    policy(retryCount=1, retryDelaySeconds=0, responseTimeoutSeconds=60, timeoutSeconds=600)
    run = parked(server)
    assert sorted(Timer.objects.filter(workflow_id=run).values_list("kind", flat=True)) == ["RESPONSE", "TASK"]
    finish(run, "FAILED")
    assert work() == ["IN_PROGRESS"], "the second attempt makes its own call"
    finish(run)
    assert (the_task(run).attempt, flows.status(run)) == (1, "COMPLETED")
    assert not Timer.objects.filter(workflow_id=run).exists()


@pytest.mark.parametrize(("given", "status"), [({}, "IN_PROGRESS"), ({"asyncComplete": False}, "COMPLETED")])
def test_a_rerun_with_another_input_leaves_it_to_the_task_unless_it_says_so(
    server: Any, given: dict[str, Any], status: str
) -> None:
    run = parked(server)
    finish(run, "FAILED_WITH_TERMINAL_ERROR")
    again = {**call(server)["inputParameters"], **given}
    control.rerun(flows.NAMESPACE, run, task_id=the_task(run).id, task_input=again, **ACTOR)
    assert work() == [status]


def test_it_gives_back_its_place_and_its_permits(server: Any) -> None:
    semaphore = flows.unique("sem")
    limiting.put_semaphore(flows.NAMESPACE, semaphore, 1)
    policy(concurrentExecLimit=1, semaphores=[semaphore])
    first, second = (flows.start(flows.register(call(server, asyncComplete=True))) for _ in range(2))
    assert [work(), work()] == [["IN_PROGRESS"], ["IN_PROGRESS"]]
    assert not Permit.objects.exists()
    assert {the_task(first).status, the_task(second).status} == {"IN_PROGRESS"}


def test_it_frees_a_place_under_its_runs_most(server: Any) -> None:
    branches = [[call(server, ref=ref, asyncComplete=True)] for ref in ("c", "d")]
    run = flows.start(flows.register(*flows.fork("f", *branches), maxConcurrentTasks=1))
    assert [work(), work()] == [["IN_PROGRESS"], ["IN_PROGRESS"]]
    assert not any(sweeping.invariant_report().values())
    control.terminate(flows.NAMESPACE, run, **ACTOR)
    assert {task.status for task in Task.objects.filter(workflow_id=run, type="HTTP")} == {"CANCELED"}


def test_one_that_was_completed_during_its_call_stays_so(server: Any) -> None:
    run = flows.start(flows.register(call(server, asyncComplete=True)))
    flows.drain()
    (task,) = dispatching.lease_system_tasks(["HTTP"], batch=1, worker_id="system")
    finish(run, output={"early": True})
    (outcome,) = dispatching.report([run_system_task(task)], strict=False)
    flows.drain()
    assert (outcome.applied, flows.status(run), the_task(run).output) == (False, "COMPLETED", {"early": True})
    assert HistoryEvent.objects.filter(workflow_id=run, type="task.late_result_refused").exists()


def test_only_the_holder_of_the_lease_may_let_it_wait(server: Any) -> None:
    run = flows.start(flows.register(call(server, asyncComplete=True)))
    flows.drain()
    (task,) = dispatching.lease_system_tasks(["HTTP"], batch=1, worker_id="system")
    dispatching.release_tasks([(task.id, task.lease_token)])
    (outcome,) = dispatching.report([run_system_task(task)], strict=False)
    assert (outcome.applied, the_task(run).status) == (False, "SCHEDULED")
    assert work() == ["IN_PROGRESS"]


def test_it_is_parked_in_one_report_with_tasks_that_end(server: Any) -> None:
    branches = [[call(server, ref="c", asyncComplete=True)], [call(server, ref="d")], [call(server, 500, ref="e")]]
    run = flows.start(flows.register(*flows.fork("f", *branches)))
    assert sorted(work()) == ["COMPLETED", "FAILED", "IN_PROGRESS"]
    assert flows.status(run) == "FAILED"
    assert the_task(run).status == TaskStatus.CANCELED
