"""The key under which runs are limited, and which limits a definition may have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.definitions import simple
from workflows.engine.rate_keys import rate_limit, rejects
from workflows.engine.validation import validate

RUN = {"input": {"who": "ann", "none": None}, "correlationId": "c-1", "name": "w"}


def limited(key: Any = None, most: Any = 2, **more: Any) -> dict[str, Any]:
    return {"rateLimitConfig": {"rateLimitKey": key, "concurrentExecLimit": most}, **more}


@pytest.mark.parametrize(
    ("key", "made"),
    [
        ("${workflow.input.who}", "ann"),
        ("${workflow.input}", '{"who": "ann", "none": null}'),
        ("${workflow.correlationId}-${workflow.name}", "c-1-w"),
        ("${workflow.input.none}", ""),
        ("<${workflow.input.none}>", "<>"),
        ("${task.output.x}", ""),
        ("${task}", ""),
        ("fixed", "fixed"),
        (None, ""),
    ],
)
def test_a_key_is_made_of_what_is_known_at_the_start(key: Any, made: str) -> None:
    found = rate_limit(limited(key), RUN)
    assert found is not None
    assert (found[0].replace(" ", ""), found[1]) == (made.replace(" ", ""), 2)


def test_the_whole_workflow_is_a_root() -> None:
    found = rate_limit(limited("${workflow}"), {"name": "w"})
    assert found is not None
    assert found[0].replace(" ", "") == '{"name":"w"}'


def test_a_key_of_a_masked_field_is_not_readable_but_tells_values_apart() -> None:
    plain = rate_limit(limited("${workflow.input.who}"), RUN)
    hidden = rate_limit(limited("${workflow.input.who}", maskedFields=["who"]), RUN)
    other = rate_limit(limited("${workflow.input.who}", maskedFields=["who"]), {"input": {"who": "bob"}})
    assert plain == ("ann", 2)
    assert hidden is not None and other is not None
    assert (len(hidden[0]), len(other[0])) == (64, 64)
    assert hidden[0] != other[0]


@pytest.mark.parametrize("config", [None, "x", {}, {"concurrentExecLimit": 0, "rateLimitKey": "k"}])
def test_without_a_number_there_is_no_limit(config: Any) -> None:
    assert rate_limit({"rateLimitConfig": config}, RUN) is None
    assert rate_limit({}, RUN) is None


def test_a_run_beyond_the_limit_is_queued_unless_the_definition_says_otherwise() -> None:
    assert [rejects({"rateLimitConfig": c}) for c in (None, {}, {"policy": "QUEUE"}, {"policy": "REJECT"})] == [
        False, False, False, True,
    ]  # fmt: skip


def refused(**fields: Any) -> list[tuple[str, str]]:
    return [(p.path, p.message) for p in validate({"name": "w", "tasks": [simple("a")], **fields})]


@pytest.mark.parametrize(
    "fields",
    [
        {"maxConcurrentTasks": 0}, {"maxConcurrentTasks": 2**31 - 1}, {"maxConcurrentTasks": None},
        {"rateLimitConfig": {}}, {"rateLimitConfig": {"concurrentExecLimit": 0}},
        {"rateLimitConfig": {"concurrentExecLimit": 2**31 - 1, "policy": "QUEUE"}},
        limited("${workflow.input.x}-${workflow.variables.y}"), {"rateLimitConfig": {"policy": "REJECT"}},
    ],
)  # fmt: skip
def test_limits_that_may_be_registered(fields: dict[str, Any]) -> None:
    assert refused(**fields) == []


@pytest.mark.parametrize(
    ("fields", "path", "said"),
    [
        ({"maxConcurrentTasks": -1}, "maxConcurrentTasks", "from 0 to 2147483647, got -1"),
        ({"maxConcurrentTasks": 2**31}, "maxConcurrentTasks", "got 2147483648"),
        ({"maxConcurrentTasks": True}, "maxConcurrentTasks", "got True"),
        ({"maxConcurrentTasks": "5"}, "maxConcurrentTasks", "got '5'"),
        ({"rateLimitConfig": [1]}, "rateLimitConfig", "expected an object, got list"),
        (limited("k", -1), "rateLimitConfig.concurrentExecLimit", "got -1"),
        (limited("k", 2**31), "rateLimitConfig.concurrentExecLimit", "got 2147483648"),
        (limited("k", True), "rateLimitConfig.concurrentExecLimit", "got True"),
        ({"rateLimitConfig": {"policy": "DROP"}}, "rateLimitConfig.policy", "expected QUEUE or REJECT, got 'DROP'"),
        (limited(5), "rateLimitConfig.rateLimitKey", "expected a text, got int"),
        (limited("${workflow.input"), "rateLimitConfig.rateLimitKey", "(at character "),
        (limited("${a.output.x}"), "rateLimitConfig.rateLimitKey", "${a.output.x}: only workflow.*"),
        (limited("${workflow.secrets.K}"), "rateLimitConfig.rateLimitKey", "${workflow.secrets.K}"),
        (limited("${workflow.output.x}"), "rateLimitConfig.rateLimitKey", "${workflow.output.x}"),
    ],
)
def test_limits_that_may_not(fields: dict[str, Any], path: str, said: str) -> None:
    ((found, message),) = refused(**fields)
    assert found == path
    assert said in message


def test_a_wrong_limit_does_not_hide_the_others() -> None:
    found = refused(
        maxConcurrentTasks=-1, rateLimitConfig={"concurrentExecLimit": -1, "policy": "x", "rateLimitKey": 1}
    )
    assert [path.rpartition(".")[2] for path, _ in found] == [
        "maxConcurrentTasks", "concurrentExecLimit", "policy", "rateLimitKey",
    ]  # fmt: skip
    assert [path for path, _ in refused(maxConcurrentTasks=-1, rateLimitConfig=7)] == [
        "maxConcurrentTasks",
        "rateLimitConfig",
    ]
    assert [path for path, _ in refused(maxConcurrentTasks=-1)] == ["maxConcurrentTasks"]
