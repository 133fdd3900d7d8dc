"""Websocket routes."""

from __future__ import annotations

from django.urls import path

from workflows.consumers import HistoryConsumer

websocket_urlpatterns = [path("ws/executions/<uuid:workflow_id>/", HistoryConsumer.as_asgi())]
