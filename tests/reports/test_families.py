"""Public bug reports about children, terminations, failure workflows and reruns, as they would have to go here."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.db.ids import new_id
from orchestrator.errors import Conflict, IllegalState, NotFound
from orchestrator.models import AuditEntry
from tests import flows
from tests.reports.story import Story, fork, inline, of, times, wait
from workflows.models import Execution, Task
from workflows.services import control, definitions, starting
from workflows.services.starting import StartRequest

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE


def simple(ref: str, **fields: Any) -> dict[str, Any]:
    return of("SIMPLE", ref, **fields)


def sub(ref: str, name: str, **fields: Any) -> dict[str, Any]:
    return of("SUB_WORKFLOW", ref, subWorkflowParam={"name": name}, **fields)


def terminating(status: str, **given: Any) -> dict[str, Any]:
    return of("TERMINATE", "t", inputParameters={"terminationStatus": status, **given})


def worker_flow(*refs: str) -> tuple[str, dict[str, str]]:
    """A workflow of worker tasks without retries, and their queues."""
    queues = {ref: flows.unique(ref) for ref in refs}
    definitions.register_tasks(NS, [{"name": queue, "retryCount": 0} for queue in queues.values()])
    return flows.register(*[flows.simple(ref, queue) for ref, queue in queues.items()]), queues


def work(story: Story, queue: str, status: str = "COMPLETED", output: dict[str, Any] | None = None) -> None:
    (task,) = flows.lease(queue)
    flows.complete([task], output, status)
    story.rest()


def test_b044_a_retried_parent_resumes_its_child_and_a_retried_child_takes_its_parent_along() -> None:
    inner, queues = worker_flow("t1", "t2", "t3")
    for by_parent in (True, False):
        story = Story(inline("t4", "1"), sub("s", inner), inline("t5", "2"))
        child = story.child("s").id
        work(story, queues["t1"])
        work(story, queues["t2"])
        work(story, queues["t3"], "FAILED")
        assert (story.status, flows.status(child)) == ("FAILED", "FAILED")
        if by_parent:
            control.retry(NS, story.run, resume_subworkflow_tasks=True, actor="ann")
        else:
            control.retry(NS, child, actor="ann")
        story.rest()
        assert (story.status, flows.status(child)) == ("RUNNING", "RUNNING")
        assert flows.lease(queues["t1"]) == []
        work(story, queues["t3"])
        assert (story.status, story.child("s").id) == ("COMPLETED", child)
        assert story.execution().reason is None


def test_b045_a_retried_child_in_a_fork_brings_its_neighbours_back() -> None:
    inner, queues = worker_flow("t")
    story = Story(*fork("f", [sub("c1", inner)], [simple("b")]))
    work(story, queues["t"], "FAILED")
    assert (story.status, story.row("b").status) == ("FAILED", "CANCELED")
    control.retry(NS, story.child("c1").id, actor="ann")
    story.rest()
    assert story.status == "RUNNING"
    story.end("b")
    work(story, queues["t"])
    assert (story.status, story.execution().reason) == ("COMPLETED", None)


def test_b047_the_end_of_a_child_ends_its_parents_task_with_its_output() -> None:
    inner, queues = worker_flow("foo")
    story = Story(sub("s", inner))
    work(story, queues["foo"], output={"x": 1})
    assert story.status == "COMPLETED"
    assert story.row("s").output["x"] == 1


def test_b048_terminate_reaches_every_level() -> None:
    name = flows.register(wait("w"))
    for _ in range(3):
        name = flows.register(*fork("f", [wait("w")], [sub("c", name)]))
    story = Story(sub("top", name))
    assert Execution.objects.filter(status="RUNNING").count() == 5
    control.terminate(NS, story.run, reason="enough", actor="ann")
    story.rest()
    assert set(Execution.objects.values_list("status", flat=True)) == {"TERMINATED"}
    assert not Task.objects.filter(ended_at=None).exists()
    assert AuditEntry.objects.filter(action="workflow.terminate", actor="ann").count() == 1


def test_b050_a_child_that_cannot_start_fails_its_task_and_can_be_retried() -> None:
    missing = flows.unique("no_such_flow")
    story = Story(sub("s", missing), failureWorkflow=flows.register(wait("w"), name=flows.unique("cleanup")))
    assert story.status == "FAILED"
    assert missing in str(story.row("s").reason)
    assert Execution.objects.filter(id=story.execution().failure_workflow_id).exists()
    flows.register(inline("x", "1"), name=missing)
    control.retry(NS, story.run, actor="ann")
    story.rest()
    assert story.status == "COMPLETED"


@pytest.mark.parametrize(("given", "version"), [(1, 1), ("2", 2), (None, 2)])
def test_b051_a_childs_version_may_be_an_expression(given: Any, version: int) -> None:
    name = flows.register(inline("x", "1"))
    definitions.register(NS, {"name": name, "version": 2, "tasks": [inline("x", "2")]}, overwrite=True)
    param = {"name": name, "version": "${workflow.input.v}"}
    story = Story(of("SUB_WORKFLOW", "s", subWorkflowParam=param), input={"v": given})
    assert (story.status, story.child("s").version) == ("COMPLETED", version)


def test_b051_a_version_that_does_not_exist_fails_clearly() -> None:
    name = flows.register(inline("x", "1"))
    param = {"name": name, "version": "${workflow.input.v}"}
    story = Story(of("SUB_WORKFLOW", "s", subWorkflowParam=param), input={"v": 99})
    assert story.status == "FAILED"
    assert "99" in str(story.row("s").reason)


def test_b052_a_childs_name_or_definition_may_come_from_a_task() -> None:
    name = flows.register(inline("x", "1"))
    made = "({name: 'made', version: 1, tasks: [{name: 'n', taskReferenceName: 'n', type: 'NOOP'}]})"
    story = Story(
        inline("pick", f"'{name}'"), sub("s", "${pick.output.result}"), inline("gen", made),
        of("SUB_WORKFLOW", "d", subWorkflowParam={"name": "made", "workflowDefinition": "${gen.output.result}"}),
    )  # fmt: skip
    assert story.status == "COMPLETED"
    assert (story.child("s").name, story.child("d").name) == (name, "made")


def test_b053_an_optional_child_that_fails_is_passed_over() -> None:
    story = Story(sub("c", flows.register(terminating("FAILED")), optional=True), inline("after", "1"))
    assert (story.row("c").status, story.status) == ("COMPLETED_WITH_ERRORS", "COMPLETED")


def test_b061_a_task_of_an_ended_run_is_not_handed_out() -> None:
    story = Story(*fork("f", [simple("a")], [simple("b")]), policies={"a": {}})
    story.fail("a")
    assert story.row("b").status == "CANCELED"
    assert story.poll("b") == []


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_b064_terminate_ends_a_run_as_it_says(in_a_loop: bool) -> None:
    task = terminating("TERMINATED", terminationReason="stop", workflowOutput={"x": 1})
    story = Story(times("l", 2, task) if in_a_loop else task)
    ended = story.execution()
    assert (ended.status, ended.reason, ended.output) == ("TERMINATED", "stop", {"x": 1})
    unknown = {"name": "x", "version": 1, "tasks": [terminating("PERHAPS")]}
    assert [path for path, _ in definitions.check(flows.NAMESPACE, unknown)] == ["tasks[0].inputParameters.terminationStatus"]


def test_b065_a_terminate_that_fails_starts_the_failure_workflow() -> None:
    cleanup = flows.register(wait("w"))
    story = Story(terminating("FAILED", terminationReason="bad"), input={"order": 5}, failureWorkflow=cleanup)
    (run,) = Execution.objects.filter(name=cleanup)
    assert run.input["workflowId"] == str(story.run)
    assert (run.input["reason"], run.input["failureStatus"], run.input["order"]) == ("bad", "FAILED", 5)
    assert "failureTaskId" in run.input


@pytest.mark.parametrize("cause", ["worker", "terminal", "timeout"])
def test_b067_the_failure_workflow_is_told_why(cause: str) -> None:
    cleanup = flows.register(wait("w"))
    policy = {"responseTimeoutSeconds": 1, "timeoutPolicy": "TIME_OUT_WF"} if cause == "timeout" else {}
    story = Story(simple("a"), policies={"a": policy}, failureWorkflow=cleanup)
    if cause == "timeout":
        story.poll("a")
        flows.time_out()
        story.rest()
    else:
        story.fail("a", terminal=cause == "terminal")
    (run,) = Execution.objects.filter(name=cleanup)
    assert run.input["reason"]
    if cause != "timeout":
        assert "a broke" in run.input["reason"]


@pytest.mark.parametrize("output", ["text", [1], None, {"a": 1}])
def test_b068_any_output_goes_with_a_failure_workflow(output: Any) -> None:
    cleanup = flows.register(wait("w"))
    story = Story(terminating("FAILED", workflowOutput=output), failureWorkflow=cleanup)
    run = story.execution()
    assert (run.status, isinstance(run.output, dict)) == ("FAILED", True)
    assert Execution.objects.get(id=run.failure_workflow_id).name == cleanup


def test_b072_a_reason_is_gone_after_a_retry() -> None:
    story = Story(simple("a"), policies={"a": {}})
    story.fail("a")
    assert "a broke" in str(story.execution().reason)
    control.retry(NS, story.run, actor="ann")
    story.rest()
    story.end("a")
    ended = story.execution()
    assert (ended.status, ended.reason, ended.failed_refs) == ("COMPLETED", None, [])


def test_b074_a_rerun_goes_on_behind_its_task() -> None:
    story = Story(simple("t1"), simple("t2"), simple("t3"))
    for ref in ("t1", "t2", "t3"):
        story.end(ref)
    kept = story.row("t1").id
    control.rerun(NS, story.run, task_id=story.row("t2").id, task_input={"new": 1}, actor="ann")
    story.rest()
    assert story.end("t2").input == {"new": 1}
    story.end("t3")
    assert (story.status, story.row("t1").id) == ("COMPLETED", kept)


def test_b075_a_rerun_in_a_branch_leaves_its_neighbours_alone() -> None:
    inner = flows.register(inline("x", "1"))
    story = Story(*fork("f", *[[simple(f"s{i}"), sub(f"c{i}", inner)] for i in (1, 2, 3)]), inline("after", "1"))
    for i in (1, 2, 3):
        story.end(f"s{i}")
    before = {ref: story.row(ref).id for ref in ("s1", "c1", "s3", "c3", "c2")}
    control.rerun(NS, story.run, task_id=story.row("s2").id, actor="ann")
    story.rest()
    story.end("s2")
    after = {ref: story.row(ref).id for ref in before}
    assert story.status == "COMPLETED"
    assert {ref for ref in before if before[ref] != after[ref]} == {"c2"}


def test_b078_pause_and_resume_say_what_is_the_case() -> None:
    story = Story(wait("w"))
    with pytest.raises(IllegalState, match="RUNNING"):
        control.resume(NS, story.run, actor="ann")
    control.pause(NS, story.run, actor="ann")
    control.pause(NS, story.run, actor="ann")
    assert story.status == "PAUSED"
    control.resume(NS, story.run, actor="ann")
    story.signal("w")
    with pytest.raises(IllegalState, match="COMPLETED"):
        control.resume(NS, story.run, actor="ann")
    with pytest.raises(NotFound):
        control.resume(NS, new_id(), actor="ann")


def test_b080_a_reference_means_the_newest_attempt() -> None:
    ref = "send__mail__2"
    story = Story(of("SIMPLE", ref), policies={ref: {"retryCount": 3, "retryDelaySeconds": 0}})
    for _ in range(2):
        control.complete_task(NS, story.run, ref, "FAILED", actor="ann")
        story.rest()
    control.complete_task(NS, story.run, ref, "COMPLETED", actor="ann")
    story.rest()
    assert [t.status for t in story.rows(ref)] == ["FAILED", "FAILED", "COMPLETED"]
    assert story.status == "COMPLETED"


def test_b082_a_rerun_goes_back_into_a_turn_of_a_loop() -> None:
    story = Story(times("l", 3, simple("a"), simple("b")))
    for _ in range(3):
        story.end("a")
        story.end("b")
    second = next(t for t in story.rows("b") if t.iteration == "2")
    control.rerun(NS, story.run, task_id=second.id, actor="ann")
    story.rest()
    story.end("b")
    story.end("a")
    story.end("b")
    assert story.status == "COMPLETED"
    assert sorted(t.iteration for t in story.rows("a") if t.status == "COMPLETED") == ["1", "2", "3"]


def test_b118_strategies_of_idempotency() -> None:
    name = flows.register(wait("w"))

    def start(strategy: str, workflow: str = name) -> Any:
        return starting.start(
            StartRequest(workflow, idempotency_key="k", idempotency_strategy=strategy)  # type: ignore[arg-type]
        )

    first = start("RETURN_EXISTING")
    assert start("RETURN_EXISTING") == first
    for strategy in ("FAIL", "FAIL_ON_RUNNING"):
        with pytest.raises(Conflict):
            start(strategy)
    control.terminate(NS, first, actor="ann")
    assert start("FAIL_ON_RUNNING") != first


def test_b120_saving_an_existing_version_is_never_silent() -> None:
    name = flows.register(inline("x", "1"))
    changed = {"name": name, "version": 1, "tasks": [inline("x", "2")]}
    with pytest.raises(Conflict):
        definitions.register(NS, changed, overwrite=False)
    definitions.register(NS, changed, overwrite=True)
    assert definitions.get(NS, name, 1).definition["tasks"][0]["inputParameters"]["expression"] == "2"
