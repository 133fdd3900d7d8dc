"""Backfill of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, body_object
from orchestrator.errors import Invalid
from workflows.services import backfilling
from workflows.wire import millis, present

_LATEST = 2**42
_MOMENT = {
    "oneOf": [{"type": "string", "format": "date-time"}, {"type": "integer", "description": "Epoch milliseconds."}]
}
_REQUEST = {
    "application/json": {
        "type": "object",
        "required": ["from", "to"],
        "properties": {"from": _MOMENT, "to": _MOMENT, "dryRun": {"type": "boolean", "default": False}},
    }
}
_ANSWER = {
    (200, "application/json"): {
        "type": "object",
        "properties": {
            "scheduleName": {"type": "string"},
            "started": {"type": "integer", "description": "Runs that this call started."},
            "moments": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "scheduledTime": {"type": "integer"},
                        "workflowId": {"type": "string"},
                        "status": {"type": "string"},
                        "started": {"type": "boolean"},
                    },
                },
            },
        },
    }
}


class BackfillSchedule(View):
    """Start the runs of moments that passed without one, at most 500; a dry run only lists the moments and their runs."""

    permission = "operate"

    @extend_schema(operation_id="backfill_schedule", request=_REQUEST, responses=_ANSWER)
    def post(self, request: Request, name: str) -> Response:
        begin, end, dry_run = _read(body_object(request))
        if dry_run:
            found = backfilling.find(self.who.namespace, name, begin, end)
        else:
            found = backfilling.backfill(self.who.namespace, name, begin, end, actor=self.who.name)
        moments = [moment_json(moment) for moment in found]
        return Response({"scheduleName": name, "started": sum(moment.started for moment in found), "moments": moments})


def moment_json(moment: backfilling.Moment) -> dict[str, Any]:
    """A moment with its run."""
    return present({
        "scheduledTime": millis(moment.at),
        "workflowId": str(moment.workflow_id) if moment.workflow_id else None,
        "status": moment.status,
        "started": moment.started,
    })  # fmt: skip


def _read(given: dict[str, Any]) -> tuple[datetime, datetime, bool]:
    begin, end = _moment(given.get("from")), _moment(given.get("to"))
    problems = [
        (name, f"expected ISO 8601 with a zone or epoch milliseconds, got {given.get(name)!r:.60}")
        for name, moment in (("from", begin), ("to", end))
        if moment is None
    ]
    dry_run = given.get("dryRun")
    if dry_run is not None and not isinstance(dry_run, bool):
        problems.append(("dryRun", f"expected true or false, got {dry_run!r:.60}"))
    if begin is None or end is None or problems:
        raise Invalid(problems=problems)
    return begin, end, bool(dry_run)


def _moment(given: Any) -> datetime | None:
    """A moment from 1970 on; None for what is none."""
    if type(given) is int and 0 <= given < _LATEST:
        return datetime.fromtimestamp(given / 1000, UTC)
    try:
        moment = datetime.fromisoformat(given)
        stamp = moment.timestamp() if moment.tzinfo else -1
    except (TypeError, ValueError, OverflowError):
        return None
    return moment.astimezone(UTC) if 0 <= stamp * 1000 < _LATEST else None
