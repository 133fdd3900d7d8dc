"""/api/scheduler: cron schedules, as Conductor's clients know them."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.api.views import View, body_list, body_object, empty, flag, number, refuse_browser, text
from orchestrator.errors import Invalid, OstinatoError
from workflows.api.schemas import BULK_ANSWER, EMPTY, HITS_ANSWER, IDS, LIST_ANSWER, OBJECT, OBJECT_ANSWER
from workflows.api.searching import hits_json, search_parameters
from workflows.managers.schedule import StoredSchedule
from workflows.models import ScheduleRun
from workflows.services import scheduling
from workflows.services.searching import SCHEDULE_RUNS, search
from workflows.wire import millis, present

_ALL = "All schedules were paused."


def schedule_json(stored: StoredSchedule) -> dict[str, Any]:
    """A schedule as it was saved, with its state."""
    state = {
        "name": stored.name,
        "paused": stored.paused,
        "pausedReason": stored.paused_reason,
        "nextRunTime": millis(stored.next_at) or None,
        "createTime": millis(stored.created_at),
        "updatedTime": millis(stored.updated_at),
        "createdBy": stored.created_by,
        "failures": stored.failures or None,
        "lastError": stored.last_error,
    }
    return present({"zoneId": "UTC", "runCatchupScheduleInstances": False, **stored.definition, **state})


def run_json(run: ScheduleRun) -> dict[str, Any]:
    """A firing."""
    return present({
        "executionId": str(run.id),
        "scheduleName": run.schedule_name,
        "workflowName": run.workflow_name,
        "workflowId": str(run.workflow_id) if run.workflow_id else None,
        "scheduledTime": millis(run.scheduled_at),
        "executionTime": millis(run.executed_at),
        "state": run.state,
        "reason": run.reason,
    })  # fmt: skip


class Schedules(View):
    """Save and list schedules."""

    permission = "define"
    permissions = {"get": "view"}

    @extend_schema(operation_id="save_schedule", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request) -> Response:
        return Response(schedule_json(scheduling.save(self.who.namespace, body_object(request), actor=self.who.name)))

    @extend_schema(operation_id="list_schedules", responses=LIST_ANSWER)
    def get(self, request: Request) -> Response:
        found = scheduling.find(self.who.namespace, text(request, "workflowName"))
        return Response([schedule_json(stored) for stored in found])


class SearchSchedules(View):
    """Schedules by name, workflow and state."""

    permission = "view"

    @extend_schema(operation_id="search_schedules", responses=HITS_ANSWER)
    def get(self, request: Request) -> Response:
        found = scheduling.find(self.who.namespace, text(request, "workflowName"))
        wanted = text(request, "scheduleName") or text(request, "freeText")
        if wanted and wanted != "*":
            found = [stored for stored in found if wanted.lower() in stored.name.lower()]
        if text(request, "paused") is not None:
            found = [stored for stored in found if stored.paused == flag(request, "paused")]
        first, size = number(request, "start", 0), number(request, "size", 100, most=5000)
        page = found[first : first + size]
        return Response({"totalHits": len(found), "results": [schedule_json(stored) for stored in page]})


class Schedule(View):
    """One schedule."""

    permission = "define"
    permissions = {"get": "view"}

    @extend_schema(operation_id="get_schedule", responses=OBJECT_ANSWER)
    def get(self, request: Request, name: str) -> Response:
        return Response(schedule_json(scheduling.get(self.who.namespace, name)))

    @extend_schema(operation_id="delete_schedule", responses=EMPTY)
    def delete(self, request: Request, name: str) -> HttpResponse:
        scheduling.delete(self.who.namespace, name)
        return empty()


class PauseSchedule(View):
    """Pause a schedule, by PUT or, as some clients do, by GET."""

    permission = "operate"

    @extend_schema(operation_id="pause_schedule", request=None, responses=EMPTY)
    def put(self, request: Request, name: str) -> HttpResponse:
        scheduling.pause(self.who.namespace, name, text(request, "reason"))
        return empty()

    @extend_schema(operation_id="pause_schedule_by_get", responses=EMPTY)
    def get(self, request: Request, name: str) -> HttpResponse:
        refuse_browser(request)
        return self.put(request, name)


class ResumeSchedule(View):
    """Resume a schedule from now."""

    permission = "operate"

    @extend_schema(operation_id="resume_schedule", request=None, responses=EMPTY)
    def put(self, request: Request, name: str) -> HttpResponse:
        scheduling.resume(self.who.namespace, name)
        return empty()

    @extend_schema(operation_id="resume_schedule_by_get", responses=EMPTY)
    def get(self, request: Request, name: str) -> HttpResponse:
        refuse_browser(request)
        return self.put(request, name)


class NextFewSchedules(View):
    """The next moments of a cron expression, in epoch milliseconds."""

    permission = "view"

    @extend_schema(
        operation_id="next_few_schedules",
        responses={(200, "application/json"): {"type": "array", "items": {"type": "integer"}}},
    )
    def get(self, request: Request) -> Response:
        expression = text(request, "cronExpression")
        if expression is None:
            raise Invalid(problems=[("cronExpression", "expected a cron expression")])
        moments = scheduling.preview(
            expression,
            text(request, "zoneId") or "UTC",
            number(request, "scheduleStartTime", 0, most=2**53) or None,
            number(request, "scheduleEndTime", 0, most=2**53) or None,
            number(request, "limit", 5, least=1, most=100),
        )
        return Response([millis(moment) for moment in moments])


class ScheduleRuns(View):
    """Firings, newest first."""

    permission = "view"

    @extend_schema(operation_id="search_schedule_runs", responses=HITS_ANSWER)
    def get(self, request: Request) -> Response:
        found = search(SCHEDULE_RUNS, self.who.namespace, search_parameters(request))
        return Response(hits_json(found, [run_json(run) for run in found.hits]))


class BulkSchedules(View):
    """Pause or resume several schedules."""

    permission = "operate"
    action = "pause"

    def change(self, request: Request) -> Response:
        done, errors = [], {}
        for shown in body_list(request):
            name = str(shown)
            try:
                if self.action == "pause":
                    scheduling.pause(self.who.namespace, name, text(request, "reason"))
                else:
                    scheduling.resume(self.who.namespace, name)
            except OstinatoError as error:
                errors[name] = error.message
            else:
                done.append(name)
        return Response({"bulkErrorResults": errors, "bulkSuccessfulResults": done})


class BulkPause(BulkSchedules):
    """Pause several schedules."""

    @extend_schema(operation_id="bulk_pause_schedules", request=IDS, responses=BULK_ANSWER)
    def put(self, request: Request) -> Response:
        return self.change(request)


class BulkResume(BulkSchedules):
    """Resume several schedules."""

    action = "resume"

    @extend_schema(operation_id="bulk_resume_schedules", request=IDS, responses=BULK_ANSWER)
    def put(self, request: Request) -> Response:
        return self.change(request)


class PauseAll(View):
    """Pause every schedule that is not paused; a GET that acts, because clients know it so."""

    permission = "operate"

    @extend_schema(operation_id="pause_all_schedules", responses=EMPTY)
    def get(self, request: Request) -> HttpResponse:
        refuse_browser(request)
        for stored in scheduling.find(self.who.namespace):
            if not stored.paused:
                scheduling.pause(self.who.namespace, stored.name, _ALL)
        return empty()


class ResumeAll(View):
    """Resume the schedules that were paused together; a GET that acts."""

    permission = "operate"

    @extend_schema(operation_id="resume_all_schedules", responses=EMPTY)
    def get(self, request: Request) -> HttpResponse:
        refuse_browser(request)
        for stored in scheduling.find(self.who.namespace):
            if stored.paused and stored.paused_reason == _ALL:
                scheduling.resume(self.who.namespace, stored.name)
        return empty()


class RequeueAll(View):
    """Nothing is ever lost from a row: there is nothing to put back."""

    permission = "operate"

    @extend_schema(operation_id="requeue_schedules", responses=EMPTY)
    def get(self, request: Request) -> HttpResponse:
        return empty()
