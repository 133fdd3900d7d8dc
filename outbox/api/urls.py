"""Paths of events and webhooks; literal segments stand before parameters."""

from __future__ import annotations

from django.urls import path

from outbox.api import events, webhooks

urlpatterns = [
    path("event", events.Handlers.as_view()),
    path("event/publish", events.Publish.as_view()),
    path("event/executions", events.Executions.as_view()),
    path("event/execution/<str:execution_id>/replay", events.Replay.as_view()),
    path("event/<path:name>", events.HandlersOf.as_view()),
    path("webhooks", webhooks.Webhooks.as_view()),
    path("webhooks/<str:webhook_id>", webhooks.Webhook.as_view()),
    path("webhook/<str:webhook_id>", webhooks.Receive.as_view()),
]
