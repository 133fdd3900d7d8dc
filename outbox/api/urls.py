"""Paths of events; literal segments stand before parameters."""

from __future__ import annotations

from django.urls import path

from outbox.api import events

urlpatterns = [
    path("event", events.Handlers.as_view()),
    path("event/publish", events.Publish.as_view()),
    path("event/executions", events.Executions.as_view()),
    path("event/<path:name>", events.HandlersOf.as_view()),
]
