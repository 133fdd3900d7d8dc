"""How often, when and for how long: the policy of a task, by its definition or by the defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.engine.definitions import run, simple, task
from tests.engine.simulator import Run
from workflows.engine.retries import Policy, policy, policy_for

ALL = {
    "retryCount": 7, "retryLogic": "LINEAR_BACKOFF", "retryDelaySeconds": 1, "backoffScaleFactor": 2,
    "maxRetryDelaySeconds": 3, "backoffJitterMs": 4, "timeoutSeconds": 5, "totalTimeoutSeconds": 6,
    "pollTimeoutSeconds": 8, "responseTimeoutSeconds": 9, "timeoutPolicy": "ALERT_ONLY",
}  # fmt: skip
PLAIN = Policy(
    retry_count=3, retry_logic="FIXED", retry_delay_seconds=60, backoff_scale_factor=1, max_retry_delay_seconds=0,
    backoff_jitter_ms=0, timeout_seconds=0, total_timeout_seconds=0, poll_timeout_seconds=0, response_seconds=3600,
    timeout_policy="TIME_OUT_WF",
)  # fmt: skip


def test_a_definition_says_everything() -> None:
    assert policy(ALL, None, worker=True) == Policy(7, "LINEAR_BACKOFF", 1, 2, 3, 4, 5, 6, 8, 9, "ALERT_ONLY")


def test_what_is_not_said_has_defaults() -> None:
    assert policy(None, None, worker=True) == PLAIN
    assert policy({}, None, worker=False) == PLAIN
    assert policy(None, None, worker=False) == replace(PLAIN, retry_count=0, response_seconds=0)


@pytest.mark.parametrize(
    ("override", "defined", "count"),
    [(0, 5, 0), (2, 5, 2), (None, 5, 5), (-1, 5, 5), ("2", 5, 5), (None, None, 3), (None, "x", 3), (None, True, 3)],
)
def test_the_tasks_own_count_comes_first(override: Any, defined: Any, count: int) -> None:
    assert policy({"retryCount": defined}, override, worker=True).retry_count == count


def test_a_scale_is_at_least_one() -> None:
    assert [policy({"backoffScaleFactor": n}, None, worker=True).backoff_scale_factor for n in (0, 1, 2)] == [1, 1, 2]


@pytest.mark.parametrize(
    ("change", "attempt", "seconds"),
    [
        ({}, 5, 10), ({"retry_logic": "LINEAR_BACKOFF"}, 2, 60), ({"retry_logic": "EXPONENTIAL_BACKOFF"}, 3, 80),
        ({"max_retry_delay_seconds": 4}, 0, 4), ({"retry_logic": "EXPONENTIAL_BACKOFF"}, 100, 2**31 - 1),
        ({"backoff_jitter_ms": 1000}, 0, 10.007), ({"backoff_jitter_ms": 7}, 0, 10.007), ({"backoff_jitter_ms": 6}, 0, 10),
        ({"backoff_jitter_ms": 1000, "max_retry_delay_seconds": 10}, 0, 10),
    ],
)  # fmt: skip
def test_the_delay_before_the_next_attempt(change: dict[str, Any], attempt: int, seconds: float) -> None:
    base = replace(PLAIN, retry_delay_seconds=10, backoff_scale_factor=2)
    assert replace(base, **change).delay(attempt, UUID(int=7)) == pytest.approx(seconds)


def test_the_policy_of_a_task_that_exists() -> None:
    r = Run({"name": "w", "tasks": [simple("a"), simple("b", retryCount=1)]}, tasks={"a": {"retryCount": 9}})
    made = r.open("a")
    assert policy_for(r.blueprint, made).retry_count == 9
    assert policy_for(r.blueprint, replace(made, ref="b", name="b")).retry_count == 1
    assert policy_for(r.blueprint, replace(made, ref="gone")) == PLAIN
    own = {"taskDefinition": {"retryCount": 4, "timeoutSeconds": 2}}
    assert policy_for(r.blueprint, replace(made, spec=own)) == replace(PLAIN, retry_count=4, timeout_seconds=2)
    assert policy_for(r.blueprint, replace(made, spec={"retryCount": 2})).retry_count == 2
    assert policy_for(r.blueprint, replace(made, spec={}, name="unknown")) == PLAIN


def test_a_dynamic_task_has_the_policy_of_what_it_became() -> None:
    node = task("DYNAMIC", "d", dynamicTaskNameParam="t", inputParameters={"t": "x"})
    r = Run({"name": "w", "tasks": [node]}, tasks={"x": {"retryCount": 9, "responseTimeoutSeconds": 5}})
    assert (policy_for(r.blueprint, r.open("d")).retry_count, r.made[0].response_seconds) == (9, 5)
    own = Run({"name": "w", "tasks": [{**node, "retryCount": 2}]}, tasks={"x": {"retryCount": 9}})
    assert policy_for(own.blueprint, own.open("d")).retry_count == 2
    given = Run({"name": "w", "tasks": [{**node, "taskDefinition": {"timeoutSeconds": 8}}]})
    assert given.made[0].timeout_seconds == 8
    bare = run(node)
    assert policy_for(bare.blueprint, bare.open("d")) == PLAIN
