"""The demo runs to its end, the way it is told."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.core.management import call_command

from dispatch.services import dispatching
from dispatch.worker import REGISTRY, run_task
from orchestrator import demo, demo_tasks
from tests import flows
from tests.support import eventually
from workflows.models import Execution, Task, WorkflowDefinition
from workflows.services import timers

pytestmark = pytest.mark.usefixtures("committed")


def work_off(monkeypatch: pytest.MonkeyPatch, run: UUID) -> str:
    """Every loop of the system by turns, without the demo's pauses in its tasks."""
    monkeypatch.setattr(demo_tasks.time, "sleep", lambda seconds: None)

    def ended() -> str:
        flows.drain()
        timers.fire_next_batch()
        for name in demo._TASKS:
            for started in flows.lease(name):
                dispatching.report([run_task(started, REGISTRY[name].call)], strict=True)
        status = flows.status(run)
        return "" if status == "RUNNING" else status

    return eventually(ended, 30)


@pytest.mark.parametrize(
    ("shipping", "taken", "untaken"), [("express", "courier", "stamp"), ("post", "stamp", "courier")]
)
def test_it_ends_well_after_a_failed_payment(
    shipping: str, taken: str, untaken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.register()
    run = demo.start({**demo.ORDER, "shipping": shipping})
    assert work_off(monkeypatch, run) == "COMPLETED"
    payments = Task.objects.filter(workflow_id=run, ref="payment").order_by("attempt")
    assert [task.status for task in payments] == ["FAILED", "COMPLETED"]
    done = flows.statuses(run)
    assert done[taken] == "COMPLETED"
    assert untaken not in done
    assert Execution.objects.get(parent_workflow_id=run).status == "COMPLETED"
    assert Execution.objects.get(id=run).output == {
        "orderId": "A-1001",
        "total": 53.8,
        "receipt": "R-A-1001",
        "parcel": "P-A-1001",
        "message": "ada@example.org: parcel P-A-1001 of order A-1001 has left.",
    }


def test_seeding_twice_registers_once_and_starts_a_run_each_time() -> None:
    demo.seed()
    demo.seed()
    assert WorkflowDefinition.objects.count() == 2
    assert Execution.objects.count() == 2


def test_the_command_prints_the_page_of_a_new_run(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("demo", shipping="post", order="B-2")
    run = Execution.objects.get()
    assert capsys.readouterr().out.strip().endswith(f"/ops/default/executions/{run.id}/")
    assert (run.correlation_id, run.input["shipping"]) == ("B-2", "post")
