"""The admin of task queues: reads only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dispatch.models import Permit, QueuedTask, Semaphore, WorkerPoll
from orchestrator.admin import EngineAdmin


class LeaseFilter(admin.SimpleListFilter):
    title = "lease"
    parameter_name = "lease"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("waiting", "waiting"), ("leased", "leased")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() in ("waiting", "leased"):
            return queryset.filter(lease_token__isnull=self.value() == "waiting")
        return queryset


@admin.register(QueuedTask)
class QueuedTaskAdmin(EngineAdmin):
    """Tasks waiting for a worker or leased to one."""

    list_display = (
        "id", "queue", "namespace", "priority", "visible_at", "worker_id", "lease_expires_at", "redeliveries", "run",
    )  # fmt: skip
    list_filter = (LeaseFilter,)
    search_ids = ("id", "workflow_id")
    search_names = ("queue", "worker_id")
    search_help_text = "Id of the task or its run, or the whole name of a queue or worker"

    @admin.display(description="workflow")
    def run(self, obj: QueuedTask) -> SafeString:
        url = reverse("admin:workflows_execution_change", args=[obj.workflow_id])
        return format_html('<a href="{}">{}</a>', url, obj.workflow_id)


@admin.register(WorkerPoll)
class WorkerPollAdmin(EngineAdmin):
    """When workers last asked for work."""

    list_display = ("queue", "worker_id", "last_poll_at", "domain", "namespace")
    ordering = ("-last_poll_at",)
    search_names = ("queue", "worker_id")
    search_help_text = "The whole name of a queue or worker"


@admin.register(Semaphore)
class SemaphoreAdmin(EngineAdmin):
    """Named permits; who holds them is under permits."""

    list_display = ("name", "namespace", "permits", "description", "updated_at")
    search_names = ("name", "name__startswith", "namespace")
    search_help_text = "Id, or the beginning of a name, or a namespace"


@admin.register(Permit)
class PermitAdmin(EngineAdmin):
    """Permits that tasks hold, for as long as their leases stand."""

    list_display = ("semaphore", "namespace", "permits", "task_id", "acquired_at", "run")
    search_ids = ("task_id", "workflow_id")
    search_names = ("semaphore", "namespace")
    search_help_text = "Id of the task or its run, or the whole name of a semaphore"

    @admin.display(description="workflow")
    def run(self, obj: Permit) -> SafeString:
        url = reverse("admin:workflows_execution_change", args=[obj.workflow_id])
        return format_html('<a href="{}">{}</a>', url, obj.workflow_id)
