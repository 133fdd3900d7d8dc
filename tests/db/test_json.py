"""The funnel of JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from orchestrator.db import json
from orchestrator.errors import Invalid


@dataclass(frozen=True, slots=True)
class Row:
    id: UUID
    at: datetime
    data: Any


@pytest.mark.parametrize("value", [2**53 + 1, 2**64, 2**70, -(2**90), [2**63], {"n": {"m": 10**30}}])
def test_integers_of_any_size_stay_exact(value: Any) -> None:
    assert json.loads(json.dumps(value)) == value
    row = Row(UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC), value)
    (found,) = json.loads(json.dumps([row]))
    assert found == {"id": str(row.id), "at": "2026-01-01T00:00:00+00:00", "data": value}


@pytest.mark.parametrize("value", ["\x00", {"a": ["b\x00"]}, {"k\x00": 1}, "\ud800", {"a": "x\udfff"}])
def test_what_cannot_be_stored_is_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="cannot be stored"):
        json.dumps(value)


def test_an_escaped_escape_is_no_nul() -> None:
    assert json.loads(json.dumps("\\u0000")) == "\\u0000"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_is_no_json_is_refused_or_null(value: Any) -> None:
    if isinstance(value, float):
        assert json.dumps(value) == "null"
    else:
        with pytest.raises(Invalid, match="not JSON"):
            json.dumps(value)
