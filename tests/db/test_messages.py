"""Messages to runs: they wait until a task takes them, each once, and go with their run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from orchestrator.db.transactions import transaction
from orchestrator.errors import IllegalState, Invalid, LimitExceeded, NotFound, TooLarge
from orchestrator.services import secrets
from tests import flows
from tests.api.client import UNKNOWN, Caller, demo_api  # noqa: F401  (a fixture)
from workflows.models import DecideQueue, Execution, HistoryEvent, Message, Task
from workflows.services import control, evaluation
from workflows.services.explaining import Code, explain

pytestmark = pytest.mark.usefixtures("committed")


def pull(ref: str = "p", **inputs: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": "PULL_WORKFLOW_MESSAGES", "inputParameters": inputs}


def begin(*tasks: dict[str, Any], **fields: Any) -> UUID:
    run = flows.start(flows.register(*tasks, **fields))
    flows.drain()
    return run


def push(run: UUID, *numbers: Any) -> list[UUID]:
    return [control.push_message(flows.NAMESPACE, run, {"n": n}, actor="olga") for n in numbers]


def taken(run: UUID, ref: str = "p", **where: Any) -> list[Any]:
    """What a task took."""
    output = Task.objects.get(workflow_id=run, ref=ref, **where).output
    assert output["count"] == len(output["messages"])
    return [message["payload"]["n"] for message in output["messages"]]


def test_a_task_waits_open_until_a_message_comes_and_ends_with_it() -> None:
    run = begin(pull(), flows.simple("next"))
    assert flows.statuses(run) == {"p": "IN_PROGRESS"}
    (sent,) = push(run, 1)
    flows.drain()
    assert flows.statuses(run) == {"p": "COMPLETED", "next": "SCHEDULED"}
    (message,) = Task.objects.get(workflow_id=run, ref="p").output["messages"]
    assert (message["id"], message["workflowId"], message["payload"]) == (str(sent), str(run), {"n": 1})
    assert message["receivedAt"].endswith("Z")
    assert not Message.objects.exists()
    events = list(HistoryEvent.objects.filter(workflow_id=run).order_by("seq").values_list("type", flat=True))
    assert events.index("message.received") < events.index("task.completed")


def test_messages_that_came_before_their_task_wait_for_it_in_order() -> None:
    queue = flows.unique("q")
    run = begin(flows.simple("a", queue), pull(batchSize=3), pull("rest", batchSize=100))
    push(run, 1, 2, 3, 4)
    flows.complete(flows.lease_all(queue, 1))
    flows.drain()
    assert (taken(run), taken(run, "rest")) == ([1, 2, 3], [4])
    assert flows.status(run) == "COMPLETED"


def test_a_task_that_does_not_block_ends_with_what_there_is() -> None:
    run = begin(pull(blocking=False), pull("q", blocking=False))
    assert (taken(run), taken(run, "q"), flows.status(run)) == ([], [], "COMPLETED")


def test_of_two_tasks_the_older_is_served_first() -> None:
    run = begin(*flows.fork("f", [pull("x")], [pull("y")]))
    push(run, 1)
    assert {ref: flows.statuses(run)[ref] for ref in "xy"} == {"x": "COMPLETED", "y": "IN_PROGRESS"}
    push(run, 2)
    flows.drain()
    assert (taken(run, "x"), taken(run, "y"), flows.status(run)) == ([1], [2], "COMPLETED")


def test_a_loop_takes_each_message_once() -> None:
    body = {
        "name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopOver": [pull()],
        "loopCondition": "$.l['iteration'] < 3",
    }  # fmt: skip
    run = begin(body)
    push(run, 1, 2)
    flows.drain()
    push(run, 3)
    flows.drain()
    assert [taken(run, iteration=str(turn)) for turn in (1, 2, 3)] == [[1], [2], [3]]
    assert flows.status(run) == "COMPLETED"


def test_a_run_that_is_retried_finds_the_messages_that_nobody_took() -> None:
    queue = flows.unique("q")
    run = begin(flows.simple("a", queue, retryCount=0), pull())
    push(run, 1)
    flows.complete(flows.lease_all(queue, 1), status="FAILED")
    flows.drain()
    control.retry(flows.NAMESPACE, run, actor="olga")
    flows.drain()
    flows.complete(flows.lease_all(queue, 1))
    flows.drain()
    assert (taken(run), flows.status(run)) == ([1], "COMPLETED")


def test_a_run_that_does_not_run_takes_no_message() -> None:
    run = begin(flows.simple("a"), pull())
    control.pause(flows.NAMESPACE, run, actor="olga")
    with pytest.raises(IllegalState):
        push(run, 1)
    control.resume(flows.NAMESPACE, run, actor="olga")
    control.terminate(flows.NAMESPACE, run, actor="olga")
    with pytest.raises(IllegalState):
        push(run, 1)
    with pytest.raises(NotFound):
        control.push_message("other", run, {}, actor="olga")
    assert not Message.objects.exists()


def test_a_queue_is_bounded_and_so_is_what_one_task_takes(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "MESSAGES_MAX": 3, "TASK_PAYLOAD_MAX_BYTES": 1500}
    queue = flows.unique("q")
    run = begin(flows.simple("a", queue), pull(batchSize=100), pull("rest", batchSize=100))
    push(run, *["x" * 500] * 3)
    with pytest.raises(LimitExceeded):
        push(run, 4)
    with pytest.raises(TooLarge):
        push(begin(pull()), "x" * 1500)
    flows.complete(flows.lease_all(queue, 1))
    flows.drain()
    assert (len(taken(run)), len(taken(run, "rest")), flows.status(run)) == (2, 1, "COMPLETED")


def test_a_wrong_size_is_refused_and_one_known_late_fails_the_task() -> None:
    for given in ({"batchSize": 0}, {"batchSize": 101}, {"batchSize": "many"}, {"blocking": 1}):
        (name,) = given
        with pytest.raises(Invalid) as refused:
            flows.register(pull(**given))
        assert [path for path, _ in refused.value.problems] == [f"tasks[0].inputParameters.{name}"]
    run = flows.start(flows.register(pull(batchSize="${workflow.input.n}")), {"n": 1000})
    flows.drain()
    assert flows.status(run) == "FAILED"
    assert "batchSize: expected a whole number from 1 to 100, got 1000" in Execution.objects.get(id=run).reason


def test_secrets_do_not_come_in_by_messages() -> None:
    secrets.put(flows.NAMESPACE, "key", "hunter22", actor="olga")
    run = begin(pull())
    push(run, "it is hunter22")
    assert taken(run) == ["it is ***"]


def test_what_it_waits_for_is_said() -> None:
    run = begin(pull())
    (reason,) = explain(flows.NAMESPACE, run).reasons
    assert reason.code == Code.MESSAGE


def test_messages_go_with_their_run() -> None:
    run, other = begin(flows.simple("a")), begin(flows.simple("a"))
    push(run, 1)
    push(other, 1)
    control.terminate_remove(flows.NAMESPACE, run, actor="olga")
    assert set(Message.objects.values_list("workflow_id", flat=True)) == {other}


def test_nothing_is_taken_by_a_pass_that_rolls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    run = flows.start(flows.register(pull()))
    push(run, 1)
    real = evaluation.apply_decisions

    def crash(decided: Any) -> set[UUID]:
        real(decided)
        raise RuntimeError("crash before the commit")

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "apply_decisions", crash)
        evaluation.evaluate_next_batch()
    assert Message.objects.count() == 1
    with transaction():
        DecideQueue.sql.release(run)
    flows.drain()
    assert (taken(run), flows.status(run)) == ([1], "COMPLETED")


def test_the_path(api: Caller) -> None:
    run = begin(pull())
    sent = api.text("post", f"workflow/{run}/messages", {"n": 1})
    assert Task.objects.get(workflow_id=run).output["messages"][0]["id"] == sent
    api.refused("post", f"workflow/{run}/messages", [1])
    flows.drain()
    api.refused("post", f"workflow/{run}/messages", {"n": 2}, status=409)
    api.refused("post", f"workflow/{UNKNOWN}/messages", {}, status=404)


def test_a_full_queue_asks_to_come_back_later(api: Caller, settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "MESSAGES_MAX": 0}
    run = begin(flows.simple("a"))
    assert api("post", f"workflow/{run}/messages", {})["Retry-After"] == "1"
    assert api.refused("post", f"workflow/{run}/messages", {}, status=429)["retryable"]
