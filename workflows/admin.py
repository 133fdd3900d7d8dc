"""The admin of definitions and runs: reads, and buttons that call the control services."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from orchestrator.admin import ChoiceFilter, EngineAdmin
from orchestrator.errors import OstinatoError
from orchestrator.masking import Names
from workflows import masking
from workflows.engine.state import TaskStatus, WorkflowStatus
from workflows.models import (
    Admission,
    DecideQueue,
    Execution,
    PayloadSchema,
    Quota,
    Task,
    TaskDefinition,
    Timer,
    WorkflowDefinition,
)
from workflows.services.browsing import shown
from workflows.services.control import nudge
from workflows.services.operating import ACTIONS, BUTTONS, perform, skippable
from workflows.services.quarantine import release_timer


def execution_link(workflow_id: UUID | None) -> SafeString | str:
    """A link to a run's record in the admin."""
    if workflow_id is None:
        return "-"
    return format_html(
        '<a href="{}">{}</a>', reverse("admin:workflows_execution_change", args=[workflow_id]), workflow_id
    )


class RunLinkMixin:
    """Rows that belong to a run link to it."""

    @admin.display(description="workflow")
    def run(self, obj: Any) -> SafeString | str:
        return execution_link(obj.workflow_id)


class PayloadsMixin:
    """Payloads are shown whole, wherever they are kept."""

    def shown_text(self, name: str, text: str | None, hidden: Names) -> str | None:
        if name in ("input", "output"):
            return shown(text, hidden)
        found: str | None = super().shown_text(name, text, hidden)  # type: ignore[misc]
        return found


@admin.register(WorkflowDefinition)
class WorkflowDefinitionAdmin(EngineAdmin):
    """Registered versions."""

    list_display = ("name", "version", "namespace", "updated_at", "created_by")
    ordering = ("namespace", "name", "-version")
    search_names = ("name", "name__startswith", "namespace")
    search_help_text = "Id, or the beginning of a name, or a namespace"


@admin.register(TaskDefinition)
class TaskDefinitionAdmin(EngineAdmin):
    """Retries, time-outs and limits."""

    list_display = ("name", "namespace", "updated_at")
    ordering = ("namespace", "name")
    search_names = ("name", "name__startswith", "namespace")
    search_help_text = "Id, or the beginning of a name, or a namespace"


@admin.register(PayloadSchema)
class PayloadSchemaAdmin(EngineAdmin):
    """JSON Schemas that definitions name."""

    list_display = ("name", "version", "namespace", "created_at", "created_by")
    ordering = ("namespace", "name", "-version")
    search_names = ("name", "name__startswith", "namespace")
    search_help_text = "Id, or the beginning of a name, or a namespace"


class ExecutionStatusFilter(ChoiceFilter):
    title = "status"
    parameter_name = "status"
    values = tuple(status.value for status in WorkflowStatus)


class ReasonForm(ActionForm):
    """The reason of a termination, beside the list's actions."""

    reason = forms.CharField(required=False, label="Reason", max_length=500)


def list_action(name: str) -> Any:
    """A changelist action that performs an operator action on each ticked run."""
    action = ACTIONS[name]

    @admin.action(description=f"{action.label} selected runs", permissions=["operate"])
    def act(modeladmin: ExecutionAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        done = 0
        for workflow_id, namespace in queryset.values_list("id", "namespace"):
            done += modeladmin.act(request, name, namespace, workflow_id)
        if done:
            modeladmin.message_user(request, f"{action.done}: {done} run(s).", messages.SUCCESS)

    act.__name__ = f"{name}_selected"
    return act


@admin.register(Execution)
class ExecutionAdmin(PayloadsMixin, EngineAdmin):
    """Runs, with the operator's buttons."""

    list_display = ("id", "name", "version", "status", "correlation_id", "created_at", "ended_at", "namespace")
    list_filter = (ExecutionStatusFilter,)
    search_ids = ("id", "parent_workflow_id")
    search_names = ("correlation_id", "name")
    search_help_text = "Id of the run or of its parent, or the whole correlation id or name"
    action_form = ReasonForm
    actions = tuple(list_action(action.name) for action in BUTTONS)
    change_form_template = "admin/workflows/execution/change_form.html"
    own_keys = ("attributes", "task_to_domain")

    def masked_names(self, obj: Any) -> Names:
        return masking.names(obj.revision_id)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return self.operates(request)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.action_view)
        return [
            path("<uuid:workflow_id>/action/<slug:name>/", view, name="workflows_execution_action"),
            *super().get_urls(),
        ]

    def action_view(self, request: HttpRequest, workflow_id: UUID, name: str) -> HttpResponse:
        """One button: outside any transaction, since the services own theirs."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.operates(request):
            raise PermissionDenied
        execution = self.model.objects.filter(id=workflow_id).only("namespace").first()
        if execution is None:
            self.message_user(request, f"There is no run {workflow_id}.", messages.ERROR)
            return redirect("admin:workflows_execution_changelist")
        self.act(request, name, execution.namespace, workflow_id, confirm=True)
        return redirect("admin:workflows_execution_change", workflow_id)

    def act(self, request: HttpRequest, name: str, namespace: str, workflow_id: UUID, *, confirm: bool = False) -> bool:
        """Perform an action; a refusal becomes a message with its reason."""
        given = {key: request.POST.get(key, "") for key in ("reason", "ref")}
        try:
            said = perform(name, namespace, workflow_id, actor=request.user.get_username(), **given)
        except OstinatoError as error:
            self.message_user(request, f"{workflow_id}: {error.message}", messages.ERROR)
            return False
        if confirm:
            self.message_user(request, said, messages.SUCCESS)
        return True

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        run = kwargs.get("obj")
        if run is not None:
            may = self.operates(request)
            context["buttons"] = [(action, may and action.allowed(run.status)) for action in BUTTONS]
            context["skippable"] = skippable(run) if may else []
            context["ops_url"] = self._ops_url(run)
        return super().render_change_form(request, context, *args, **kwargs)

    def _ops_url(self, run: Any) -> str | None:
        try:
            return reverse("ops:execution", args=[run.namespace, run.id])
        except NoReverseMatch:
            return None


def release_each(
    modeladmin: EngineAdmin, request: HttpRequest, rows: Iterable[tuple[str, UUID]], release: Callable[..., None]
) -> None:
    """Release each (namespace, id); a refusal becomes a message with its reason."""
    done = 0
    for namespace, found in rows:
        try:
            release(namespace, found, actor=request.user.get_username())
        except OstinatoError as error:
            modeladmin.message_user(request, f"{found}: {error.message}", messages.ERROR)
        else:
            done += 1
    if done:
        modeladmin.message_user(request, f"Released: {done}.", messages.SUCCESS)


class TaskStatusFilter(ChoiceFilter):
    title = "status"
    parameter_name = "status"
    values = tuple(status.value for status in TaskStatus)


@admin.register(Task)
class TaskAdmin(PayloadsMixin, RunLinkMixin, EngineAdmin):
    """Attempts of tasks."""

    list_display = (
        "id",
        "ref",
        "iteration",
        "attempt",
        "type",
        "status",
        "worker_id",
        "scheduled_at",
        "ended_at",
        "run",
    )
    list_filter = (TaskStatusFilter,)
    search_ids = ("id", "workflow_id")
    search_help_text = "Id of the task or of its run"
    own_keys = ("state", "spec", "listeners")

    def masked_names(self, obj: Any) -> Names:
        return masking.names_of_run(obj.workflow_id)


@admin.register(DecideQueue)
class DecideQueueAdmin(RunLinkMixin, EngineAdmin):
    """Runs awaiting a pass."""

    list_display = ("workflow_id", "enqueued_at", "attempts", "next_attempt_at", "quarantined", "last_error", "run")
    list_filter = ("quarantined",)
    ordering = ("enqueued_at",)
    search_help_text = "Id of the run"
    actions = ("release_selected",)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return self.operates(request)

    @admin.action(description="Release selected runs from quarantine", permissions=["operate"])
    def release_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        ids = list(queryset.values_list("workflow_id", flat=True))
        release_each(self, request, Execution.objects.filter(id__in=ids).values_list("namespace", "id"), nudge)


class TimerKindFilter(ChoiceFilter):
    title = "kind"
    parameter_name = "kind"
    values = ("WORKFLOW", "WAIT", "POLL", "RESPONSE", "TASK", "TOTAL")


@admin.register(Timer)
class TimerAdmin(RunLinkMixin, EngineAdmin):
    """Deadlines."""

    list_display = ("id", "kind", "due_at", "attempts", "quarantined", "namespace", "run")
    list_filter = (TimerKindFilter, "quarantined")
    ordering = ("due_at",)
    search_ids = ("id", "workflow_id", "task_id")
    search_help_text = "Id of the timer, its run or its task"
    actions = ("release_selected",)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return self.operates(request)

    @admin.action(description="Release selected timers from quarantine", permissions=["operate"])
    def release_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        release_each(self, request, queryset.values_list("namespace", "id"), release_timer)


@admin.register(Admission)
class AdmissionAdmin(RunLinkMixin, EngineAdmin):
    """Runs under a limit of their workflow or tenant: those that count, and those that wait their turn."""

    list_display = ("run", "name", "namespace", "key", "most", "counted", "admitted")
    search_ids = ("workflow_id",)
    search_names = ("name", "key", "namespace")
    search_help_text = "Id of the run, or the whole name of a workflow, key or namespace"


@admin.register(Quota)
class QuotaAdmin(EngineAdmin):
    """How many runs a tenant may have at a time; PUT /api/quota sets it."""

    list_display = ("namespace", "max_concurrent_executions", "updated_at")
    search_names = ("namespace",)
    search_help_text = "Id, or the whole namespace"
