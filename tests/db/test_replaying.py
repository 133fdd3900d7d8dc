"""Recorded runs are replayed to the same tasks and the same end, and a difference is told."""

from __future__ import annotations

import json
from io import StringIO
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from tests import flows
from tests.flows import child, complete, drain, finish, fork, lease_all, register, simple, start, unique
from workflows.engine import decider
from workflows.services import control
from workflows.services.replaying import replay

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE


def done() -> tuple[UUID, str]:
    """A run with a fork, a child, a failed optional task and a retry, that has completed."""
    queue = unique("q")
    below = register(simple("inner", queue))
    once = {"retryCount": 1, "taskDefinition": {"retryDelaySeconds": 0}}
    made = fork("f", [simple("a", queue, **once)], [child("c", below)])
    name = register(*made, simple("z", queue, optional=True, retryCount=0, inputParameters={"x": "${f_join.output}"}))
    run = start(name, {"n": 1})
    drain()
    tasks = {task.ref: task for task in lease_all(queue, 2)}
    complete([tasks["a"]], status="FAILED")
    complete([tasks["inner"]])
    drain()
    complete(lease_all(queue, 1))
    drain()
    complete(lease_all(queue, 1), status="FAILED")
    drain()
    assert flows.status(run) == "COMPLETED"
    return run, queue


def test_a_run_is_replayed_to_the_same_end() -> None:
    run, _ = done()
    assert replay(run) == []
    out = StringIO()
    call_command("replay", str(run), stdout=out)
    assert out.getvalue() == "the same\n"


def test_a_run_that_goes_on_is_replayed_as_far_as_it_came() -> None:
    queue = unique("q")
    run = start(register(simple("a", queue), simple("b", queue)))
    drain()
    complete(lease_all(queue, 1))
    drain()
    assert replay(run) == []


def test_an_engine_that_decides_otherwise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = done()
    begin = decider.start_node

    def forgetful(start: decider.Start) -> None:
        start.given = {} if start.node.ref == "z" else None
        begin(start)

    monkeypatch.setattr(decider, "start_node", forgetful)
    assert [(found.where, found.what) for found in replay(run)] == [("task z, attempt 0", "input")]
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("replay", str(run), "--json", stdout=out)
    assert json.loads(out.getvalue())[0]["replayed"] == {}


def test_what_people_did_to_a_run_is_not_replayed() -> None:
    queue = unique("q")
    run = start(register(simple("a", queue, retryCount=0)))
    drain()
    complete(lease_all(queue, 1), status="FAILED")
    drain()
    assert replay(run) == []
    control.retry(NS, run, actor="ann")
    finish([queue])
    with pytest.raises(CommandError, match=r"cannot be replayed: its history has workflow\.retried"):
        call_command("replay", str(run))
