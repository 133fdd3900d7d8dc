"""/api/quarantine: what was put aside after too many failures, and its release."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, body_object
from orchestrator.errors import Invalid, OstinatoError
from outbox.services import relay
from workflows.api.schemas import OBJECT, OBJECT_ANSWER
from workflows.services import control, quarantine
from workflows.wire import millis, parse_uuid


class Quarantine(View):
    """Runs, timers and outbox events that wait for a person; a POST releases the named ones."""

    permission = "operate"

    @extend_schema(operation_id="list_quarantined", responses=OBJECT_ANSWER)
    def get(self, request: Request) -> Response:
        namespace = self.who.namespace
        return Response(
            {
                "runs": [_row(found) for found in quarantine.runs(namespace)],
                "timers": [_row(found) for found in quarantine.timers(namespace)],
                "events": [
                    {"id": str(event.id), "topic": event.topic, "attempts": event.attempts, "error": event.last_error,
                     "since": millis(event.dead_at)}
                    for event in relay.dead_letters(namespace)
                ],
            }
        )  # fmt: skip

    @extend_schema(operation_id="release_quarantined", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request) -> Response:
        given = body_object(request)
        wanted = {kind: _ids(given, kind) for kind in ("runs", "timers", "events")}
        if not any(wanted.values()):
            raise Invalid(problems=[("body", "expected ids under runs, timers or events")])
        who = self.who
        errors: dict[str, str] = {}
        done: list[str] = []
        for kind, release in (("runs", control.nudge), ("timers", quarantine.release_timer)):
            for found in wanted[kind]:
                try:
                    release(who.namespace, found, actor=who.name)
                except OstinatoError as error:
                    errors[str(found)] = error.message
                else:
                    done.append(str(found))
        if wanted["events"]:
            dead = [event.id for event in relay.dead_letters(who.namespace, wanted["events"])]
            relay.replay(dead, actor=who.name)
            done += [str(found) for found in dead]
            errors |= {str(found): "There is no such dead letter" for found in wanted["events"] if found not in dead}
        return Response({"released": done, "errors": errors})


def _row(found: quarantine.PutAside) -> dict[str, Any]:
    return {
        "id": str(found.id), "workflowId": str(found.workflow_id), "kind": found.kind, "attempts": found.attempts,
        "error": found.error, "since": millis(found.since),
    }  # fmt: skip


def _ids(given: dict[str, Any], kind: str) -> list[UUID]:
    shown = given.get(kind) or []
    if not isinstance(shown, list) or len(shown) > quarantine.MOST:
        raise Invalid(problems=[(kind, f"expected a list of at most {quarantine.MOST} ids")])
    ids = [parse_uuid(item) if isinstance(item, str) else None for item in shown]
    bad = [str(item) for item, found in zip(shown, ids, strict=True) if found is None]
    if bad:
        raise Invalid(problems=[(kind, f"expected ids, got {bad[0]!r:.60}")])
    return [found for found in ids if found is not None]
