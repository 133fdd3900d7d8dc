"""Reports of systems of this kind, told again: joins that come late or twice, and ends that reach too little."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

import pytest

from dispatch.services import dispatching
from orchestrator.db.transactions import transaction
from tests import flows
from tests.api.client import Caller, demo_api  # noqa: F401  (a fixture)
from tests.flows import simple, unique
from tests.support import Contender, eventually, race
from workflows.models import DecideQueue, Execution, Task
from workflows.services import control, evaluation
from workflows.services.sweeping import sweep

pytestmark = pytest.mark.usefixtures("committed")
ANN = {"actor": "ann"}


def running(*tasks: dict[str, Any], input: dict[str, Any] | None = None, **fields: Any) -> UUID:
    run = flows.start(flows.register(*tasks, **fields), input)
    flows.drain()
    return run


def test_b030_children_of_a_dynamic_fork_that_end_together_never_leave_its_join_open() -> None:
    queue = unique("leaf")
    leaf = flows.register(simple("leaf", queue))
    fork = {
        "name": "f", "taskReferenceName": "f", "type": "FORK_JOIN_DYNAMIC",
        "inputParameters": {"forkTaskWorkflow": leaf, "forkTaskInputs": [{}, {}, {}]},
    }  # fmt: skip
    join = {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": []}
    name = flows.register(fork, join)
    stop = threading.Event()

    def decide() -> None:
        while not stop.is_set():
            if not evaluation.evaluate_next_batch():
                stop.wait(0.001)

    runs = [flows.start(name) for _ in range(10)]
    flows.drain()
    tasks = flows.lease_all(queue, 30)
    deciders = [Contender(decide) for _ in range(4)]
    try:
        assert race(6, lambda i: flows.complete(tasks[i::6])) == [None] * 6
        eventually(lambda: Execution.objects.filter(id__in=runs, status="COMPLETED").count() == len(runs), 30)
    finally:
        stop.set()
        for decider in deciders:
            decider.result()
    assert sweep() == 0


def test_b032_a_join_ends_in_the_pass_that_sees_its_last_branch() -> None:
    queue = unique("q")
    run = running(*flows.fork("f", [simple("a", queue)], [simple("b", queue)]), simple("z"))
    flows.complete(flows.lease_all(queue, 2))
    assert evaluation.evaluate_next_batch() == 1
    assert flows.statuses(run) == {
        "f": "COMPLETED",
        "a": "COMPLETED",
        "b": "COMPLETED",
        "f_join": "COMPLETED",
        "z": "SCHEDULED",
    }


def test_b042_a_run_with_a_skipped_task_is_shown_whole(api: Caller) -> None:
    waits = [{"name": ref, "taskReferenceName": ref, "type": "WAIT"} for ref in ("w1", "w2", "w3")]
    run = running(*waits)
    control.skip_task(flows.NAMESPACE, run, "w2", **ANN)
    for ref in ("w1", "w3"):
        api("post", f"tasks/{run}/{ref}/COMPLETED", {})
        flows.drain()
    found = api.json("get", f"workflow/{run}")
    assert [(t["referenceTaskName"], t["status"]) for t in found["tasks"]] == [
        ("w1", "COMPLETED"), ("w2", "SKIPPED"), ("w3", "COMPLETED"),
    ]  # fmt: skip
    assert api("get", f"workflow/{run}/history").status_code == 200
    page = api.client.get(f"/ops/{flows.NAMESPACE}/executions/{run}/")
    assert page.status_code == 200
    assert b"SKIPPED" in page.content


def test_b058_a_completion_that_arrives_while_the_run_is_locked_is_evaluated_after_it() -> None:
    queue = unique("q")
    run = running(simple("a", queue), simple("b", queue))
    held = flows.lease(queue)
    with transaction():
        Execution.sql.lock([run])
        assert Contender(lambda: flows.complete(held)).result() is None
        decider = Contender(evaluation.evaluate_next_batch).until_blocked()
    assert decider.result() == 1
    assert flows.statuses(run) == {"a": "COMPLETED", "b": "SCHEDULED"}
    assert not DecideQueue.objects.filter(workflow_id=run).exists()


@pytest.mark.parametrize("asked", [True, False])
def test_b066_a_terminate_starts_the_failure_workflow_when_it_is_asked_to(api: Caller, asked: bool) -> None:
    cleanup = flows.register(simple("tidy", unique("tidy")))
    run = running(simple("a", unique("q")), failureWorkflow=cleanup)
    api.empty("delete", f"workflow/{run}?reason=enough&triggerFailureWorkflow={str(asked).lower()}")
    flows.drain()
    assert flows.status(run) == "TERMINATED"
    started = list(Execution.objects.filter(name=cleanup).values_list("id", flat=True))
    assert len(started) == int(asked)
    output = Execution.objects.get(id=run).output or {}
    assert output.get("conductor.failure_workflow") == (str(started[0]) if asked else None)


def test_b123_the_list_of_definitions_can_be_had_without_old_versions(api: Caller) -> None:
    name = unique("many")
    for version in range(1, 5):
        api.empty("post", "metadata/workflow", {"name": name, "version": version, "tasks": [simple("a")]})
    latest = api.json("get", "metadata/workflow/latest-versions")
    assert [found["version"] for found in latest if found["name"] == name] == [4]


def test_b123_a_page_of_definitions_holds_each_name_once_with_the_number_of_all(api: Caller) -> None:
    mark = unique("many")
    names = [f"{mark}_{n:02}" for n in range(25)]
    for name in reversed(names):
        for version in (3, 12, 4):
            flows.register(simple("a"), name=name, version=version)
    flows.register(simple("a"))
    path = f"metadata/workflow/search?freeText={mark.upper()}&size=10&start="
    pages = [api.json("get", f"{path}{start}") for start in (0, 10, 20, 30)]
    assert [page["totalHits"] for page in pages] == [25] * 4
    assert [found["name"] for page in pages for found in page["results"]] == names
    assert [len(page["results"]) for page in pages] == [10, 10, 5, 0]
    assert {found["version"] for page in pages for found in page["results"]} == {12}, "the greatest number, not the newest row"
    assert api.json("get", "metadata/workflow/search?freeText=*")["totalHits"] == 26
    api.empty("delete", f"metadata/workflow/{names[0]}/12")
    assert api.json("get", f"{path}0")["results"][0]["version"] == 4
    for wrong in ("start=-1", "size=x", "size=5001"):
        api.refused("get", f"metadata/workflow/search?{wrong}")


def test_b135_a_worker_learns_at_its_next_heartbeat_that_its_run_was_ended() -> None:
    queue = unique("q")
    run = running(simple("a", queue))
    (held,) = flows.lease(queue)
    control.terminate(flows.NAMESPACE, run, reason="enough", **ANN)
    assert held.lease_token is not None
    assert dispatching.renew_leases([(held.id, held.lease_token)]) == set()


def test_b139_what_follows_twenty_branches_that_end_together_is_made_once() -> None:
    queue, width = unique("q"), 20
    after = unique("after")
    run = running(*flows.fork("f", *[[simple(f"b{i}", queue)] for i in range(width)]), simple("z", after))
    tasks = flows.lease_all(queue, width)

    def act(number: int) -> None:
        if number < width:
            flows.complete([tasks[number]])
        else:
            evaluation.evaluate_now([run])

    assert race(width + 2, act) == [None] * (width + 2)
    flows.drain()
    assert Task.objects.filter(workflow_id=run, ref="z").count() == 1
    assert len(flows.lease(after)) == 1
