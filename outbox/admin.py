"""The admin of the outbox: events, dead letters, and their replay."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import URLPattern, path

from orchestrator.admin import EngineAdmin
from orchestrator.errors import OstinatoError
from orchestrator.masking import Names
from outbox.models import EventExecution, EventHandler, OutboxEvent, Webhook
from workflows.engine.masked_fields import carried

_CONDITIONS = {
    "dead": {"dead_at__isnull": False},
    "waiting": {"delivered_at__isnull": True, "dead_at__isnull": True},
    "delivered": {"delivered_at__isnull": False},
}


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("dead", "dead letters"), ("waiting", "waiting"), ("delivered", "delivered")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**_CONDITIONS.get(self.value() or "", {}))


@admin.register(OutboxEvent)
class OutboxEventAdmin(EngineAdmin):
    """Effects on their way, delivered, or given up; the last can be replayed."""

    list_display = ("id", "topic", "state", "attempts", "created_at", "next_attempt_at", "last_error", "namespace")
    list_filter = (StateFilter,)
    search_ids = ("id", "order_key")
    search_names = ("topic",)
    search_help_text = "Id of the event, its order key, or the whole topic"
    actions = ("replay_selected",)
    change_form_template = "admin/outbox/outboxevent/change_form.html"
    own_keys = ("payload",)

    def masked_names(self, obj: Any) -> Names:
        return carried(obj.payload)

    @admin.display
    def state(self, obj: OutboxEvent) -> str:
        if obj.dead_at:
            return "dead letter"
        return "delivered" if obj.delivered_at else "waiting"

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return self.operates(request)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.replay_view)
        return [path("<uuid:event_id>/replay/", view, name="outbox_outboxevent_replay"), *super().get_urls()]

    def replay_view(self, request: HttpRequest, event_id: UUID) -> HttpResponse:
        """The button of one dead letter."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.operates(request):
            raise PermissionDenied
        self._replay(request, [event_id])
        return redirect("admin:outbox_outboxevent_change", event_id)

    @admin.action(description="Replay selected dead letters", permissions=["operate"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._replay(request, list(queryset.values_list("id", flat=True)))

    def _replay(self, request: HttpRequest, ids: list[UUID]) -> None:
        from outbox.services import relay

        try:
            count = relay.replay(ids, actor=request.user.get_username())
        except OstinatoError as error:
            self.message_user(request, error.message, messages.ERROR)
            return
        if count:
            self.message_user(request, f"Replayed: {count} event(s).", messages.SUCCESS)
        else:
            self.message_user(request, "Nothing was replayed: only a dead letter can be.", messages.ERROR)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        event = kwargs.get("obj")
        context["may_replay"] = event is not None and event.dead_at is not None and self.operates(request)
        return super().render_change_form(request, context, *args, **kwargs)


@admin.register(EventHandler)
class EventHandlerAdmin(EngineAdmin):
    """What is done when an event is published; registered by /api/event."""

    list_display = ("name", "event", "active", "namespace", "updated_at")
    search_names = ("name", "event", "namespace")
    search_help_text = "Id, or the whole name of a handler, event or namespace"


@admin.register(EventExecution)
class EventExecutionAdmin(EngineAdmin):
    """What handlers did, action by action."""

    list_display = ("id", "handler", "event", "action", "status", "reason", "created_at", "namespace")
    search_names = ("handler", "event", "message_id", "status")
    search_help_text = "Id, or the whole handler, event, message id or status"
    own_keys = ("detail",)

    def masked_names(self, obj: Any) -> Names:
        return carried(obj.detail)


@admin.register(Webhook)
class WebhookAdmin(EngineAdmin):
    """Addresses for deliveries from outside; registered by /api/webhooks."""

    list_display = ("name", "id", "namespace", "created_by", "updated_at")
    search_names = ("name", "namespace")
    search_help_text = "Id, or the whole name of a webhook or namespace"
