"""Shapes of the OpenAPI document; the wire format itself is in `workflows.wire`."""

from __future__ import annotations

from typing import Any

_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": {}}
_IDS = {"type": "array", "items": {"type": "string"}}

OBJECT = {"application/json": _OBJECT}
LIST = {"application/json": {"type": "array", "items": _OBJECT}}
IDS = {"application/json": _IDS}

OBJECT_ANSWER = {(200, "application/json"): _OBJECT}
LIST_ANSWER = {(200, "application/json"): {"type": "array", "items": _OBJECT}}
IDS_ANSWER = {(200, "application/json"): _IDS}
NUMBER_ANSWER = {(200, "application/json"): {"type": "integer"}}
TEXT_ANSWER = {(200, "text/plain"): {"type": "string", "description": "A bare id or number."}}
HITS_ANSWER = {
    (200, "application/json"): {
        "type": "object",
        "properties": {"totalHits": {"type": "integer"}, "results": {"type": "array", "items": _OBJECT}},
    }
}
INBOX_ANSWER = {
    (200, "application/json"): {
        "type": "object",
        "properties": {"results": {"type": "array", "items": _OBJECT}, "nextCursor": {"type": "string"}},
    }
}
BULK_ANSWER = {
    (200, "application/json"): {
        "type": "object",
        "properties": {
            "bulkErrorResults": {"type": "object", "additionalProperties": {"type": "string"}},
            "bulkSuccessfulResults": _IDS,
        },
    }
}
EMPTY = {200: None}
NOTHING = {204: None}
