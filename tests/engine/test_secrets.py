"""References to secrets: kept as text, filled in only where the definition itself wrote them."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.engine.expressions import compile_template, resolve
from workflows.engine.secrets import SecretError, reveal, secret_names

VALUES = {"TOKEN": "s3cr3t", "ACCOUNT": '{"user": "ann", "roles": ["a", "b"]}'}


class Scope:
    null_text = "null"

    def root(self, name: str) -> Any:
        return {"input": {"x": "${workflow.secrets.TOKEN}", "n": 5}}

    def field(self, name: str, field: str) -> Any:
        return self.root(name)[field]


@pytest.mark.parametrize(
    ("written", "revealed"), [
        ("${workflow.secrets.TOKEN}", "s3cr3t"),
        ("Bearer ${workflow.secrets.TOKEN}/${workflow.input.n}", "Bearer s3cr3t/5"),
        ("${workflow.secrets.ACCOUNT.user}", "ann"),
        ("${workflow.secrets.ACCOUNT.roles[1]}", "b"),
        ({"a": [{"b": "${workflow.secrets.TOKEN}"}, 1]}, {"a": [{"b": "s3cr3t"}, 1]}),
        ("${workflow.input.x}", "${workflow.secrets.TOKEN}"),
        ("$${workflow.secrets.TOKEN}", "${workflow.secrets.TOKEN}"),
        ("${workflow.input.n}", 5),
    ],
)  # fmt: skip
def test_what_is_stored_and_what_is_handed_out(written: Any, revealed: Any) -> None:
    template = compile_template(written)
    stored = resolve(template, Scope())
    assert "s3cr3t" not in str(stored) and "ann" not in str(stored)
    assert reveal(template, stored, VALUES) == revealed


def test_the_stored_input_is_not_changed() -> None:
    template = compile_template({"a": {"b": "${workflow.secrets.TOKEN}"}})
    stored = resolve(template, Scope())
    reveal(template, stored, VALUES)
    assert stored == {"a": {"b": "${workflow.secrets.TOKEN}"}}


def test_an_input_that_an_operator_replaced_is_handed_out_as_it_is() -> None:
    template = compile_template({"a": "${workflow.secrets.TOKEN}"})
    assert reveal(template, {"a": "mine", "b": 1}, VALUES) == {"a": "mine", "b": 1}
    assert reveal(template, {}, VALUES) == {}


def test_names() -> None:
    template = compile_template({"a": "x ${workflow.secrets.A} ${workflow.secrets.B.c}", "b": ["${workflow.input.a}"]})
    assert secret_names(template) == {"A", "B"}


@pytest.mark.parametrize(
    ("written", "word"), [
        ("${workflow.secrets.NONE}", "NONE"), ("${workflow.secrets}", "name"), ("${workflow.secrets.TOKEN.part}", "JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_filled_in_says_so_without_a_value(written: str, word: str) -> None:
    template = compile_template(written)
    with pytest.raises(SecretError, match=word) as refused:
        reveal(template, resolve(template, Scope()), VALUES)
    assert "s3cr3t" not in str(refused.value)
