"""`maskedFields`: what may be listed, what is masked by a name, and who takes the names on."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.masking import MASK, mask, mask_inside, mask_text
from tests.engine.definitions import run, simple, task
from workflows.engine.attributes import extract
from workflows.engine.masked_fields import FIELD, masked_fields, with_masked
from workflows.engine.rate_keys import rate_limit
from workflows.engine.validation import validate

NAMES = frozenset({"pin", "card"})


def problems(**fields: Any) -> dict[str, str]:
    found = validate({"name": "w", "version": 1, "tasks": [simple("a")], **fields})
    return {problem.path: problem.message for problem in found}


@pytest.mark.parametrize("given", [None, [], ["pin"], ["pin", "card no", "karte-nº"]])
def test_names_are_accepted(given: Any) -> None:
    assert problems(maskedFields=given) == {}


@pytest.mark.parametrize(
    ("given", "path", "said"), [
        ({"pin": True}, "maskedFields", "expected a list of field names, got dict"),
        ("pin", "maskedFields", "expected a list of field names, got str 'pin'"),
        (0, "maskedFields", "got int"), (["pin", ""], "maskedFields[1]", "expected the name of a field, got ''"),
        (["pin", " "], "maskedFields[1]", "expected the name of a field"), ([5], "maskedFields[0]", "got '5'"),
        ([["pin"]], "maskedFields[0]", "expected the name of a field"), ([None], "maskedFields[0]", "got 'None'"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_at_its_place(given: Any, path: str, said: str) -> None:
    found = problems(maskedFields=given)
    assert list(found) == [path] and said in found[path]


def test_a_search_attribute_that_is_masked_is_refused() -> None:
    found = problems(maskedFields=["card"], searchAttributes=["input.id", "input.card", "input.card.no", "input.cards"])
    assert set(found) == {"searchAttributes[1]", "searchAttributes[2]"}
    assert "input.card is masked by maskedFields" in found["searchAttributes[1]"]
    assert problems(maskedFields=["input", "Card"], searchAttributes=["input.card"]) == {}


@pytest.mark.parametrize("key", ["${workflow.input.card}", "x-${workflow.input.card.no}", "${workflow.input..card}"])
def test_a_key_of_a_limit_that_is_masked_is_refused(key: str) -> None:
    config = {"concurrentExecLimit": 1, "rateLimitKey": key}
    found = problems(maskedFields=["card"], rateLimitConfig=config)
    assert list(found) == ["rateLimitConfig.rateLimitKey"] and "is masked" in found["rateLimitConfig.rateLimitKey"]
    assert problems(maskedFields=["cards"], rateLimitConfig=config) == {}


def test_a_key_that_a_parent_masks_tells_runs_apart_and_shows_nothing() -> None:
    definition = {"rateLimitConfig": {"concurrentExecLimit": 1, "rateLimitKey": "${workflow.input.card}"}}
    keys = {card: rate_limit(with_masked(definition, NAMES), {"input": {"card": card}}) for card in ("4711", "4712")}
    assert len({*keys.values()}) == 2 and not any(card in str(key) for card, key in keys.items())
    assert rate_limit(definition, {"input": {"card": "4711"}}) == ("4711", 1)


def test_a_definition_inside_another_is_checked_too() -> None:
    inner = {"name": "i", "version": 1, "tasks": [simple("a")], "maskedFields": [""]}
    found = validate(
        {"name": "w", "tasks": [task("SUB_WORKFLOW", "s", subWorkflowParam={"name": "i", "workflowDefinition": inner})]}
    )
    assert [problem.path for problem in found] == ["tasks[0].subWorkflowParam.workflowDefinition.maskedFields[0]"]


def test_values_are_masked_by_the_names_of_their_fields_at_any_depth() -> None:
    given = {"pin": 1, "Pin": 2, "x.pin": 3, "pins": 4, "a": [{"card": {"pin": 5}}, ["pin", {"pin": None}]], "pin ": 6}
    assert mask(given, NAMES) == {
        "pin": MASK, "Pin": 2, "x.pin": 3, "pins": 4, "a": [{"card": MASK}, ["pin", {"pin": MASK}]], "pin ": 6,
    }  # fmt: skip
    assert given["pin"] == 1, "the value itself stays what it is"
    assert mask("pin", NAMES) == "pin"


def test_without_names_nothing_is_even_copied() -> None:
    given = {"pin": [1]}
    assert mask(given, frozenset()) is given
    assert mask_inside(given, frozenset()) is given
    assert mask_text("{ }", frozenset()) == "{ }"


def test_our_own_fields_are_kept_around_what_is_masked() -> None:
    assert mask_inside({"pin": {"pin": 1}, "x": 2}, NAMES) == {"pin": {"pin": MASK}, "x": 2}


def test_a_text_keeps_its_digits() -> None:
    text = mask_text('{"n": 12345678901234567890123, "é": 1.5, "pin": "x"}', NAMES)
    assert text == '{\n    "n": 12345678901234567890123,\n    "é": 1.5,\n    "pin": "***"\n}'
    assert mask_text(None, NAMES) is None


def test_what_is_nested_too_deeply_is_not_shown() -> None:
    value: Any = {"pin": "hidden"}
    for _ in range(2000):
        value = {"a": [value]}
    assert "hidden" not in str(mask(value, NAMES))


def test_names_are_added_and_never_taken_away() -> None:
    definition = {"name": "w", "maskedFields": ["pin"]}
    assert with_masked(definition, frozenset()) is definition
    assert with_masked(definition, frozenset({"pin"})) is definition
    assert masked_fields(with_masked(definition, frozenset({"card"}))) == NAMES
    assert masked_fields({"maskedFields": "pin"}) == masked_fields({}) == frozenset()


def test_a_name_from_above_keeps_an_attribute_from_being_found() -> None:
    definition = {"searchAttributes": ["input.card", "input.id"]}
    given = {"card": "4711", "id": "A"}
    assert extract(definition, given) == {"input.card": "4711", "input.id": "A"}
    assert extract(with_masked(definition, NAMES), given) == {"input.id": "A"}


STARTERS = {
    "SUB_WORKFLOW": {"subWorkflowParam": {"name": "w"}},
    "START_WORKFLOW": {"inputParameters": {"startWorkflow": {"name": "w"}}},
    "EVENT": {"sink": "conductor"},
}


@pytest.mark.parametrize("type_", STARTERS)
def test_what_leaves_a_run_carries_its_names(type_: str) -> None:
    node = task(type_, "t", **STARTERS[type_])
    (effect,) = run(node, simple("z"), maskedFields=["pin", "card"]).made[0].effects
    assert effect.payload[FIELD] == ["card", "pin"]
    (plain,) = run(node, simple("z")).made[0].effects
    assert FIELD not in plain.payload
