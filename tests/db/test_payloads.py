"""The limits of payloads: who asks is refused, what the engine makes fails with its task or run, and nothing hangs."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.services import dispatching
from orchestrator.errors import TooLarge
from tests import flows
from tests.reports.story import Story, fork, inline, of, times, wait
from workflows.models import DecideQueue, Execution
from workflows.services import control

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE
HALF = "x" * 600
LIMIT = 1000
OVER = f"is over the limit of {LIMIT} bytes"


@pytest.fixture(autouse=True)
def small(settings: Any) -> None:
    settings.OSTINATO = {
        **settings.OSTINATO,
        "TASK_PAYLOAD_MAX_BYTES": LIMIT,
        "WORKFLOW_PAYLOAD_MAX_BYTES": LIMIT,
        "VARIABLES_MAX_BYTES": LIMIT,
    }


def simple(ref: str, **fields: Any) -> dict[str, Any]:
    return of("SIMPLE", ref, **fields)


TWICE = ["${workflow.input.h}", "${workflow.input.h}"]
MADE = {
    "expression": [simple("t", inputParameters={"x": TWICE})],
    "noop": [of("NOOP", "t", inputParameters={"x": TWICE})],
    "output": [of("EVENT", "t", sink="conductor:e", inputParameters={"x": "${workflow.input.h}", "y": "z" * 370})],
    "inline": [inline("t", "[$.h, $.h]", h="${workflow.input.h}")],
    "jq": [of("JSON_JQ_TRANSFORM", "t", inputParameters={"queryExpression": ".h + .h", "h": "${workflow.input.h}"})],
    "items": [of("DO_WHILE", "t", items=TWICE, loopOver=[of("NOOP", "n")])],
    "variables": [
        of("SET_VARIABLE", "s", inputParameters={"a": "${workflow.input.h}"}),
        of("SET_VARIABLE", "t", inputParameters={"b": "${workflow.input.h}"}),
    ],
    "terminate": [
        of("TERMINATE", "t", inputParameters={"terminationStatus": "COMPLETED", "workflowOutput": {"x": TWICE}}),
    ],
    "child's input": [of("SUB_WORKFLOW", "t", subWorkflowParam={"name": "x"}, inputParameters={"x": TWICE})],
}  # fmt: skip


@pytest.mark.parametrize("made", MADE)
def test_what_the_engine_makes_over_the_limit_fails_its_task(made: str) -> None:
    story = Story(*MADE[made], input={"h": HALF}, outputParameters={"done": True})
    row = story.row("t")
    assert (row.status, story.status) == ("FAILED_WITH_TERMINAL_ERROR", "FAILED")
    assert OVER in row.reason and OVER in str(story.execution().reason)
    assert len(str(row.input)) < LIMIT and len(str(row.output)) < LIMIT
    assert not DecideQueue.objects.filter(workflow_id=story.run).exists()


def test_a_join_over_the_limit_fails_and_an_optional_one_is_passed_over() -> None:
    def branches() -> list[dict[str, Any]]:
        return fork("f", [simple("a")], [simple("b")])

    story = Story(*branches(), simple("after"))
    story.end("a", {"h": HALF})
    story.end("b", {"h": HALF})
    assert (story.row("j").status, story.status) == ("FAILED_WITH_TERMINAL_ERROR", "FAILED")
    assert OVER in story.row("j").reason
    tasks = branches()
    story = Story(tasks[0], {**tasks[1], "optional": True}, simple("after"))
    story.end("a", {"h": HALF})
    story.end("b", {"h": HALF})
    assert (story.row("j").status, story.open()) == ("COMPLETED_WITH_ERRORS", {"after"})


def test_a_loop_fails_in_the_turn_that_takes_it_over_the_limit() -> None:
    story = Story(times("l", 3, simple("a")))
    story.end("a", {"h": HALF})
    story.end("a", {"h": HALF})
    row = story.row("l")
    assert (row.status, story.status, "1" in row.output, "2" in row.output) == (
        "FAILED_WITH_TERMINAL_ERROR", "FAILED", True, False,
    )  # fmt: skip
    assert OVER in row.reason


def test_a_childs_output_over_its_parents_limit_fails_the_parents_task(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "WORKFLOW_PAYLOAD_MAX_BYTES": 4 * LIMIT}
    inner = flows.register(of("NOOP", "n"), outputParameters={"x": TWICE})
    story = Story(
        of("SUB_WORKFLOW", "c", subWorkflowParam={"name": inner}, inputParameters={"h": "${workflow.input.h}"}),
        input={"h": HALF},
    )
    row = story.row("c")
    assert (story.child("c").status, row.status, story.status) == ("COMPLETED", "FAILED_WITH_TERMINAL_ERROR", "FAILED")
    assert (OVER in row.reason, row.output) == (True, {"subWorkflowId": str(story.child("c").id)})


def test_a_run_whose_output_is_over_the_limit_fails_without_it_and_keeps_its_own_reason() -> None:
    story = Story(of("NOOP", "n"), input={"h": HALF}, outputParameters={"x": TWICE})
    ended = story.execution()
    assert (ended.status, ended.output) == ("FAILED", {})
    assert ended.reason.startswith("The workflow output of ") and OVER in ended.reason
    story = Story(simple("a"), input={"h": HALF}, policies={"a": {}}, outputParameters={"x": TWICE})
    story.fail("a")
    ended = story.execution()
    assert (ended.status, ended.output, "a broke" in ended.reason, OVER in ended.reason) == ("FAILED", {}, True, True)


@pytest.mark.parametrize("status", ["COMPLETED", "IN_PROGRESS", "FAILED"])
def test_a_workers_output_over_the_limit_ends_its_attempt_for_good(status: str) -> None:
    story = Story(simple("a"), policies={"a": {"retryCount": 3}})
    story.end("a", {"h": HALF * 2}, status=status)
    (row,) = story.rows("a")
    assert (row.status, story.status, row.output) == ("FAILED_WITH_TERMINAL_ERROR", "FAILED", None)
    assert OVER in row.reason and "a broke" in row.reason
    assert dispatching.queue_sizes(NS).get(story.queue("a"), (0, 0)) == (0, 0)


def test_a_heartbeat_ends_nothing() -> None:
    story = Story(simple("a"))
    (task,) = story.poll("a")
    beat = dispatching.TaskReport(
        task.id, task.workflow_id, "IN_PROGRESS", lease_token=task.lease_token, output={"h": HALF * 2}, extend=True
    )
    assert dispatching.report([beat], strict=True)[0].applied
    assert story.row("a").status == "IN_PROGRESS"


def test_a_failure_workflow_starts_with_the_largest_input() -> None:
    cleanup = flows.register(wait("w"))
    story = Story(simple("a"), input={"h": "x" * (LIMIT - 8)}, policies={"a": {}}, failureWorkflow=cleanup)
    story.fail("a")
    assert Execution.objects.filter(name=cleanup).count() == 1


def test_people_are_refused_and_nothing_changes() -> None:
    name = flows.register(wait("w"), variables={"a": HALF})
    with pytest.raises(TooLarge):
        flows.start(name, {"h": HALF * 2})
    assert not Execution.objects.filter(name=name).exists()
    run = flows.start(name)
    flows.drain()
    who: Any = {"actor": "ann"}
    for act in (
        lambda: control.complete_task(NS, run, "w", "COMPLETED", {"h": HALF * 2}, **who),
        lambda: control.complete_task(NS, run, "w", "IN_PROGRESS", {"h": HALF * 2}, **who),
        lambda: control.update_variables(NS, run, {"b": HALF}, **who),
        lambda: control.skip_task(NS, run, "w", output={"h": HALF * 2}, **who),
        lambda: control.rerun(NS, run, workflow_input={"h": HALF * 2}, **who),
    ):
        with pytest.raises(TooLarge) as refused:
            act()
        assert OVER in refused.value.problems[0][1]
    assert flows.statuses(run) == {"w": "IN_PROGRESS"}
    assert Execution.objects.get(id=run).variables == {"a": HALF}
