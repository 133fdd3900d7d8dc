"""Task functions and the worker that runs them: what becomes of every way to end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from dispatch import worker as workers
from dispatch.models import QueuedTask, WorkerPoll
from dispatch.services import dispatching
from dispatch.system_tasks import RUNNERS, run_system_task
from dispatch.worker import InProgress, NonRetryable, Worker, call_registered, lease_registered, task
from orchestrator.db.transactions import transaction
from tests import flows
from tests.support import eventually
from workflows.managers.task import StartedTask
from workflows.models import Task, TaskLog
from workflows.services import control

pytestmark = pytest.mark.usefixtures("committed")

Make = Callable[..., Worker]


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of the test's own."""
    monkeypatch.setattr(workers, "REGISTRY", {})


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Worker] = []

    def build(**options: Any) -> Worker:
        worker = Worker(
            lambda room, worker_id: lease_registered(flows.NAMESPACE, room, worker_id, worker.running()),
            call_registered,
            **options,
        )
        made.append(worker)
        return worker

    yield build
    for worker in made:
        worker.drain()


def run(name: str, input: dict[str, Any] | None = None, **fields: Any) -> UUID:
    """Start a run of one task with this input."""
    parameters = {key: f"${{workflow.input.{key}}}" for key in input or {}}
    found = flows.start(flows.register(flows.simple("a", name, inputParameters=parameters, **fields)), input)
    flows.drain()
    return found


def work(worker: Worker, *runs: UUID) -> list[Task]:
    """Step until the first attempts of these runs have ended; the attempts."""

    def ended() -> bool:
        worker.step()
        return not Task.objects.filter(workflow_id__in=runs, attempt=0, ended_at=None).exists()

    eventually(ended)
    return [Task.objects.get(workflow_id=run, attempt=0) for run in runs]


def test_input_comes_as_keyword_arguments_and_the_result_becomes_the_output(make: Make) -> None:
    name = flows.unique("add")

    @task(name)
    def add(x: int, y: int) -> int:
        return x + y

    (ended,) = work(make(), run(name, {"x": 2, "y": 3}))
    assert (ended.status, ended.output) == ("COMPLETED", {"result": 5})
    assert add(1, 1) == 2, "a registered function is still a function"


def test_a_dict_is_the_output_itself_and_async_functions_are_awaited(make: Make) -> None:
    name = flows.unique("go")

    @task(name)
    async def go(x: int) -> dict[str, int]:
        return {"twice": x * 2}

    (ended,) = work(make(), run(name, {"x": 2}))
    assert ended.output == {"twice": 4}


def test_a_function_may_take_the_whole_task(make: Make) -> None:
    name = flows.unique("whole")

    @task(name)
    def whole(started: StartedTask) -> str:
        return f"{started.ref}/{started.attempt}"

    (ended,) = work(make(), run(name))
    assert ended.output == {"result": "a/0"}


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("no"), "FAILED"), (NonRetryable("no"), "FAILED_WITH_TERMINAL_ERROR")]
)
def test_an_exception_fails_the_attempt_with_its_text(make: Make, error: Exception, status: str) -> None:
    name = flows.unique("fail")

    @task(name)
    def fail() -> None:
        raise error

    (ended,) = work(make(), run(name, retryCount=0))
    assert (ended.status, ended.reason) == (status, "no")


def test_wrong_arguments_fail_the_attempt_and_not_the_worker(make: Make) -> None:
    name = flows.unique("args")

    @task(name)
    def args(x: int) -> int:
        return x

    (ended,) = work(make(), run(name, {"y": 1}, retryCount=0))
    assert ended.status == "FAILED" and "unexpected keyword argument" in (ended.reason or "")


def test_in_progress_hands_the_task_out_again(make: Make) -> None:
    name, seen = flows.unique("again"), []

    @task(name)
    def again(started: StartedTask) -> dict[str, Any]:
        seen.append(started.output)
        if len(seen) < 3:
            raise InProgress(callback_seconds=0, output={"turn": len(seen)})
        return {"turns": len(seen)}

    (ended,) = work(make(), run(name))
    assert (seen[0] or None, *seen[1:]) == (None, {"turn": 1}, {"turn": 2})
    assert (ended.output, ended.poll_count) == ({"turns": 3}, 3)


@pytest.mark.invariant("INV-13")
@pytest.mark.parametrize("bad", ["a\x00b", object(), float("nan"), "\ud800"], ids=["nul", "object", "nan", "surrogate"])
def test_a_result_that_cannot_be_kept_fails_its_task_alone(make: Make, bad: Any) -> None:
    name, gate = flows.unique("bad"), threading.Event()

    @task(name)
    def produce(poison: bool) -> dict[str, Any]:
        assert gate.wait(10)
        return {"value": bad if poison else "good"}

    runs = [run(name, {"poison": i == 1}) for i in range(3)]
    worker = make()
    worker.step()
    assert len(worker._running) == 3
    gate.set()
    good, poisoned, other = work(worker, *runs)
    assert {good.status, other.status} == {"COMPLETED"}
    if isinstance(bad, float):
        return  # orjson writes NaN as null
    assert poisoned.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "cannot be kept" in (poisoned.reason or "")


def test_a_run_that_was_removed_meanwhile_does_not_stop_its_worker(make: Make) -> None:
    name, gate = flows.unique("gone"), threading.Event()

    @task(name)
    def wait() -> None:
        assert gate.wait(10)

    gone, kept = run(name), run(name)
    worker = make()
    worker.step()
    control.terminate_remove(flows.NAMESPACE, gone, actor="me")
    gate.set()
    (ended,) = work(worker, kept)
    assert ended.status == "COMPLETED"
    eventually(lambda: worker.step() == 0 and not worker._running)


def test_concurrency_bounds_one_function_and_leaves_room_to_others(make: Make) -> None:
    narrow, wide, gate = flows.unique("narrow"), flows.unique("wide"), threading.Event()

    @task(narrow, concurrency=2)
    def run_narrow() -> None:
        assert gate.wait(10)

    @task(wide)
    def run_wide() -> None:
        assert gate.wait(10)

    runs = [run(narrow) for _ in range(4)] + [run(wide) for _ in range(3)]
    worker = make(threads=8)
    for _ in range(3):
        worker.step()
    assert worker.running() == {narrow: 2, wide: 3}
    gate.set()
    assert {ended.status for ended in work(worker, *runs)} == {"COMPLETED"}
    with pytest.raises(ValueError, match="concurrency"):
        task("x", concurrency=0)


def test_threads_and_batch_are_limits(make: Make) -> None:
    name, gate = flows.unique("many"), threading.Event()

    @task(name)
    def many() -> None:
        assert gate.wait(10)

    runs = [run(name) for _ in range(6)]
    worker = make(threads=4, batch=3)
    assert worker.step() == 3
    assert worker.step() == 1
    assert worker.step() == 0
    gate.set()
    assert {ended.status for ended in work(worker, *runs)} == {"COMPLETED"}


def test_draining_lets_running_tasks_end_and_leases_nothing_new(make: Make) -> None:
    name, gate = flows.unique("drain"), threading.Event()

    @task(name)
    def drain() -> str:
        assert gate.wait(10)
        return "done"

    first = run(name)
    worker = make()
    worker.step()
    second = run(name)
    stopped = threading.Thread(target=worker.drain)
    stopped.start()
    gate.set()
    stopped.join(10)
    assert not stopped.is_alive()
    assert Task.objects.get(workflow_id=first).output == {"result": "done"}
    assert Task.objects.get(workflow_id=second).status == "SCHEDULED"


def test_leases_are_renewed_at_a_third_of_their_time_while_the_task_runs(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, gate, now = flows.unique("long"), threading.Event(), [1000.0]

    @task(name)
    def long() -> None:
        assert gate.wait(10)

    run_id = run(name)
    monkeypatch.setattr(workers.time, "monotonic", lambda: now[0])
    worker = make()
    worker.step()
    ends = [QueuedTask.objects.get(workflow_id=run_id).lease_expires_at]
    for seconds in (19, 2):
        now[0] += seconds
        worker.step()
        ends.append(QueuedTask.objects.get(workflow_id=run_id).lease_expires_at)
    assert ends[0] == ends[1] != ends[2] and max(filter(None, ends)) == ends[2]
    monkeypatch.undo()
    gate.set()


def test_the_bell_rings_when_the_result_can_be_read() -> None:
    name, rung, gate = flows.unique("bell"), threading.Event(), threading.Event()
    found: list[bool] = []

    @task(name)
    def bell() -> None:
        assert gate.wait(10)

    def on_ended() -> None:
        found.append(all(future.done() for _, future in worker._running.values()))
        rung.set()

    registered = dict(workers.REGISTRY)
    worker = Worker(
        lambda room, worker_id: lease_registered(flows.NAMESPACE, room, worker_id, worker.running()),
        lambda started: registered[started.name].call(started),
        on_ended=on_ended,
    )
    run(name)
    worker.step()
    gate.set()
    assert rung.wait(10)
    assert found == [True]
    worker.drain()


def test_polls_of_a_worker_are_recorded(make: Make) -> None:
    name = flows.unique("polled")
    task(name)(lambda: None)
    make(worker_id="me").step()
    assert WorkerPoll.objects.get(queue=name).worker_id == "me"


def test_a_domain_has_a_queue_of_its_own(make: Make) -> None:
    name = flows.unique("dom")

    @task(name, domain="blue")
    def blue() -> str:
        return "blue"

    @task(name)
    def plain() -> str:
        return "plain"

    flow = flows.register(flows.simple("a", name))
    runs = [flows.start(flow, task_to_domain={name: "blue"}), flows.start(flow)]
    flows.drain()
    assert [ended.output for ended in work(make(), *runs)] == [{"result": "blue"}, {"result": "plain"}]


def test_system_tasks_run_on_the_same_worker() -> None:
    inline = {
        "name": "i", "taskReferenceName": "i", "type": "INLINE",
        "inputParameters": {"evaluatorType": "javascript", "expression": "$.n + 1", "n": 1},
    }  # fmt: skip
    lambda_ = {
        "name": "l", "taskReferenceName": "l", "type": "LAMBDA",
        "inputParameters": {"scriptExpression": "return $.n * 2", "n": "${i.output.result}"},
    }  # fmt: skip
    jq = {
        "name": "j", "taskReferenceName": "j", "type": "JSON_JQ_TRANSFORM",
        "inputParameters": {"queryExpression": ".n * 10", "n": "${l.output.result}"},
    }  # fmt: skip
    found = flows.start(flows.register(inline, lambda_, jq))
    worker = Worker(
        lambda room, worker_id: dispatching.lease_system_tasks(sorted(RUNNERS), batch=room, worker_id=worker_id),
        run_system_task,
        threads=2,
    )

    def done() -> bool:
        flows.drain()
        worker.step()
        return flows.status(found) == "COMPLETED"

    eventually(done)
    worker.drain()
    assert Task.objects.get(workflow_id=found, ref="j").output["result"] == 40


def test_the_command_refuses_what_it_cannot_run() -> None:
    with pytest.raises(CommandError, match="cannot import"):
        call_command("run_worker", "no.such.module")
    with pytest.raises(CommandError, match="no function is registered"):
        call_command("run_worker", "json")


def test_a_lost_lease_leaves_the_late_result_out(make: Make) -> None:
    name, gate = flows.unique("late"), threading.Event()

    @task(name)
    def late() -> str:
        assert gate.wait(10)
        return "late"

    found = run(name)
    worker = make()
    worker.step()
    ((started, _),) = worker._running.values()
    with transaction():
        QueuedTask.sql.defer([(started.id, started.lease_token, 3600.0)])
        Task.sql.reset([(found, started.id, started.lease_token, None, 0)])
    gate.set()
    eventually(lambda: worker.step() and not worker._running)
    assert Task.objects.get(workflow_id=found).status == "SCHEDULED"
    assert not TaskLog.objects.filter(workflow_id=found).exists()
