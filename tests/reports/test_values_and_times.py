"""Public bug reports about values, payloads, retries and deadlines, as they would have to go here."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.services import dispatching
from orchestrator.errors import LeaseLost
from tests import flows
from tests.reports.story import Story, inline, of, switch
from workflows.models import Execution, HistoryEvent
from workflows.services import definitions

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE
SHORT = {"timeoutSeconds": 1, "responseTimeoutSeconds": 1, "timeoutPolicy": "RETRY", "retryDelaySeconds": 0}


def simple(ref: str, **fields: Any) -> dict[str, Any]:
    return of("SIMPLE", ref, **fields)


def jq(ref: str, query: str, **given: Any) -> dict[str, Any]:
    return of("JSON_JQ_TRANSFORM", ref, inputParameters={"queryExpression": query, **given})


def expire(story: Story) -> None:
    """Wait for the next deadline of the story and fire it."""
    flows.time_out()
    story.rest()


@pytest.mark.parametrize("what", ["task", "workflow"])
def test_b069_an_output_over_the_limit_ends_its_run(client: Any, settings: Any, what: str) -> None:
    limit = 10 * 1024 * 1024
    settings.OSTINATO = {**settings.OSTINATO, "DEMO_OPEN": True}
    cleanup = flows.register(of("WAIT", "w"))
    doubled = {"twice": ["${a.output.r}", "${a.output.r}"]}
    story = Story(
        simple("a"), outputParameters=doubled if what == "workflow" else {}, failureWorkflow=cleanup,
        policies={"a": {"retryCount": 3}},
    )  # fmt: skip
    (task,) = story.poll("a")
    sent = {"r": "x" * (11 if what == "task" else 9) * 1024 * 1024}
    body = {"taskId": task.id, "workflowInstanceId": story.run, "status": "COMPLETED", "workerId": "w", "outputData": sent}
    assert client.post("/api/tasks", body, "application/json").status_code == 200
    story.rest()
    ended, (row,) = story.execution(), story.rows("a")
    assert (ended.status, Execution.objects.filter(name=cleanup).count()) == ("FAILED", 1)
    if what == "task":
        said = f"The task output of {len(sent['r']) + 8} bytes is over the limit of {limit} bytes"
        assert (row.status, row.reason, row.output) == ("FAILED_WITH_TERMINAL_ERROR", said, None)
    else:
        assert (row.status, set(ended.output)) == ("COMPLETED", {"conductor.failure_workflow"})
        assert f"is over the limit of {limit} bytes" in str(ended.reason)
    assert story.poll("a") == []


def test_b070_a_result_with_characters_that_cannot_be_stored_ends_its_run(client: Any, settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "DEMO_OPEN": True}
    for raw in ('"x\\u0000y"', '"\\ud800"'):
        story = Story(simple("a"))
        (task,) = story.poll("a")
        body = (
            f'{{"taskId": "{task.id}", "workflowInstanceId": "{story.run}", "status": "COMPLETED", "workerId": "w", '
            f'"outputData": {{"r": {raw}}}}}'
        )
        assert client.post("/api/tasks", body, "application/json").status_code == 200
        story.rest()
        assert (story.status, "\ufffd" in story.row("a").output["r"]) == ("COMPLETED", True)


def test_b084_a_time_out_ends_its_attempt_and_the_next_one_is_polled() -> None:
    story = Story(
        simple("a"),
        policies={"a": {**SHORT, "retryCount": 1}},
    )
    (first,) = story.poll("a")
    expire(story)
    (second,) = story.poll("a")
    assert (story.rows("a")[0].status, second.id == first.id, second.attempt) == ("TIMED_OUT", False, 1)


def test_b085_the_response_time_runs_for_tasks_that_are_completed_elsewhere() -> None:
    story = Story(
        simple("a", asyncComplete=True), policies={"a": {"responseTimeoutSeconds": 1, "timeoutPolicy": "TIME_OUT_WF"}}
    )
    story.poll("a")
    expire(story)
    assert story.row("a").status == "TIMED_OUT"
    assert story.status in ("TIMED_OUT", "FAILED")


def test_b088_time_outs_and_retries_make_no_more_attempts_than_they_may() -> None:
    policy = {
        "timeoutSeconds": 1,
        "responseTimeoutSeconds": 1,
        "retryCount": 2,
        "timeoutPolicy": "RETRY",
        "retryDelaySeconds": 0,
    }
    story = Story(simple("a"), policies={"a": policy})
    for _ in range(3):
        story.poll("a")
        expire(story)
    assert [t.status for t in story.rows("a")] == ["TIMED_OUT"] * 3
    assert story.status in ("FAILED", "TIMED_OUT")


def test_b094_a_late_result_changes_nothing_and_is_kept() -> None:
    story = Story(simple("a"), policies={"a": {"responseTimeoutSeconds": 1, "timeoutPolicy": "TIME_OUT_WF"}})
    tasks = story.poll("a", worker_id="late")
    expire(story)
    with pytest.raises(LeaseLost):
        flows.complete(tasks, {"late": True})
    kept = HistoryEvent.objects.get(workflow_id=story.run, type="task.late_result_refused")
    assert (kept.data["output"], kept.task_id) == ({"late": True}, tasks[0].id)
    assert story.row("a").status == "TIMED_OUT"


def test_b098_system_tasks_keep_to_their_limit() -> None:
    name = flows.unique("calls")
    definitions.register_tasks(NS, [{"name": name, "concurrentExecLimit": 1}])
    call = {"name": name, "taskReferenceName": "c", "type": "HTTP", "inputParameters": {"uri": "http://x.example"}}
    flow = flows.register(call)
    for _ in range(5):
        flows.start(flow)
    flows.drain()
    assert len(dispatching.lease_system_tasks(["HTTP"], batch=10, worker_id="w")) == 1
    assert dispatching.lease_system_tasks(["HTTP"], batch=10, worker_id="v") == []


def test_b099_a_freed_slot_is_given_at_once() -> None:
    story = Story(simple("a"), policies={"a": {"concurrentExecLimit": 1}})
    flows.start(story.name)
    flows.drain()
    (first,) = story.poll("a")
    assert story.poll("a") == []
    flows.complete([first])
    assert len(story.poll("a")) == 1


def test_b107_expressions_are_resolved_at_any_depth_with_their_type() -> None:
    given = {
        "req": {
            "uri": "u",
            "body": {"ids": ["${workflow.input.a}", {"k": "${workflow.input.b}"}, "${workflow.input.no}"]},
        }
    }
    story = Story(simple("x", inputParameters=given), input={"a": 5, "b": {"c": [1]}})
    assert story.row("x").input == {"req": {"uri": "u", "body": {"ids": [5, {"k": {"c": [1]}}, None]}}}


@pytest.mark.parametrize("present", [True, False])
def test_b108_keys_may_hold_blanks_dots_and_any_letter(present: bool) -> None:
    given = {
        "x": "${workflow.input['Space Value']}", "y": "${workflow.input['a.b']}",
        "z": "${workflow.input.na\u00efve-\u043a\u043b\u044e\u0447}",
    }  # fmt: skip
    values = {"Space Value": 1, "a.b": 2, "na\u00efve-\u043a\u043b\u044e\u0447": 3}
    story = Story(simple("s", inputParameters=given), input=values if present else {})
    assert story.row("s").input == (dict(zip("xyz", (1, 2, 3), strict=True)) if present else dict.fromkeys("xyz"))


def test_b110_odd_dollars_are_refused_at_registration_or_kept() -> None:
    def problems(text: str) -> list[tuple[str, str]]:
        definition = {"name": "f", "version": 1, "tasks": [simple("x", inputParameters={"a": text})]}
        return definitions.check(flows.NAMESPACE, definition)

    for text in ("${}", "${ }", "${unclosed"):
        assert [path for path, _ in problems(text)] == ["tasks[0].inputParameters.a"], text
    given = {"c": "$${literal}", "d": "cost ${workflow.input.p}$", "e": "$5 and $"}
    story = Story(simple("x", inputParameters=given), input={"p": 7})
    assert story.row("x").input == {"c": "${literal}", "d": "cost 7$", "e": "$5 and $"}


@pytest.mark.parametrize(
    ("query", "result", "results"), [
        (".missing", None, [None]), (".a[]?", None, []), ("empty", None, []), (".xs[] | select(. > 9)", None, []),
        (".xs[]", 1, [1, 2]),
    ],
)  # fmt: skip
def test_b114_a_query_without_a_result_completes(query: str, result: Any, results: list[Any]) -> None:
    story = Story(jq("q", query, xs=[1, 2]))
    assert story.status == "COMPLETED"
    assert (story.row("q").output["result"], story.row("q").output["resultList"]) == (result, results)


@pytest.mark.parametrize("query", [".X | unique", "def f: f; f"])
def test_b115_a_query_that_fails_says_why(query: str) -> None:
    story = Story(jq("q", query, X=None))
    assert story.status == "FAILED"
    assert story.row("q").reason


def test_b115_a_query_that_cannot_be_parsed_is_refused_or_fails_with_its_position() -> None:
    story = Story(jq("q", ".["))
    assert (story.status, bool(story.row("q").reason)) == ("FAILED", True)


def test_b122_without_a_version_the_latest_is_meant() -> None:
    name = flows.register(inline("x", "1"))
    definitions.register(NS, {"name": name, "version": 2, "tasks": [inline("x", "2")]}, overwrite=True)
    assert definitions.get(NS, name).version == 2
    run = flows.start(name)
    assert flows.Execution.objects.get(id=run).version == 2
    definitions.unregister(NS, name, 2)
    assert definitions.get(NS, name).version == 1


def test_b043_a_run_does_not_end_between_a_switch_and_its_case() -> None:
    story = Story(simple("t1"), switch("d", "${t1.output.k}", {"true": [simple("t2")]}))
    story.end("t1", {"k": "true"})
    assert (story.status, story.open()) == ("RUNNING", {"t2"})
