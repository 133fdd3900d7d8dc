"""/api/human/tasks: the inbox of HUMAN tasks."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator import access
from orchestrator.api.views import View, body_object, number, text
from orchestrator.errors import Invalid
from workflows.api.schemas import INBOX_ANSWER, OBJECT, OBJECT_ANSWER
from workflows.managers.human_task import Claimant, InboxFilter, StoredHumanTask
from workflows.services import human_tasks
from workflows.services.evaluation import evaluate_for_client
from workflows.wire import millis, parse_uuid, present

_CLAIMED = {"OPEN": False, "CLAIMED": True}


def human_json(task: StoredHumanTask, **more: Any) -> dict[str, Any]:
    """An open task."""
    return present({
        "taskId": str(task.id),
        "workflowId": str(task.workflow_id),
        "workflowName": task.workflow_name,
        "taskReferenceName": task.ref,
        "iteration": task.iteration or None,
        "taskName": task.name,
        "state": "CLAIMED" if task.claimed_by else "OPEN",
        "assignee": task.assignee,
        "candidateUsers": task.candidate_users,
        "candidateGroups": task.candidate_groups,
        "claimedBy": task.claimed_by,
        "claimedTime": millis(task.claimed_at) or None,
        "createTime": millis(task.created_at),
        "deadlineTime": millis(task.due_at) or None,
        "escalatedTime": millis(task.escalated_at) or None,
        **more,
    })  # fmt: skip


def claimant(who: access.Principal) -> Claimant:
    """The caller; an administrator may have anybody's task."""
    return Claimant(who.name, who.groups, "admin" in who.permissions)


def workable(who: access.Principal, shown: str) -> StoredHumanTask:
    """An open task that the caller may work on; raises NotFound, IllegalState or Forbidden."""
    task = human_tasks.get(who.namespace, parse_uuid(shown), shown)
    access.require_queue(who, task.name)
    return task


class HumanTasks(View):
    """Open tasks, oldest first; `nextCursor` where there are more."""

    permission = "view"

    @extend_schema(operation_id="list_human_tasks", responses=INBOX_ANSWER)
    def get(self, request: Request) -> Response:
        state, cursor = text(request, "state"), text(request, "cursor")
        after = parse_uuid(cursor) if cursor else None
        if state is not None and state not in _CLAIMED:
            raise Invalid(problems=[("state", f"expected OPEN or CLAIMED, got {state!r:.40}")])
        if cursor and after is None:
            raise Invalid(problems=[("cursor", f"expected the nextCursor of a page, got {cursor!r:.40}")])
        wanted = InboxFilter(
            text(request, "assignee"), text(request, "group"), None if state is None else _CLAIMED[state],
            text(request, "workflowName"),
        )  # fmt: skip
        size = number(request, "size", 50, least=1, most=human_tasks.MOST - 1)
        found = human_tasks.page(self.who.namespace, wanted, after=after, size=size + 1)
        shown = found[:size]
        following = str(shown[-1].id) if len(found) > size else None
        return Response(present({"results": [human_json(task) for task in shown], "nextCursor": following}))


class HumanTask(View):
    """An open task with its data and its form."""

    permission = "view"

    @extend_schema(operation_id="get_human_task", responses=OBJECT_ANSWER)
    def get(self, request: Request, task_id: str) -> Response:
        task = human_tasks.get(self.who.namespace, parse_uuid(task_id), task_id)
        data = human_tasks.read_input(task)
        return Response(human_json(task, inputData=data, form=data.get("form")))


class Claim(View):
    """Claim a task; one of those who claim at once gets it."""

    permission = "work"

    @extend_schema(operation_id="claim_human_task", request=None, responses=OBJECT_ANSWER)
    def post(self, request: Request, task_id: str) -> Response:
        task = workable(self.who, task_id)
        return Response(human_json(human_tasks.claim(self.who.namespace, task.id, claimant(self.who))))


class Release(View):
    """Give a claim up."""

    permission = "work"

    @extend_schema(operation_id="release_human_task", request=None, responses=OBJECT_ANSWER)
    def post(self, request: Request, task_id: str) -> Response:
        task = workable(self.who, task_id)
        return Response(human_json(human_tasks.release(self.who.namespace, task.id, claimant(self.who))))


class Complete(View):
    """Answer a task; the body is its output, which must fit its form."""

    permission = "work"

    @extend_schema(operation_id="complete_human_task", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request, task_id: str) -> Response:
        task = workable(self.who, task_id)
        human_tasks.complete(self.who.namespace, task.id, body_object(request, "output"), claimant(self.who))
        evaluate_for_client(task.workflow_id)
        return Response({"taskId": str(task.id), "workflowId": str(task.workflow_id), "status": "COMPLETED"})


class Reassign(View):
    """Give a task to others; a claim on it ends."""

    permission = "operate"

    @extend_schema(operation_id="reassign_human_task", request=OBJECT, responses=OBJECT_ANSWER)
    def post(self, request: Request, task_id: str) -> Response:
        task = human_tasks.get(self.who.namespace, parse_uuid(task_id), task_id)
        given = body_object(request)
        return Response(human_json(human_tasks.reassign(self.who.namespace, task.id, given, claimant(self.who))))
