"""The one funnel for JSON: exact big integers, no NUL, no lone surrogates."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from typing import Any

import orjson

from orchestrator.errors import Invalid

_BIG_INTEGER = re.compile(rb"\d{19}")


def dumps(value: Any) -> str:
    """Text for a jsonb parameter; raises Invalid for what PostgreSQL cannot store."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except (orjson.JSONEncodeError, TypeError):
        text = _slow_dumps(value)
    if "\\u0000" in text and _has_nul(text):
        raise Invalid("The JSON contains a NUL character (\\u0000), which cannot be stored.")
    return text


def pretty(value: Any) -> str:
    """Text for people, as PostgreSQL lays it out."""
    return json.dumps(value, indent=4, ensure_ascii=False)


def size(value: Any) -> int:
    """Bytes of a value's JSON; raises Invalid for what PostgreSQL cannot store."""
    text = dumps(value)
    return len(text) if text.isascii() else len(text.encode())


def _slow_dumps(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_unknown)
        text.encode()
    except UnicodeEncodeError as error:
        raise Invalid("The JSON contains a lone surrogate, which cannot be stored.") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(f"The value is not JSON: {error}") from error
    return text


def _unknown(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if hasattr(value, "hex"):
        return str(value)
    raise ValueError(f"{type(value).__name__} has no JSON form")


def _has_nul(text: str) -> bool:
    position = text.find("\\u0000")
    while position >= 0:
        slashes = 0
        while position - 1 - slashes >= 0 and text[position - 1 - slashes] == "\\":
            slashes += 1
        if slashes % 2 == 0:
            return True
        position = text.find("\\u0000", position + 1)
    return False


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean(value: Any) -> Any:
    """The value with U+FFFD for each NUL and lone surrogate: for results that must not be lost over a character."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def loads(data: bytes | str | None) -> Any:
    """The value of a jsonb column or a request body; integers of any size stay exact."""
    if data is None:
        return None
    text = data.encode() if isinstance(data, str) else data
    if _BIG_INTEGER.search(text):
        return _slow_loads(text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _slow_loads(text)  # it may hold a lone surrogate, which is for the caller to refuse or replace


def _slow_loads(text: bytes) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def decode(row: tuple[Any, ...], first: int, end: int) -> list[Any]:
    """A row whose columns from `first` up to `end` are jsonb, decoded."""
    values = list(row)
    values[first:end] = map(loads, row[first:end])
    return values
