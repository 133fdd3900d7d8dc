"""Messages sent while passes run: each is handed out, and once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import pytest

from orchestrator.db.transactions import transaction
from tests import flows
from tests.support import Contender, race
from workflows.models import Execution, Message, Task
from workflows.services import control, evaluation
from workflows.services.sweeping import invariant_report

pytestmark = pytest.mark.usefixtures("committed")

SENDERS, EACH, PULLERS = 6, 10, 3


def pull(ref: str, **inputs: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": "PULL_WORKFLOW_MESSAGES", "inputParameters": inputs}


def push(run: UUID, number: int) -> UUID:
    return control.push_message(flows.NAMESPACE, run, {"n": number}, actor="olga")


@pytest.mark.invariant("INV-4")
def test_a_message_that_comes_while_a_pass_makes_its_task_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass has looked for messages and not committed: the sender waits for it and finds the open task."""
    run = flows.start(flows.register(pull("p")))
    real, senders = evaluation.apply_decisions, []

    def apply(decided: Any) -> set[UUID]:
        again = real(decided)
        senders.append(Contender(lambda: push(run, 1)).until_blocked())
        return again

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "apply_decisions", apply)
        patch.setattr(evaluation, "batch", nullcontext)  # a pipeline cannot be stopped in its middle
        assert evaluation.evaluate_now([run]) == 1
    sent = senders[0].result()
    task = Task.objects.get(workflow_id=run)
    assert [message["id"] for message in task.output["messages"]] == [str(sent)]
    flows.drain()
    assert flows.status(run) == "COMPLETED"


@pytest.mark.invariant("INV-4")
def test_senders_that_race_passes_lose_nothing_and_double_nothing() -> None:
    loops = [
        [{
            "name": f"l{i}", "taskReferenceName": f"l{i}", "type": "DO_WHILE", "loopOver": [pull(f"p{i}", batchSize=4)],
            "loopCondition": "$.go", "inputParameters": {"go": True},
        }]
        for i in range(PULLERS)
    ]  # fmt: skip
    run = flows.start(flows.register(*flows.fork("f", *loops)))
    flows.drain()

    def sender(start: int) -> Callable[[], None]:
        return lambda: [push(run, start + i) for i in range(EACH)] and None

    def decide() -> None:
        for _ in range(40):
            evaluation.evaluate_next_batch()

    bodies = [*(sender(i * EACH) for i in range(SENDERS)), decide, decide]
    assert race(len(bodies), lambda i: bodies[i]()) == [None] * len(bodies)
    flows.drain()
    taken = [
        message["payload"]["n"]
        for task in Task.objects.filter(workflow_id=run, type="PULL_WORKFLOW_MESSAGES", status="COMPLETED")
        for message in task.output["messages"]
    ]
    assert sorted(taken) == list(range(SENDERS * EACH))
    assert not Message.objects.exists()
    assert {name: rows for name, rows in invariant_report().items() if rows} == {}


def test_a_sender_and_an_end_of_the_run_do_not_meet() -> None:
    """Whoever comes second sees what the first did: the message is taken, or refused."""
    run = flows.start(flows.register(flows.simple("a")))
    flows.drain()
    with transaction():
        control.acting.lock(flows.NAMESPACE, run)
        late = Contender(lambda: push(run, 1)).until_blocked()
        control.lifecycle.end_terminated(Execution.sql.lock([run])[0], "enough")
    assert isinstance(late.outcome(), Exception)
    assert not Message.objects.exists()
