"""What the OpenAPI document says beyond the views: authentication, the errors that every path can answer, parameters."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The session of a logged-in member of staff, or an API key or its token."""

    target_class = "orchestrator.api.PrincipalAuthentication"
    name = ["session", "key"]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, str]]:
        return [
            {"type": "apiKey", "in": "cookie", "name": "sessionid"},
            {"type": "apiKey", "in": "header", "name": "X-Authorization"},
        ]


_ERRORS = {
    "400": "Malformed or refused input; `validationErrors` names the places.",
    "401": "No credentials, or wrong ones.",
    "403": "The credentials do not allow it.",
    "404": "No such object, or one of another namespace.",
    "405": "The path does not know the method.",
    "409": "The object's present state forbids it, or it exists already.",
    "410": "A payload that the answer needs is lost; the message names it.",
    "413": "The body, or a payload in it, is too large.",
    "422": "The idempotency key was used with another request.",
    "429": "Too much; `Retry-After` says when to try again.",
    "503": "The store of large payloads is out of reach.",
}
_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["status", "code", "message", "instance", "retryable"],
    "properties": {
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "message": {"type": "string"},
        "instance": {"type": "string"},
        "retryable": {"type": "boolean"},
        "error": {"type": "string", "description": "For 401: the code, where SDKs look for it."},
        "validationErrors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}
_TEXT, _FLAG, _NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "integer", "minimum": 0}
PARAMETERS: dict[str, dict[str, Any]] = {
    "query": {**_TEXT, "description": "`field = value AND field IN (a, b)`; declared search attributes by their path."},
    "freeText": {**_TEXT, "description": "Words that must be there, or an id; `*` is everything."},
    "sort": {**_TEXT, "description": "`field:ASC|field:DESC`"},
    "cursor": {**_TEXT, "description": "The `nextCursor` of the page before: pages that stay put while runs come and go."},
    "start": _NUMBER, "size": _NUMBER, "count": _NUMBER, "after": _NUMBER, "seq": _NUMBER, "limit": _NUMBER,
    "priority": _NUMBER, "waitForSeconds": _NUMBER, "timeoutMillis": _NUMBER, "scheduleStartTime": _NUMBER,
    "scheduleEndTime": _NUMBER, "version": {**_NUMBER, "description": "Absent or 0 for the latest."},
    "timeout": {**_NUMBER, "description": "Milliseconds to wait for the first task, up to 30000."},
    "includeTasks": _FLAG, "includeOutput": _FLAG, "includeVariables": _FLAG, "includeClosed": _FLAG, "overwrite": _FLAG,
    "useLatestDefinitions": _FLAG, "resumeSubworkflowTasks": _FLAG, "summaryOnly": _FLAG, "paused": _FLAG, "compensate": _FLAG,
    "reason": _TEXT, "correlationId": _TEXT, "workerid": _TEXT, "domain": _TEXT, "taskType": _TEXT, "status": _TEXT,
    "requestId": _TEXT, "waitUntilTaskRef": _TEXT, "returnStrategy": _TEXT, "workflowName": _TEXT, "scheduleName": _TEXT,
    "taskReferenceName": _TEXT, "cronExpression": _TEXT, "zoneId": _TEXT,
}  # fmt: skip
"""Query parameters that the views read, whatever the case of their booleans."""
_SEARCH = "query freeText sort start size cursor"
_USES = {
    "search_workflows": _SEARCH, "search_whole_workflows": _SEARCH, "search_workflows_by_tasks": _SEARCH,
    "search_whole_workflows_by_tasks": _SEARCH, "search_tasks": _SEARCH, "search_whole_tasks": _SEARCH,
    "search_schedule_runs": _SEARCH, "search_schedules": "workflowName scheduleName freeText paused start size",
    "list_schedules": "workflowName", "pause_schedule": "reason", "pause_schedule_by_get": "reason",
    "bulk_pause_schedules": "reason",
    "next_few_schedules": "cronExpression zoneId scheduleStartTime scheduleEndTime limit",
    "start_workflow_by_name": "version correlationId priority", "start_workflow_version": "correlationId priority",
    "get_workflow": "includeTasks", "terminate_workflow": "reason compensate", "terminate_and_remove_workflow": "reason",
    "get_workflow_status": "includeOutput includeVariables", "list_workflow_tasks": "start count status",
    "get_workflow_history": "after count", "get_workflow_state": "seq", "get_workflow_family": "summaryOnly",
    "update_workflow_state": "requestId waitForSeconds waitUntilTaskRef", "restart_workflow": "useLatestDefinitions",
    "retry_workflow": "resumeSubworkflowTasks", "list_correlated_workflows": "includeClosed includeTasks",
    "find_correlated_workflows": "includeClosed includeTasks", "list_running_workflows": "version",
    "find_correlated_workflows_of_many": "includeClosed includeTasks", "bulk_search": "includeTasks",
    "bulk_restart": "useLatestDefinitions", "bulk_terminate": "reason", "bulk_terminate_remove": "reason",
    "execute_workflow": "requestId waitForSeconds waitUntilTaskRef returnStrategy",
    "execute_workflow_version": "requestId waitForSeconds waitUntilTaskRef returnStrategy",
    "signal_workflow_sync": "returnStrategy timeoutMillis", "register_workflow": "overwrite",
    "replace_workflows": "overwrite", "get_workflow_definition": "version", "poll_task": "workerid domain",
    "poll_tasks": "workerid domain count timeout", "update_task_by_ref": "workerid", "update_task_by_ref_sync": "workerid",
    "get_queue_sizes": "taskType", "get_queue_size": "taskType domain", "get_poll_data": "taskType",
    "list_pending_tasks": "start count", "end_task_by_ref": "workerid", "jump_to_task": "taskReferenceName",
}  # fmt: skip


def complete(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add to every operation what it can answer in the bad case, and the parameters it reads."""
    result.setdefault("components", {}).setdefault("schemas", {})["Error"] = _ERROR
    for path in result["paths"].values():
        for operation in path.values():
            for status, words in _ERRORS.items():
                content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
                operation["responses"].setdefault(status, {"description": words, "content": content})
            names = _USES.get(operation["operationId"], "").split()
            found = [{"in": "query", "name": name, "schema": PARAMETERS[name]} for name in names]
            if found:
                operation["parameters"] = [*operation.get("parameters", []), *found]
    return result
