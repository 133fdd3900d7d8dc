"""Where events go."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.engine.sinks import event_name, sink_problem, status_event


@pytest.mark.parametrize(
    ("sink", "name"),
    [("conductor", "conductor:w:t"), ("conductor:", "conductor:w:t"), ("conductor:a:b", "conductor:w:a:b")],
)
def test_an_event_is_named_after_its_workflow(sink: str, name: str) -> None:
    assert event_name(sink, "w", "t") == name


@pytest.mark.parametrize("sink", ["", "kafka:x", "conductors", 5, None])
def test_a_sink_that_nobody_delivers_to(sink: Any) -> None:
    with pytest.raises(ValueError, match="is not available"):
        event_name(sink, "w", "t")


def test_the_changes_of_a_runs_status_are_told_when_they_are_wanted() -> None:
    on = {"name": "w", "workflowStatusListenerEnabled": True}
    assert status_event(on) == "conductor:w:workflow_status"
    assert status_event({**on, "workflowStatusListenerSink": "conductor:mine"}) == "conductor:w:mine"
    assert status_event({**on, "workflowStatusListenerEnabled": False}) is None
    assert status_event({"name": "w", "workflowStatusListenerSink": "conductor:mine"}) is None
    assert status_event({"workflowStatusListenerEnabled": True}) == "conductor::workflow_status"


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (5, "expected a text, got int 5"),
        ("conductor:${x}", "without expressions"),
        ("kafka", "not available"),
    ],
)
def test_why_a_sink_will_not_do(sink: Any, said: str) -> None:
    assert said in (sink_problem(sink) or "")


def test_a_sink_that_will_do() -> None:
    assert sink_problem("conductor") is None
    assert sink_problem("conductor:x") is None
